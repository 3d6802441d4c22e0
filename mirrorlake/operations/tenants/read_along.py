"""Tables of tenants that read a source's log along with its other tables: it is read once for all
that are synced together.

What belongs here: who reads along, under which leases. What doesn't: which tenants are followed
(`mirrorlake.operations.tenants.follow`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from functools import partial
from typing import TYPE_CHECKING, Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.operations.loading.follow_log import Along
from mirrorlake.operations.tenants.follow import (
    Following,
    TenantsFollowed,
    find_members,
    read_log,
    take_followed,
)
from mirrorlake.operations.tenants.survey import survey_tenants
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.workspace import Workspace

if TYPE_CHECKING:  # the decoder is imported once a table follows a log
    from mirrorlake.operations.loading.binlog.following_table import InLog
    from mirrorlake.operations.loading.binlog.following_tenants import (
        FollowingTenant,
        TenantsInLog,
    )
    from mirrorlake.sources.mysql.following.log_state import LogEnd

logger = logging.getLogger(__name__)


@dataclass
class _Reading:
    """Tables of tenants while one source's log is read."""

    along: TenantsAlong
    parts: list[tuple[Following, TenantsInLog, list[FollowingTenant]]] = field(
        default_factory=list[tuple[Following, "TenantsInLog", "list[FollowingTenant]"]]
    )

    @property
    def tables(self) -> Sequence[InLog]:
        return [member for _, _, members in self.parts for member in members]

    def end(self, done: Sequence[InLog], end: LogEnd) -> None:
        """See `ReadAlong.end`."""
        reached = {id(one) for one in done}
        for of, group, members in self.parts:
            found = self.along.followed.setdefault(of.table.name, TenantsFollowed())
            there = [member for member in members if id(member) in reached]
            take_followed(of, group, there, end.clock.replace(tzinfo=UTC), found)
            found.lost |= group.lost


@dataclass
class TenantsAlong:
    """Tables of tenants that read along.

    Attributes:
        followed: what became of their tenants, by table.
    """

    all: Sequence[TenantTable]
    followed: dict[str, TenantsFollowed] = field(default_factory=dict[str, TenantsFollowed])
    _read: set[str] = field(default_factory=set[str])

    def of(self, workspace: Workspace) -> Along:
        """What `follow_tables` is given."""
        return partial(self._reading, workspace)

    @contextmanager
    def _reading(
        self,
        workspace: Workspace,
        connection: Connection[Any],
        source: SourceConfig,
        others: Sequence[InLog],
    ) -> Iterator[_Reading]:
        """The tenants of a source that can be followed, under their tables' leases.

        A table that another run works on, or that needs its own sync first, is left to that.
        """
        self._read.add(source.name)
        found, taken = _Reading(self), {one.name for one in others}
        with ExitStack() as held:
            for table in self._tables(source.name):
                try:
                    leased = held.enter_context(workspace.leased(table, wait=False))
                    members = self._begin(found, leased, connection, table, source)
                except MirrorlakeError as error:
                    logger.info("table %s: its log is read by its own sync: %s", table.name, error)
                    continue
                names = {member.name for member in members}
                if names & taken:
                    found.parts.pop()  # one name is one table to a reading
                else:
                    taken |= names
            yield found

    def _begin(
        self,
        found: _Reading,
        leased: Workspace,
        connection: Connection[Any],
        table: TenantTable,
        source: SourceConfig,
    ) -> Sequence[InLog]:
        if leased.moved:
            return ()
        settle_loads(leased, table)
        survey = survey_tenants(leased, table)
        if survey.servers.get(source.name) != read_position(connection).server:
            return ()
        of = Following(leased, connection, table, survey, source, {})
        group, members = find_members(of)
        found.parts.append((of, group, members))
        return members

    def _tables(self, source: str) -> list[TenantTable]:
        return [one for one in self.all if one.by_log and source in one.sources]

    def read_rest(self, workspace: Workspace) -> None:
        """Read the logs that several of these tables follow and that were not read yet.

        Raises:
            LedgerError, LakeError: it failed.
        """
        for name in dict.fromkeys(source for table in self.all for source in table.sources):
            if name in self._read or len(self._tables(name)) < 2:
                continue
            try:
                self._read_source(workspace, workspace.config.sources[name])
            except SourceError as error:
                logger.warning("source %s: its log was not followed: %s", name, error)

    def _read_source(self, workspace: Workspace, source: SourceConfig) -> None:
        with (
            session(source) as connection,
            self._reading(workspace, connection, source, ()) as found,
        ):
            if found.tables:
                found.end(*read_log(workspace, connection, source, found.tables))
