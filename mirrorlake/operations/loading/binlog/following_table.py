"""A table on its way through its server's log.

What belongs here: what is known of it there. What doesn't: the stream
(`mirrorlake.operations.loading.binlog.log_stream`), and statements that alter it
(`mirrorlake.operations.loading.binlog.log_ddl`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime

from typing_extensions import override

from mirrorlake.config import TableContract
from mirrorlake.ledger import Ledger, Load
from mirrorlake.load.following.log_rows import in_mysql
from mirrorlake.sources.mysql.binlog.table_shape import FollowedTable
from mirrorlake.sources.mysql.following.log_state import LogPlace
from mirrorlake.sources.mysql.introspection.identity import Identity
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.continuity import Continuity
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

LoggedName = tuple[str, str]
Leased = Callable[[TableContract], AbstractContextManager[Workspace]]
"""What gives a workspace with a table's lease."""


class InLog:
    """Whatever is on its way through a log under a name: a table, or a tenant's.

    Attributes:
        plan: of the table as it is at this place.
        place: up to which it was followed.
    """

    contract: TableContract
    plan: ResolvedTable
    place: LogPlace

    @property
    def name(self) -> LoggedName:
        """As the log spells it."""
        return self.plan.table.database, self.plan.table.name

    @property
    def columns(self) -> list[str]:
        """Those that are loaded, as MySQL calls them, in its order."""
        return [in_mysql(exact) for exact in self.plan.columns]

    def followed(self) -> FollowedTable:
        """What a reader has to be told of it."""
        there = {column.in_mysql for column in self.plan.table.columns}
        there |= {self.contract.name_in_mysql(name) for name in self.plan.left_out}
        return FollowedTable.of(self.plan.table, frozenset(there.difference(self.columns)))

    def give_up(self, ledger: Ledger, server: str, reason: str) -> None:
        """Have it read again as a whole by the next sync.

        Args:
            server: whose log it is.
        """
        raise NotImplementedError


@dataclass
class FollowingTable(InLog):
    """A table on its way through the log.

    Attributes:
        plan: of the table as it is at this place.
        place: up to which it was followed.
        seq: the number of its newest load.
        shape: what it is at this place as MySQL describes it, and since which; None: not recorded.
        doubt: what its server shows that the log has to tell more of, in words; '' of nothing.
        held: whether the plan is of what the server has now.
        altered: whether a statement was followed.
        stamped: what distinguishes it from another table, by its newest load of this reading.
        changes: what was followed of its columns, in words.
    """

    contract: TableContract
    plan: ResolvedTable
    continuity: Continuity
    place: LogPlace
    seq: int
    shape: tuple[LogPlace, SourceTable] | None = None
    doubt: str = ""
    held: bool = True
    altered: bool = False
    stamped: Identity | None = None
    noted: datetime | None = None
    loads: list[Load] = field(default_factory=list[Load])
    changes: list[str] = field(default_factory=list[str])

    @override
    def give_up(self, ledger: Ledger, server: str, reason: str) -> None:
        ledger.mark_unproved(self.plan.name, server, reason)
