"""What rows a table has after a migration, and whether the next sync stops at a copy that shrinks.

An archive rotation (``RENAME TABLE t TO t_old; CREATE TABLE t LIKE t_old``), a dump (``DROP``,
``CREATE``, ``INSERT``) and TRUNCATE leave a table of the same name with few rows or none.

What belongs here: what the guard will say. What doesn't: following rows from name to name
(`mirrorlake.preflight.contents`), the guard (`mirrorlake.load.shrink_guard`), and
columns (`mirrorlake.preflight.findings`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from shlex import quote
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import SchemaError
from mirrorlake.load.shrink_guard import last_copy
from mirrorlake.preflight.contents import Contents, contents_after
from mirrorlake.preflight.findings import Finding
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.sources.mysql.ddl.surroundings import printed_definition
from mirrorlake.sources.mysql.introspection.identity import (
    Identity,
    Sign,
    read_identity,
    why_another,
)
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.continuity import kept_words
from mirrorlake.table.resolve import ResolvedTable, by_time
from mirrorlake.table.shrink import is_too_small
from mirrorlake.workspace import Workspace


def rows_findings(
    workspace: Workspace,
    before: ResolvedTable,
    connection: Connection[Any],
    statements: Sequence[Statement],
    redefined: bool,
) -> Iterator[Finding]:
    """What the next sync makes of the rows that are there after the migration: nothing is said
    where they are those of now.

    Args:
        redefined: whether its definition is surely another one then.

    Raises:
        SourceError: the server could not be queried.
    """
    contract = before.contract
    here = (contract.database.lower(), contract.table.lower())
    after = contents_after(statements, here)
    if after is None or after.base == here:
        return
    if after.how == "truncated":
        yield Finding("attention", "all rows go", line=after.line)
    copy = last_copy(workspace.ledger, before.name) if contract.copies else None
    held = workspace.lake.count_rows(before.deduped) if not contract.copies else None
    if copy is not None and copy.receipt is not None:
        held = copy.receipt.rows
    found = _Found(workspace, before, connection, after, held, redefined)
    if workspace.ledger.newest_receipt(contract.name) is not None:
        yield from (replace(finding, line=after.line) for finding in found.findings())


@dataclass(frozen=True)
class _Found:
    """A table's contents after a migration, beside its mirror.

    Attributes:
        held: how many rows its last copy, or its mirror, has; None: there is none.
        redefined: whether its definition is surely another one.
    """

    workspace: Workspace
    before: ResolvedTable
    connection: Connection[Any]
    after: Contents
    held: int | None
    redefined: bool

    def findings(self) -> Iterator[Finding]:
        contract = self.before.contract
        if contract.copies:
            yield from self._guarded("", "the copy")
            return
        sign = self._sign()
        if isinstance(sign, _Depends):
            yield from self._guarded("if its definition is as it was, ", "a new history")
        elif sign is None:
            if self.after.how != "deleted":
                yield _unseen(contract.name, self.after)
        elif sign.altered:
            words = f"its next sync sees that {sign.words}: all of it is read again"
            step = (
                f"Rows that it lacks stay in the mirror: `mirrorlake check {quote(contract.name)}` "
            )
            yield Finding("attention", words, f"{step}finds them")
        elif kept_words(contract):
            words = f"to its next sync it is another table ({sign.words}): all of it is read again"
            yield Finding("attention", words + _UNLESS_EQUAL * sign.may_be_equal)
        else:
            words = (
                f"to its next sync it is another table ({sign.words}): a new history begins, with "
                "the rows that are there then"
            )
            yield Finding("attention", words + _UNLESS_EQUAL * sign.may_be_equal)
            yield from self._guarded("", "a new history")

    def _guarded(self, if_so: str, what: str) -> Iterator[Finding]:
        """What the guard says of this many rows."""
        limit, held, now = self.before.contract.shrink_limit, self.held, self._rows()
        if limit is None or not held or (now is not None and not is_too_small(held, now, limit)):
            return
        name = self.before.contract.name
        has = "the last copy had" if self.before.contract.copies else "the mirror has"
        step = (
            f"If MySQL should hold so few: once it does, `mirrorlake sync {quote(name)} "
            "--accept-smaller` takes it; until then the mirror stays as it was"
        )
        if now is None:
            fewer = f"none, or {limit:.0%} fewer than the {held:,} that {has}"
            words = f"how many rows it has then can't be told: with {fewer}, its next sync stops"
            yield Finding("attention", if_so + words, step)
            return
        about = "at most " if now else ""
        if self.after.base is not None:
            if_so, about = f"with the rows of {self.after.base[1]} as it is now, ", "about "
        words = (
            f"{if_so}its next sync stops: {what} would have {about}{now:,} rows, and {has} "
            f"{held:,} (shrink_limit is {limit:.0%})"
        )
        yield Finding("attention" if if_so else "breaks", words, step)

    def _rows(self) -> int | None:
        if self.after.base is None or self.after.added is None:
            return self.after.added
        try:
            return read_table(self.connection, *self.after.base).estimated_rows + self.after.added
        except SchemaError:
            return None  # there is no such table yet

    def _sign(self) -> Sign | _Depends | None:
        """What shows the next sync that it is another table; None where nothing does."""
        table, after = self.before.table, self.after
        now = read_identity(self.connection, table)
        fresh = replace(now.renumbered(), next_key=None if now.next_key is None else 1)
        if self._keys_fell(now):
            return Sign("its keys may come again")
        if after.how in ("truncated", "deleted"):
            return why_another(now, fresh if after.how == "truncated" else now)
        if after.base is not None:
            try:
                other = read_table(self.connection, *after.base)
            except SchemaError:
                return _Depends()
            return why_another(now, self._as_it_is(other))
        fresh = replace(fresh, made="the time of the migration")
        if self.redefined:
            return why_another(now, replace(fresh, definition="another"))
        return why_another(now, fresh) if self._same_definition(table) else _Depends()

    def _as_it_is(self, other: SourceTable) -> Identity:
        """A table that takes the name, as the server has it; its definition is compared without
        the name."""
        identity = read_identity(self.connection, other)
        theirs, ours = (
            printed_definition(self.connection, one) for one in (other, self.before.table)
        )
        definition = read_identity(self.connection, self.before.table).definition
        same = ours is not None and theirs == ours
        return replace(identity, definition=definition if same else "another")

    def _same_definition(self, table: SourceTable) -> bool:
        here = (table.database.lower(), table.name.lower())
        if self.after.like == here:
            return True
        return bool(self.after.text) and self.after.text == printed_definition(
            self.connection, table
        )

    def _keys_fell(self, now: Identity) -> bool:
        """Whether windows by key would find none above the last."""
        cursor, after = self.before.cursor, self.after
        if cursor is None or by_time(self.before) or after.base is not None or after.added != 0:
            return False
        counts = "auto_increment" in cursor.extra.lower() and now.next_key is not None
        return not (counts and after.how == "deleted") and not (after.how == "made" and after.text)


@dataclass(frozen=True)
class _Depends:
    """Whether it is another table depends on its definition, which is not known here."""


_UNLESS_EQUAL = ", unless they are those of the mirror: they are compared first"


def _unseen(name: str, after: Contents) -> Finding:
    """Of rows that went without a sign of it that a sync could see."""
    if after.how == "truncated":
        words = "nothing that this account may see tells a sync of it: the mirror keeps the rows"
    else:
        words = "to its next sync it is this table, changed; rows that it lacks stay in the mirror"
    return Finding("attention", words, f"`mirrorlake check {quote(name)}` finds them")
