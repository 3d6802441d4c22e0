"""A machine that alters a table and mirrors it: what was loaded is read back as it was.

A Hypothesis state machine alters a table on a live server and drives the real engine beside a model
that knows no engine (`tests.integration.ddl_model`): it keeps MySQL's own text of each row that a
load read. After every step that shows anything, the view over raw has each of these rows under the
names and in the types of now, deduped is MySQL's table and what only the mirror holds, clean is
deduped by the rules, and no masked text is shown under any name. What the documents refuse is
refused, and leaves the lake as it was.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import load_table, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.ddl_cases import ADDED, PLACES, TEXTS, literal, retypes
from tests.integration.ddl_mirror import Mirror
from tests.integration.ddl_model import Loaded

MOST_COLUMNS = 10
_numbers = itertools.count()
ANY = st.integers(0, 19)


@dataclass(frozen=True)
class World:
    """What all histories share."""

    server: MariaDB
    place: Place
    database: str
    taken: Counter[str] = field(default_factory=Counter[str])
    """How often each rule had an effect."""


class DdlHistories(RuleBasedStateMachine):
    """One table, whose columns change."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.taken = world.taken
        self.mirror = Mirror(world.server, world.place, world.database, f"d{next(_numbers)}")
        self.model = self.mirror.model
        self.number = 0
        self.spent: set[str] = set()
        """Names that a rename has left, as the contract says: no other column may have them."""
        self.unsaid: dict[str, str] = {}
        """Name now → the name before, of renames of which the contract knows nothing."""

    @initialize(
        rows=st.integers(2, 4),
        clean=st.sampled_from(["view", "table"]),
        deletes=st.sampled_from(["ignore", "remove"]),
        versions=st.sampled_from(["view", "table"]),
    )
    def first_rows(self, rows: int, clean: str, deletes: str, versions: str) -> None:
        self.mirror.create({"clean": clean, "deletes": deletes, "versions": versions})
        self.taken[f"versions as a {versions}"] += 1
        for _ in range(rows):
            self.insert()

    # --- the application --------------------------------------------------------------------------

    @rule()
    def insert(self) -> None:
        values = self.mirror.values()
        names = ", ".join(f"`{name}`" for name in values)
        into = f"INSERT INTO {self.mirror.table} ({names})"
        self.mirror.app.query(f"{into} VALUES ({', '.join(values.values())})")
        self.taken["insert"] += 1

    @rule(at=ANY)
    def update(self, at: int) -> None:
        if key := self._pick(self._keys(), at):
            values = ", ".join(f"`{name}` = {v}" for name, v in self.mirror.values().items())
            self.mirror.app.query(f"UPDATE {self.mirror.table} SET {values} WHERE id = {key}")
            self.taken["update"] += 1

    @rule(at=ANY)
    def delete(self, at: int) -> None:
        if key := self._pick(self._keys(), at):
            self.mirror.app.query(f"DELETE FROM {self.mirror.table} WHERE id = {key}")
            self.taken["delete"] += 1

    # --- columns ----------------------------------------------------------------------------------

    @precondition(lambda self: self._has_room())
    @rule(kind=st.sampled_from(ADDED), place=st.sampled_from(PLACES))
    def add(self, kind: str, place: str) -> None:
        self.mirror.alter(f"ADD COLUMN `{self._new_name()}` {kind} {place}")
        self.taken["add"] += 1

    @precondition(lambda self: self._has_room())
    @rule(kind=st.sampled_from(ADDED), place=st.sampled_from(PLACES))
    def add_with_a_default(self, kind: str, place: str) -> None:
        """Every row has the default at once, and no cursor moves."""
        words = f"{kind} NOT NULL DEFAULT {literal(kind, 1)}"
        self.mirror.alter(f"ADD COLUMN `{self._new_name()}` {words} {place}")
        self.taken["add with a default"] += 1

    @precondition(lambda self: self._has_room() and self._gone())
    @rule(kind=st.sampled_from(ADDED), at=ANY)
    def bring_back(self, kind: str, at: int) -> None:
        """A name comes again that a column had before it was dropped."""
        name = self._pick(self._gone(), at)
        self._had(name)
        self.mirror.alter(f"ADD COLUMN `{name}` {kind}")
        self.mirror.write_contract()
        self.taken["bring back"] += 1

    @rule()
    def rebuild(self) -> None:
        """To the mirror that is another table under the same name."""
        self.mirror.alter("FORCE")
        self.taken["rebuild"] += 1

    @rule(at=ANY)
    def drop(self, at: int) -> None:
        if name := self._pick(self.mirror.free(), at):
            self.mirror.alter(f"DROP COLUMN `{name}`")
            self._forget(name)
            self.mirror.write_contract()
            self.taken["drop"] += 1

    @rule(at=ANY, said=st.booleans())
    def rename(self, at: int, said: bool) -> None:
        if not (name := self._pick(self.mirror.free(), at)):
            return
        new = self._new_name()
        self.mirror.alter(f"RENAME COLUMN `{name}` TO `{new}`")
        secrets = self._secrets(name)
        rule, earlier = self._forget(name)
        self._carry(secrets, new)
        if said and self._was_loaded(name):
            self.spent.add(name.lower())
            self.mirror.say(new, rule or self.mirror.rule_of(new), [name.lower(), *earlier])
            self.taken["rename"] += 1
            return
        self.unsaid[new] = name.lower()
        self.mirror.write_contract()
        self.taken["rename unsaid"] += 1

    @rule()
    def say_renames(self) -> None:
        """Later than they were made: what the mirror holds under an old name is the new one's."""
        there = {name.lower() for name in self.mirror.columns()}
        for new, name in list(self.unsaid.items()):
            if new in there and name not in there and self._was_loaded(name, new):
                del self.unsaid[new]
                self.spent.add(name)
                self.mirror.say(new, self.mirror.rule_of(new), [name])
                self.taken["rename said later"] += 1

    @rule(at=ANY)
    def rename_in_case(self, at: int) -> None:
        if name := self._pick(self.mirror.free(), at):
            self.mirror.alter(f"RENAME COLUMN `{name}` TO `{name.swapcase()}`")
            self.taken["rename in case"] += 1

    @rule(at=ANY, to=ANY)
    def take_over(self, at: int, to: int) -> None:
        """A column goes, and another one takes its name."""
        name, new = self._pick(self.mirror.free(), at), self._pick(self.mirror.free(), to)
        if not name or not new or name == new or not self._was_loaded(name):
            return
        kind, secrets = self.mirror.columns()[name], self._secrets(name)
        self.mirror.alter(f"DROP COLUMN `{new}`, CHANGE `{name}` `{new}` {kind}")
        _, earlier = self._forget(name)
        self._forget(new)
        self._had(new)
        self._carry(secrets, new)
        self.spent.add(name.lower())
        names = [name.lower(), *earlier]
        # What is gone is gone where it was read beside the other. What was read of it before there
        # was another is shown under its name: the careful go on masking it.
        beside = all(
            new.lower() not in there or there & set(names)
            for there in ({one.lower() for one in load.types} for load in self.model.loads)
        )
        is_secret = any(those is self.mirror.guarded for those in secrets)
        rule = "show" if beside and not is_secret else self.mirror.rule_of(new)
        self.mirror.say(new, rule, names)
        self.taken["take over"] += 1

    @rule(at=ANY, to=ANY, at_once=st.booleans())
    def retype(self, at: int, to: int, at_once: bool) -> None:
        """By MODIFY; or dropped and added again ``at_once``, and the values are gone."""
        if not (name := self._pick(self.mirror.free(), at)):
            return
        before = self.mirror.columns()[name]
        kinds = TEXTS if name.lower() in self.mirror.guarded else retypes(before)
        kind = str(self._pick(kinds, to))
        if kind.lower() != before:
            self.change_type(name, kind, at_once=at_once)

    def change_type(self, name: str, kind: str, *, at_once: bool = False) -> None:
        before = self.mirror.columns()[name]
        self.mirror.alter(
            f"DROP COLUMN `{name}`, ADD COLUMN `{name}` {kind}"
            if at_once
            else f"MODIFY `{name}` {kind}"
        )
        if at_once:
            self.mirror.secret.discard(name.lower())
        was, now = (words.partition("(")[0].lower() for words in (before, kind))
        self.taken["retype at once" if at_once else "retype"] += 1
        self.taken["labels" if was == now == "enum" else f"{was} to {now}"] += 1

    # --- the contract -----------------------------------------------------------------------------

    @rule(at=ANY)
    def decide(self, at: int) -> None:
        """Somebody looks at a column that clean holds out."""
        if name := self._pick(self.mirror.held(self.mirror.free()), at):
            self.mirror.say(name, self.mirror.rule_of(name), [])
            self.taken["decide"] += 1

    @precondition(lambda self: self.model.loads and (self.mirror.said or self.mirror.renamed))
    @rule(at=ANY)
    def a_name_comes_again(self, at: int) -> None:
        """What a rename has left can't be another column's."""
        name = str(self._pick(sorted(self.mirror.said | self.mirror.renamed), at))
        if name in {one.lower() for one in (*self.mirror.columns(), *self.model.names)}:
            return
        self.mirror.alter(f"ADD COLUMN `{name}` INT")
        before = self.mirror.lake()
        with pytest.raises(ConfigError, match="has a column of that name again"):
            self._sync_refused()
        assert self.mirror.lake() == before
        self.mirror.alter(f"DROP COLUMN `{name}`")
        self.taken["refused name"] += 1

    # --- the mirror -------------------------------------------------------------------------------

    @rule()
    def load(self) -> None:
        before = self.mirror.lake(raw=False)
        self.mirror.load(load_table)
        assert not before or self.mirror.lake(raw=False) == before
        self.taken["load"] += 1

    @rule()
    def sync(self) -> None:
        seen = len(self.model.seen)
        self.mirror.load(sync_table)
        self.taken["new history"] += len(self.model.seen) < seen
        self.mirror.check_layers()
        self.taken["kept by the mirror alone"] += len(self.mirror.check_mysql())
        self.taken["sync"] += 1

    @precondition(lambda self: self.model.seen)
    @rule(refolds=st.booleans())
    def fold(self, refolds: bool) -> None:
        act = refold_table if refolds else fold_table
        if self.mirror.is_new_version:
            before = self.mirror.lake()
            with pytest.raises(SchemaError, match="has other columns than were loaded"):
                act(self.mirror.workspace, self.mirror.contract)
            assert self.mirror.lake() == before
            self.taken["refused fold"] += 1
            return
        act(self.mirror.workspace, self.mirror.contract)
        self.mirror.check_layers()
        self.taken["refold" if refolds else "fold"] += 1

    @precondition(lambda self: self.model.loads and self._has_room())
    @rule(point=st.sampled_from(["ledger.pending", "commit.after"]))
    def alter_while_it_loads(self, point: str) -> None:
        """Before its first row is read the load is refused; after its commit it is folded."""
        mirror, before, reading = self.mirror, self.mirror.lake(), self.mirror.reading()
        is_new_version = mirror.is_new_version
        done: list[str] = []

        def alter(passed: str) -> None:
            if passed == point and not done:
                done.append(passed)
                mirror.alter(f"ADD COLUMN {self._new_name()} INT DEFAULT 7")

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("mirrorlake.load.protocol.load_run.failpoint", alter)
            if point == "commit.after":
                self.sync_before_an_alter(done)
                return
            with pytest.raises(SchemaError, match="its schema changed in MySQL while it was read"):
                self._sync_refused()
        assert mirror.lake() == before
        # The view over raw knows of its version, and clean of its columns.
        self.model.loads.append(Loaded("", reading.types, {}))
        mirror.remember(list(reading.types))
        if is_new_version:
            mirror.loaded_columns = []
        self.taken["refused load"] += 1

    def sync_before_an_alter(self, done: Sequence[str]) -> None:
        self.mirror.load(sync_table)
        self.mirror.altered = bool(done)
        self.mirror.check_layers()
        self.taken["altered before the fold"] += len(done)

    def teardown(self) -> None:
        try:
            if self.mirror.columns():
                self.sync()
                self.fold(refolds=True)
                self.sync()
        finally:
            self.mirror.app.close()

    # --- small steps ------------------------------------------------------------------------------

    def _keys(self) -> list[int]:
        return sorted(self.mirror.reading().rows)

    def _has_room(self) -> bool:
        return len(self.mirror.columns()) < MOST_COLUMNS

    def _new_name(self) -> str:
        self.number += 1
        return f"c{self.number}"

    def _was_loaded(self, *names: str) -> bool:
        ever = {one.lower() for load in self.model.loads for one in load.types}
        return {name.lower() for name in names} <= ever

    def _gone(self) -> list[str]:
        """Names that another column may have again."""
        ever = {one.lower() for load in self.model.loads for one in load.types}
        return sorted(ever - self.spent - {name.lower() for name in self.mirror.columns()})

    def _forget(self, name: str) -> tuple[str | None, list[str]]:
        """A column is gone under its name: what the contract said of it."""
        self.mirror.secret.discard(name.lower())
        self.unsaid.pop(name.lower(), None)
        return self.mirror.forget(name)

    def _had(self, name: str) -> None:
        """A name is another column's now: nobody says any more what had it before."""
        self.unsaid = {new: old for new, old in self.unsaid.items() if old != name.lower()}

    def _secrets(self, name: str) -> list[set[str]]:
        both = (self.mirror.secret, self.mirror.guarded)
        return [names for names in both if name.lower() in names]

    @staticmethod
    def _carry(secrets: list[set[str]], new: str) -> None:
        for names in secrets:
            names.add(new.lower())

    def _sync_refused(self) -> None:
        sync_table(self.mirror.workspace, self.mirror.contract, accept_smaller=True)

    @staticmethod
    def _pick(among: Sequence[Any], at: int) -> Any:
        return among[at % len(among)] if among else None
