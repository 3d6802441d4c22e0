"""The table that has a contract's name after a migration: altered, made again, or another one that
takes the name.

What belongs here: following definitions from statement to statement. What doesn't: following rows
(`mirrorlake.preflight.rows`), and what a server makes of one statement
(`mirrorlake.sources.mysql.ddl.altered`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import DdlRefused, SchemaError
from mirrorlake.preflight.contents import contents_after
from mirrorlake.preflight.migration import Migration
from mirrorlake.sources.mysql.ddl.actions import RenameTable, Statement
from mirrorlake.sources.mysql.ddl.altered import Surroundings, alter, around_after, made
from mirrorlake.sources.mysql.ddl.surroundings import (
    printed_definition,
    read_surroundings,
    read_surroundings_of_new,
)
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.tables import SourceTable


@dataclass(frozen=True)
class TablesAfter:
    """The tables of one database after a migration, as its server would have them.

    Attributes:
        before: the table that has a contract's name now.
    """

    connection: Connection[Any]
    migration: Migration
    before: SourceTable

    def successor(self, name: str, statements: Sequence[Statement]) -> SourceTable | None:
        """Another table of the database after its statements; None where its columns are not
        known."""
        try:
            return self.altered(read_table(self.connection, self.before.database, name), statements)
        except SchemaError:
            creates = [one for one in statements if one.kind == "create"]
            if not creates or self.why_unknown(creates[0]):
                return None
            none = replace(self.before, name=name, columns=(), indexes=(), foreign_keys=())
            return self.altered(none, statements, there=False)

    def altered(
        self, table: SourceTable, statements: Sequence[Statement], *, there: bool = True
    ) -> SourceTable:
        """A table after its statements; where one makes it again and its columns are not known, as
        it was.

        Args:
            there: whether it is there before them.

        Raises:
            DdlRefused: the server would refuse one.
        """
        around = self._around(table)
        for statement in statements:
            try:
                if statement.kind == "alter":
                    table = alter(table, statement.actions, around)
                    around = around_after(statement.actions, around)
                elif _makes(statement, there=there) and not self.why_unknown(statement):
                    table = self.made(statement)
                    around = around_after(statement.actions, self._around_new())
            except DdlRefused as error:
                raise error.at(statement.line)  # noqa: B904  # it is the same error
            gone = statement.kind == "drop" or _renames(statement)
            there = (there or statement.kind == "create") and not gone
        return table

    def made(self, statement: Statement) -> SourceTable:
        """The table that a CREATE TABLE makes; its columns are known.

        Raises:
            DdlRefused: the server would refuse it.
        """
        if statement.like is not None:
            like = read_table(self.connection, *self._like(statement))
            return replace(like, name=statement.table, estimated_rows=0, foreign_keys=())
        database = statement.database or self.before.database
        there = bool(self.before.columns)
        if there and statement.definition == printed_definition(self.connection, self.before):
            return replace(self.before, name=statement.table, estimated_rows=0)
        return made(database, statement.table, statement.actions, self._around_new())

    def why_unknown(self, statement: Statement) -> str:
        """Why the columns of a table that is made are not known; '' where they are."""
        if statement.like is None:
            return statement.unread
        name = statement.like[1]
        try:
            read_table(self.connection, *self._like(statement))
        except SchemaError:
            return f"there is no table {name} to make it like, as far as this account may see"
        return ""

    def _like(self, statement: Statement) -> tuple[str, str]:
        """The table of now whose definition another one has at a statement.

        Raises:
            SchemaError: there is none.
        """
        assert statement.like is not None  # noqa: S101
        database, name = statement.like[0] or self.before.database, statement.like[1]
        until = list(takewhile(lambda one: one is not statement, self.migration.ordered))
        then = contents_after(until, (database.lower(), name.lower()))
        if then is None or then.like is None:
            raise SchemaError(f"table {database}.{name} is another by then")
        for place in ((database, name), (self.before.database, self.before.name)):
            if (place[0].lower(), place[1].lower()) == then.like:
                return place
        return then.like

    def _around(self, table: SourceTable) -> Surroundings:
        return read_surroundings(self.connection, table.database, table.name)

    def _around_new(self) -> Surroundings:
        return read_surroundings_of_new(self.connection, self.before.database)


def _renames(statement: Statement) -> bool:
    return any(isinstance(action, RenameTable) for action in statement.actions)


def _makes(statement: Statement, *, there: bool) -> bool:
    return statement.kind == "create" and not (there and statement.if_missing)
