"""A table whose columns change, its contract, and its mirror beside the model.

What belongs here: what a load read goes to the model; every layer is compared with what the model
says. What doesn't: which changes there are (`tests/integration/operations/test_ddl_histories.py`).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from demo.oracle import compare_table
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.table.columns.exchanged import exchanged_name, undecided_pairs
from mirrorlake.workspace import Workspace
from tests.integration import ddl_model
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.ddl_cases import FIRST, SECRET, literal
from tests.integration.ddl_model import Cell, Loaded, Model, Reading, arrow_words, cells_of
from tests.integration.lakes import READERS
from tests.soak.steps import Watcher

ORIGINAL = "_mirror_original"
OWN = ("id", "modified_at")


class Mirror:
    """One table of a live server and everything that is kept of it."""

    def __init__(self, server: MariaDB, place: Place, database: str, table: str) -> None:
        self.server, self.place, self.database, self.table = server, place, database, table
        self.app = server.admin(database)
        # MySQL cuts and replaces values as it likes.
        self.app.query("SET time_zone = '+00:00', sql_mode = '', lock_wait_timeout = 5")
        self.model = Model()
        self.value = 0
        self.altered = False
        """Whether there was any DDL since the last load."""
        self.loaded_columns: list[tuple[str, str]] = []
        """The columns of the newest version that the mirror knows."""
        self.rules: dict[str, dict[str, Any]] = {SECRET: {"pii": "mask"}}
        self.known: set[str] | None = None
        """The columns that clean knows, in lower case; None before the first load."""
        self.renamed: set[str] = set()
        """Every earlier name that the contract said at a load, in lower case."""
        self.secret = {SECRET}
        """The columns into which secrets are written, in lower case."""
        self.guarded = {SECRET}
        """Names under which the mirror may ever have held secrets: no rule shows them again."""

    def create(self, terms: dict[str, Any]) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in FIRST.items())
        self.app.query(
            f"CREATE TABLE {self.table} (id INT AUTO_INCREMENT PRIMARY KEY, {columns}, "
            "modified_at DATETIME(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6) "
            "ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
        )
        self.terms = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
        self.terms |= {"overlap": "0s", **terms}
        self.write_contract()

    # --- MySQL ------------------------------------------------------------------------------------

    def ask(self, query: str) -> list[tuple[Any, ...]]:
        with self.app.cursor() as cursor:
            cursor.execute(query)
            return list(cursor.fetchall())

    def columns(self) -> dict[str, str]:
        """Name → its type as the server prints it, in the server's order."""
        query = f"SHOW COLUMNS FROM {self.table}"
        return {name: kind for name, kind, *_ in self.ask(query)}

    def free(self) -> list[str]:
        """Those that may be changed."""
        return [name for name in self.columns() if name not in OWN]

    def reading(self) -> Reading:
        return ddl_model.read(self.app, self.database, self.table)

    def alter(self, change: str) -> None:
        self.app.query(f"ALTER TABLE {self.table} {change}")
        self.altered = True
        if not self.is_new_version:
            # There and back between two loads: nobody notices, as the documents say. A person who
            # does that says which rows changed.
            self.app.query(f"UPDATE {self.table} SET modified_at = CURRENT_TIMESTAMP(6)")

    @property
    def is_new_version(self) -> bool:
        """Whether the newest version that the mirror knows is another one."""
        return list(self.columns().items()) != self.loaded_columns

    def values(self) -> dict[str, str]:
        """New values of all columns, as SQL."""
        found: dict[str, str] = {}
        for at, (name, kind, nullable, *_) in enumerate(
            self.ask(f"SHOW COLUMNS FROM {self.table}")
        ):
            if name in OWN:
                continue
            self.value += 1
            number = self.value + at
            found[name] = literal(kind, number)
            if name.lower() in self.secret:
                found[name] = f"'secret-{number}'"
            if number % 7 == 0 and nullable == "YES":
                found[name] = "NULL"
        return found

    # --- the contract -----------------------------------------------------------------------------

    def write_contract(self) -> None:
        for name in self.columns():
            # What clean does not know it holds out by itself.
            shown = self.known is None or name.lower() in self.known
            if shown and name.lower() in self.guarded and not self.is_named(name):
                self.rules[name] = {"pii": self.rule_of(name)}
        path = write_contract(
            self.place.folder / f"{self.database}_{self.table}.yaml",
            self.server.port,
            {self.database: {"tables": {self.table: {**self.terms, "columns": self.rules}}}},
            ledger={"url": "sqlite:///ledger.db", "wait": "10s"},
        )
        config = load_config(path)
        self.contract = config.table(f"s.{self.database}.{self.table}")
        self.workspace = Workspace.open(config, spark=self.place.spark)
        ledger = self.place.folder / "ledger.db"
        self.watcher = Watcher(ledger, self.place.lake, self.contract)

    def is_named(self, column: str) -> bool:
        return column.lower() in {name.lower() for name in self.rules}

    def rule_of(self, column: str) -> str:
        """What a careful person writes of a column."""
        if column.lower() not in self.guarded:
            return "show"
        kind = {name.lower(): kind for name, kind in self.columns().items()}[column.lower()]
        return "mask" if ddl_model.lake_type(kind) == "string" else "drop"

    def say(self, column: str, rule: str, earlier: list[str]) -> None:
        """Write a rule of a column into the contract, and the names that it had before."""
        hint = {"renamed_from": earlier} if earlier else {}
        # Of a column whose name changed its case since, a rule stands there already.
        for name in [one for one in self.rules if one.lower() == column.lower()]:
            del self.rules[name]
        self.rules[column] = {"pii": rule, **hint}
        if earlier:
            self.model.earlier[column.lower()] = earlier
        self.write_contract()

    def forget(self, column: str) -> tuple[str | None, list[str]]:
        """Take a column that is gone out of the contract; its rule, and its earlier names."""
        lower = column.lower()
        name = next((one for one in self.rules if one.lower() == lower), None)
        rule = self.rules.pop(name)["pii"] if name else None
        return rule, self.model.earlier.pop(lower, [])

    @property
    def said(self) -> set[str]:
        """The earlier names that the contract says, in lower case."""
        return {name for earlier in self.model.earlier.values() for name in earlier}

    def held(self, names: list[str]) -> list[str]:
        """Columns that clean leaves out until the contract names them, or until a person says which
        of two columns of one type they are."""
        known = {name.lower() for name in names} if self.known is None else self.known
        spoken = known | {name.lower() for name in (*OWN, *self.rules)}
        spoken -= self.doubted()
        return [name for name in names if name.lower() not in spoken]

    def doubted(self) -> set[str]:
        """Columns of which one may have what a rule hid of the other: by the ledger's word, for the
        secret is looked for in all that is shown. Without a secret's name there is no doubt."""
        kept = self.workspace.ledger.definition(exchanged_name(self.contract))
        pairs = undecided_pairs(kept, self.contract)
        ruled = {name.lower() for name in self.rules} | self.guarded
        assert {hidden for hidden, _ in pairs} <= ruled
        return {name for pair in pairs for name in pair}

    # --- loads ------------------------------------------------------------------------------------

    def load(self, act: Callable[..., Any]) -> None:
        """Act, and let the model see what the window that it made was to read."""
        reading, columns = self.reading(), self.columns()
        windows = self.watcher.last_window() if self.model.loads else 0
        act(self.workspace, self.contract, accept_smaller=True)
        [(load_id, kind, lo)] = self.watcher.ask(_WINDOWS)[windows:]
        rows = reading.rows
        if kind != "initial":
            begin = datetime.fromisoformat(lo)
            stamps = {key: str(row["modified_at"]) for key, row in rows.items()}
            rows = {k: r for k, r in rows.items() if datetime.fromisoformat(stamps[k]) >= begin}
        [(seq, receipt)] = self.watcher.ask(_LOAD, load_id)
        if self.model.loads and json.loads(receipt).get("began") == seq:
            # Only an ALTER that looks like a rebuilt table may begin a new history.
            assert self.altered
            assert self.terms["deletes"] == "remove"
            self.model.seen.clear()
        self.model.take(Loaded(load_id, reading.types, rows))
        self.renamed |= self.said
        self.altered, self.loaded_columns = False, list(columns.items())
        self.remember(list(columns))

    def remember(self, names: list[str]) -> None:
        """A column that MySQL dropped is new to clean when it comes back."""
        now = {name.lower() for name in names}
        self.known = now if self.known is None else self.known & now

    # --- the lake ---------------------------------------------------------------------------------

    def lake(self, *, raw: bool = True) -> dict[str, Any]:
        """What readers are shown: each table's snapshot and columns, and the views' texts."""
        if not self.model.loads:
            return {}
        spaces, tables = self.contract.namespaces, {}
        layers = [self.watcher.layer("deduped"), self.watcher.layer("clean")]
        for table in [*(self.watcher.raw_tables() if raw else []), *filter(None, layers)]:
            head = table.current_snapshot()
            if head is not None:
                tables[str(table.name())] = (head.snapshot_id, str(table.schema()))
        for namespace in (spaces.raw, spaces.clean):
            view = read_view(self.place.lake, Identifier(namespace, self.table))
            tables[f"view in {namespace}"] = view and view.sql
        if self.contract.versions == "table" and (versions := self._versions()) is not None:
            tables["versions"] = (versions.current_snapshot(), str(versions.schema()))
        return tables

    def shown(self, layer: str) -> pa.Table:
        """What Spark shows of a layer."""
        namespace = getattr(self.contract.namespaces, layer)
        return self.place.spark.get().table(f"lake.{namespace}.{self.table}").toArrow()

    def check_layers(self) -> dict[int, dict[str, Cell]]:
        """Every layer is what the model says; deduped's rows."""
        self._check_raw()
        rows = self._check_deduped()
        self._check_clean(rows)
        return rows

    def _check_raw(self) -> None:
        """Every row that any load read is there, once, under the names and in the types of now."""
        if self.contract.versions == "view":
            self._check_versions(self.shown("raw"), "the view over raw")
            return
        table = self._versions()
        assert table is not None
        for reader, read in READERS.items():
            self._check_versions(read(table), f"the table of all versions, by {reader}")

    def _versions(self) -> Table | None:
        return self.place.lake.load(Identifier(self.contract.namespaces.raw, self.table))

    def _check_versions(self, found: pa.Table, what: str) -> None:
        types, expected = self.model.view()
        kinds = {f.name: arrow_words(f.type) for f in found.schema}
        own = {name: kind for name, kind in kinds.items() if not name.startswith("_mirror_")}
        shown = {name.lower(): kind for name, kind in own.items()}
        assert (shown, len(own)) == (types, len(types)), f"shown: {own}, expected: {types}"
        rows = found.to_pylist()
        cells = {(row["_mirror_load"], row["id"]): cells_of(row, ORIGINAL) for row in rows}
        assert len(cells) == len(rows), "a row is shown twice"
        _same(cells, expected, what)

    def _check_deduped(self) -> dict[int, dict[str, Cell]]:
        table = self.watcher.layer("deduped")
        assert table is not None
        found = table.scan().to_arrow()
        names = [name for name in found.column_names if not name.startswith("_mirror_")]
        assert sorted(names) == sorted(self.model.names)
        rows = found.to_pylist()
        cells = {row["id"]: cells_of(row, ORIGINAL) for row in rows}
        assert len(cells) == len(rows), "a key is there twice"
        _same(cells, self.model.deduped(), "deduped")
        return cells

    def _check_clean(self, deduped: dict[int, dict[str, Cell]]) -> None:
        """Clean is deduped by the rules, and no secret is in it under any name."""
        names = self.model.names
        rules = {name.lower(): rule["pii"] for name, rule in self.rules.items()}
        rules |= {name.lower(): "drop" for name in self.held(names)}
        found = self.shown("clean").to_pylist()
        assert "secret" not in str(found)
        cells = {row["id"]: cells_of(row, ORIGINAL) for row in found}
        assert len(cells) == len(found)
        expected = {
            key: {
                name: _masked(cell) if rules.get(name) == "mask" else cell
                for name, cell in row.items()
                if rules.get(name) != "drop"
            }
            for key, row in deduped.items()
        }
        for row in found:
            columns = {name.lower() for name in row if not name.startswith("_mirror_")}
            assert columns == {n.lower() for n in names if rules.get(n.lower()) != "drop"}
        _same(cells, expected, "clean")

    def check_mysql(self) -> set[int]:
        """Deduped is MySQL's table, by the independent oracle, and the keys that only the mirror
        holds: those that were deleted since a load read them."""
        only = set(self.model.seen) - self.reading().rows.keys()
        with self.server.admin() as admin:
            deduped = self.watcher.layer("deduped")
            verdict = compare_table(admin, self.database, self.table, ("id",), deduped)
        assert verdict.equal_but_for({(str(key),) for key in only}), verdict.describe()
        return only


_WINDOWS = "SELECT load_id, kind, lo FROM windows WHERE table_name = ? ORDER BY rowid"
_LOAD = "SELECT seq, receipt FROM loads WHERE table_name = ? AND load_id = ?"


def _masked(cell: Cell) -> Cell:
    text = cell[0]
    return (None if text is None else "********" + (text[-2:] if len(text) >= 6 else "")), None


def _same(found: dict[Any, Any], expected: dict[Any, Any], what: str) -> None:
    """Every row and cell; a column that a row's version lacked is NULL."""
    others = (expected.keys() - found.keys(), found.keys() - expected.keys())
    assert others == (set(), set()), f"{what}: missing and surplus rows: {others}"
    for key, row in found.items():
        wanted = {name.lower(): cell for name, cell in expected[key].items()}
        cells = {name: wanted.pop(name, (None, None)) for name in row}
        assert not wanted, f"{what} {key} lacks {wanted}"
        differs = {n: (cell, cells[n]) for n, cell in row.items() if cell != cells[n]}
        assert not differs, f"{what} {key} (found, expected): {differs}"
