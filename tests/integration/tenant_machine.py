"""A machine that alters tenants, each by itself, and mirrors them: all are read as MySQL has them.

A Hypothesis state machine changes rows and columns of a few tenants on a live server, drops some
and makes others, and syncs them beside a model that knows no engine: MySQL's own text of each row
of a tenant's newest copy, and the columns of every shape that was ever loaded. Types and texts are
those of `tests.integration.ddl_model`. After every sync deduped has each tenant's rows in the
columns of all shapes, the view over raw has the same, and clean has no secret.
"""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from mirrorlake.failpoints import OF_TENANTS
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.results import TenantsSynced
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place
from tests.integration.ddl_cases import ADDED, PLACES, literal, retypes
from tests.integration.ddl_model import Cell, Reading, cell_in, cells_of, read, united
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner

ANY = st.integers(0, 19)
KEYS = ("INT", "BIGINT")
NAMES = ("a", "b c", "d`e", "ſtate", "größe")
"""Names that columns of several tenants have, each of its own type, and in either case."""
SECRET = "mail"
ORIGINAL = "_mirror_original"
PLACE = ("_mirror_source", "_mirror_database")
MOST = 4
"""So many tenants are there at once."""
_numbers = itertools.count()

Rows = dict[tuple[str, int], dict[str, Cell]]
"""(Database, id) → column, in lower case → its value and the original text beside it."""


@dataclass(frozen=True)
class TenantWorld:
    """What all histories share."""

    server: EmbeddedServer
    place: Place
    runner: Runner
    taken: Counter[str] = field(default_factory=Counter[str])
    """How often each rule had an effect."""


def called(there: Iterable[str], earlier: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Column, in lower case → its name in one shape: a column that the shape lacks may be there by
    the newest of the names that it had."""
    names = {name.lower(): name for name in there}
    became = {
        next(one for one in had if one in names): column
        for column, had in earlier.items()
        if column not in names and any(one in names for one in had)
    }
    return {became.get(lower, lower): name for lower, name in names.items()}


class TenantHistories(RuleBasedStateMachine):
    """A few tenants, whose columns change."""

    def __init__(self, world: TenantWorld) -> None:
        super().__init__()
        self.taken, self.runner = world.taken, world.runner
        self.tenants = Tenants(world.server, world.place, f"h{next(_numbers)}x")
        self.value = 0
        self.copies: dict[str, Reading] = {}
        """Database → its newest copy."""
        self.shapes: list[dict[str, str]] = []
        """The columns of every shape that was ever loaded, and their lake types."""
        self.earlier: dict[str, list[str]] = {}
        """Column → the names that it had, as the contract says; all in lower case."""
        self.said: tuple[dict[str, list[str]], dict[str, Any]] = ({}, {})
        """The earlier names, and the rules, by which the last sync was made."""
        self.ever: set[str] = set()
        """Every column, in lower case, that deduped ever had: it stays, and is NULL."""
        self.known: set[str] | None = None
        """The columns that clean knows, in lower case; None before the first sync."""

    @initialize(
        clean=st.sampled_from(["view", "table"]), dropped=st.sampled_from(["keep", "remove"])
    )
    def first(self, clean: str, dropped: str) -> None:
        rules = {SECRET: {"pii": None}}
        self.tenants.contract = {"key": ["id"], "clean": clean, "columns": rules}
        self.tenants.group = {"dropped": dropped}
        self.join("INT")
        self.join("INT")
        self.taken[f"clean as a {clean}"] += 1
        self.taken[f"dropped: {dropped}"] += 1

    # --- tenants ----------------------------------------------------------------------------------

    @precondition(lambda self: len(self.tenants.made) < MOST)
    @rule(key=st.sampled_from(KEYS))
    def join(self, key: str) -> None:
        columns = f"id {key} PRIMARY KEY, {SECRET} VARCHAR(40), n INT"
        database = self.tenants.make(f"{next(_numbers)}", columns)
        for _ in range(3):
            self.insert(self.tenants.made.index(database))
        self.taken["join"] += 1

    @precondition(lambda self: len(self.tenants.made) > 1)
    @rule(at=ANY)
    def leave(self, at: int) -> None:
        self.tenants.drop(self._at(at).removeprefix(f"{self.tenants.prefix}_"))
        self.taken["leave"] += 1

    @rule(at=ANY, again=st.booleans())
    def make_again(self, at: int, again: bool) -> None:
        """The table is another one under its name, with the columns that it had or as at first."""
        database, columns = self._at(at), f"id INT PRIMARY KEY, {SECRET} VARCHAR(40), n INT"
        new = "CREATE TABLE new LIKE orders" if again else f"CREATE TABLE new ({columns})"
        swap = "RENAME TABLE orders TO was, new TO orders"
        self.tenants.sql(new, swap, "DROP TABLE was", database=database)
        self.insert(at)
        self.taken["made again" if again else "made again otherwise"] += 1

    # --- rows -------------------------------------------------------------------------------------

    @rule(at=ANY)
    def insert(self, at: int) -> None:
        self.value += 1
        values = {**self._values(self._at(at)), "id": str(self.value)}
        names = ", ".join(_quoted(name) for name in values)
        statement = f"INSERT INTO orders ({names}) VALUES ({', '.join(values.values())})"
        self.tenants.sql(statement, database=self._at(at))
        self.taken["insert"] += 1

    @rule(at=ANY)
    def update(self, at: int) -> None:
        values = self._values(self._at(at))
        cells = ", ".join(f"{_quoted(name)} = {value}" for name, value in values.items())
        statement = f"UPDATE orders SET {cells} ORDER BY id LIMIT 1"
        self.tenants.sql(statement, database=self._at(at))
        self.taken["update"] += 1

    @rule(at=ANY)
    def delete(self, at: int) -> None:
        self.tenants.sql("DELETE FROM orders ORDER BY id LIMIT 1", database=self._at(at))
        self.taken["delete"] += 1

    # --- columns ----------------------------------------------------------------------------------

    @rule(
        at=ANY,
        name=st.sampled_from(NAMES),
        kind=st.sampled_from(ADDED),
        place=st.sampled_from(PLACES),
    )
    def add(self, at: int, name: str, kind: str, place: str) -> None:
        if name.lower() not in {one.lower() for one in self._columns(self._at(at))}:
            self._alter(at, f"ADD COLUMN {_quoted(name)} {kind} {place}")
            self.taken["add"] += 1

    @rule(at=ANY, which=ANY)
    def drop(self, at: int, which: int) -> None:
        self._alter(at, f"DROP COLUMN {_quoted(self._some(at, which))}")
        self.taken["drop"] += 1

    @rule(at=ANY, which=ANY, to=ANY)
    def retype(self, at: int, which: int, to: int) -> None:
        name = self._some(at, which)
        kinds = retypes(self._columns(self._at(at))[name])
        self._alter(at, f"MODIFY {_quoted(name)} {kinds[to % len(kinds)]}")
        self.taken["retype"] += 1

    @rule(at=ANY, which=ANY)
    def rename_in_case(self, at: int, which: int) -> None:
        name = self._free(at, which)
        if name and name.swapcase().lower() == name.lower():
            self._alter(at, f"RENAME COLUMN {_quoted(name)} TO {_quoted(name.swapcase())}")
            self.taken["rename in case"] += 1

    @rule(at=ANY, which=ANY, secret=st.booleans())
    def rename(self, at: int, which: int, secret: bool) -> None:
        """One tenant alone, and the contract says it: the others have it by its name of before."""
        name = SECRET if secret else self._some(at, which)
        columns = {one.lower() for one in self._columns(self._at(at))}
        said = {one for had in self.earlier.values() for one in had}
        if name.lower() not in columns or name.lower() in {*said, *self.earlier}:
            return
        new = f"r{next(_numbers)}"
        self._alter(at, f"RENAME COLUMN {_quoted(name)} TO {new}")
        self.earlier[new] = [name.lower()]
        rules = {"pii": None if name == SECRET else "show", "renamed_from": [name]}
        # Every shape has it by the new name now, or by what the contract says it was.
        self.tenants.contract["columns"].pop(name, None)
        self.tenants.contract["columns"][new] = rules
        self.taken["rename a secret" if name == SECRET else "rename"] += 1

    @rule(at=ANY)
    def widen_the_key(self, at: int) -> None:
        self._alter(at, "MODIFY id BIGINT")
        self.taken["wider key"] += 1

    # --- the mirror -------------------------------------------------------------------------------

    @rule()
    def sync(self) -> None:
        done = self.tenants.sync(accept_smaller=True)
        assert done.failed == {}, done.failed
        self._take(done, self._readings())
        self.check()
        self.taken["sync"] += 1

    @rule(at=ANY, point=st.sampled_from(["tenants.pending", "tenants.committed"]))
    def alter_while_it_loads(self, at: int, point: str) -> None:
        """Before its shape is read the tenant is refused; after its commit it is what was read."""
        database, readings, done = self._at(at), self._readings(), list[str]()

        def alter(passed: str) -> None:
            if passed == point and not done:
                done.append(passed)
                self._alter(at, f"ADD COLUMN late{next(_numbers)} INT DEFAULT 7")

        with pytest.MonkeyPatch.context() as patched:
            for module in ("mirrorlake.load.tenants.protocol", "mirrorlake.load.protocol.load_run"):
                patched.setattr(f"{module}.failpoint", alter)
            found = self.tenants.sync(accept_smaller=True)
        refused = {name.partition(".")[2] for name in found.failed}
        assert refused <= {database}
        # Its shape is there, though no row of it is.
        self.shapes += [readings[name].types for name in refused]
        self._take(found, {name: one for name, one in readings.items() if name not in refused})
        self.taken["refused" if refused else f"altered at {point}"] += 1
        if refused:  # deduped has the columns of its shape once something is folded
            self.sync()
        else:
            self.check()

    @rule(at=ANY, point=st.sampled_from(OF_TENANTS))
    def killed(self, at: int, point: str) -> None:
        """A run dies where nobody chose it to; rows change, and the next one goes on from there."""
        order = Order(self.tenants.write(), "orders", "tenants", failpoint=point)
        code = self.runner.run(replace(order, accept_smaller=True)).code
        self.insert(at)
        self.sync()
        self.taken["killed" if code == -signal.SIGKILL else "nothing to kill"] += 1

    @precondition(lambda self: self.copies)
    @rule()
    def maintain(self) -> None:
        with self.tenants.opened() as (workspace, table):
            maintain_table(workspace, table)
        self.check()
        self.taken["maintain"] += 1

    def teardown(self) -> None:
        try:
            self.sync()
            with self.tenants.opened() as (workspace, table):
                found = check_tenants(workspace, table, frozenset())
            assert found.verdict == "equal", found
        finally:
            self.tenants.close()

    # --- what must hold ---------------------------------------------------------------------------

    def check(self) -> None:
        """Every layer is what the model says."""
        types, expected = self.model()
        deduped = self.tenants.rows()
        _same(_keyed(deduped.to_pylist()), expected, self.ever)
        self.ever |= types.keys()
        columns = [name for name in deduped.column_names if not _is_ours(name)]
        assert sorted(map(str.lower, columns)) == sorted(self.ever)
        with self.tenants.opened() as (workspace, table):
            known = workspace.ledger.tenants(table.name).values()
        loads = {tenant.database: tenant.load_id for tenant in known}
        raw = [r for r in self.tenants.shown("raw") if loads.get(r[PLACE[1]]) == r["_mirror_load"]]
        there = {name for name, _ in expected}
        _same(_keyed([row for row in raw if row[PLACE[1]] in there]), expected, self.ever)
        self._check_clean(expected)

    def model(self) -> tuple[dict[str, str], Rows]:
        """Each column of deduped with its type; and every row."""
        earlier, _ = self.said
        held = [called(shape, earlier) for shape in self.shapes]
        names = dict.fromkeys(name for there in held for name in there)
        types = {
            name: united(
                s[there[name]] for s, there in zip(self.shapes, held, strict=True) if name in there
            )
            for name in names
        }
        rows: Rows = {}
        for database, copy in self.copies.items():
            there = called(copy.types, earlier)
            for key, texts in copy.rows.items():
                rows[database, key] = {
                    name: cell_in(texts[there[name]], copy.types[there[name]], kind)
                    if name in there
                    else (None, None)
                    for name, kind in types.items()
                }
        return types, rows

    def _check_clean(self, deduped: Rows) -> None:
        found = self.tenants.shown()
        assert "secret" not in str(found)
        _, rules = self.said
        named = {name.lower() for name in rules}
        shown = (self.known or set()) | named | {"id"}
        hidden = {name.lower() for name, rule in rules.items() if rule["pii"] is None}
        expected = {
            place: {
                name: (None, None) if name in hidden else cell
                for name, cell in row.items()
                if name in shown
            }
            for place, row in deduped.items()
        }
        _same(_keyed(found), expected, self.ever)

    def _take(self, done: TenantsSynced, readings: Mapping[str, Reading]) -> None:
        """What a sync read goes to the model."""
        self.said = ({**self.earlier}, {**self.tenants.contract["columns"]})
        self.copies |= readings
        self.shapes += [one.types for one in readings.values() if one.types not in self.shapes]
        there = {*self.tenants.made}
        if self.tenants.group["dropped"] == "remove":
            self.copies = {name: one for name, one in self.copies.items() if name in there}
        if self.known is None and done.read:
            held = [called(shape, self.earlier) for shape in self.shapes]
            self.known = {name for one in held for name in one}

    # --- small steps ------------------------------------------------------------------------------

    def _readings(self) -> dict[str, Reading]:
        connection = self.tenants.server.admin()
        try:
            connection.query("SET time_zone = '+00:00'")
            return {name: read(connection, name, "orders") for name in self.tenants.made}
        finally:
            connection.close()

    def _at(self, at: int) -> str:
        return self.tenants.made[at % len(self.tenants.made)]

    def _columns(self, database: str) -> dict[str, str]:
        found = self.tenants.sql("SHOW COLUMNS FROM orders", database=database)
        return {name: kind for name, kind, *_ in found}

    def _some(self, at: int, which: int) -> str:
        """A column that may go or change; where there is none, one that is added for it. Rules are
        drawn unevenly: without it one that needs a column has none to take in a whole run."""
        if name := self._free(at, which):
            return name
        name = f"x{next(_numbers)}"
        self._alter(at, f"ADD COLUMN {name} INT")
        return name

    def _free(self, at: int, which: int) -> str | None:
        names = [n for n in self._columns(self._at(at)) if n.lower() not in ("id", SECRET)]
        secret = {new for new, had in self.earlier.items() if SECRET in had}
        names = [name for name in names if name.lower() not in secret]
        return names[which % len(names)] if names else None

    def _alter(self, at: int, change: str) -> None:
        self.tenants.sql(f"ALTER TABLE orders {change}", database=self._at(at))

    def _values(self, database: str) -> dict[str, str]:
        """New values of all columns but the key, as SQL."""
        secret = {SECRET, *(new for new, had in self.earlier.items() if SECRET in had)}
        found: dict[str, str] = {}
        for name, kind in self._columns(database).items():
            self.value += 1
            found[name] = literal(kind, self.value)
            if name.lower() in secret:
                found[name] = f"'secret-{self.value}'"
            if self.value % 7 == 0:
                found[name] = "NULL"
        del found["id"]
        return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _is_ours(name: str) -> bool:
    return name.startswith("_mirror_")


def _keyed(rows: Sequence[Mapping[str, Any]]) -> Rows:
    """Rows of a layer by tenant and key, each once; what the model says is compared with them."""
    found = {(str(row[PLACE[1]]), int(row["id"])): cells_of(row, ORIGINAL) for row in rows}
    assert len(found) == len(rows), "a row is shown twice"
    return found


def _same(found: Rows, expected: Rows, ever: set[str]) -> None:
    """Every row and cell; a column that nobody has by its name any more is NULL."""
    others = (expected.keys() - found.keys(), found.keys() - expected.keys())
    assert others == (set(), set()), f"missing and surplus rows: {others}"
    for place, row in found.items():
        wanted = {**dict.fromkeys(row.keys() & ever, (None, None)), **expected[place]}
        assert row.keys() == wanted.keys(), f"{place}: {row.keys() ^ wanted.keys()}"
        differs = {name: (cell, wanted[name]) for name, cell in row.items() if cell != wanted[name]}
        assert not differs, f"{place} (found, expected): {differs}"
