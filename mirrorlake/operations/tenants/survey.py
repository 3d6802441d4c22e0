"""What the sources show of a table's tenants, before anything is read.

What belongs here: one look at each source. What doesn't: what follows from it
(`mirrorlake.operations.tenants.sync`, `mirrorlake.operations.tenants.checks`).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import SecretStr
from pymysql.connections import Connection

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.fields import matches
from mirrorlake.config.server import SourceConfig
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.errors import (
    ConfigError,
    MirrorlakeError,
    SchemaError,
    SourceError,
    SourceHeld,
    TableLocked,
)
from mirrorlake.ledger import Ledger, TenantPlace
from mirrorlake.load.tenants.readable_tenants import find_unreadable
from mirrorlake.merge.statements import check_rules
from mirrorlake.operations.schema_changes.table_shapes import ddl_name
from mirrorlake.operations.tenants.looks import LeftOut, TenantLook
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.versions import SchemaVersion
from mirrorlake.sources.mysql.changes.change_stamps import ChangeStamp, read_stamps_in
from mirrorlake.sources.mysql.changes.replica import read_reach
from mirrorlake.sources.mysql.introspection.introspect import (
    read_databases,
    read_ddl,
    read_in_databases,
    read_listed_in,
)
from mirrorlake.sources.mysql.sessions.connect import (
    read_clock,
    read_machine,
    read_position,
    session,
)
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.log_place import refuse_unlogged
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.table.tenants import Resolved, raw_of, resolve_tenants
from mirrorlake.table.tenants_in_log import servers_of
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


UNFOLLOWED_STEP = "Name its database under `left_out`, or mirror these tenants with `mode: full`"


@dataclass
class TenantSurvey:
    """What the sources show of their tenants, before anything is read."""

    plans: dict[TenantPlace, ResolvedTable] = field(
        default_factory=dict[TenantPlace, ResolvedTable]
    )
    stamps: dict[TenantPlace, ChangeStamp] = field(default_factory=dict[TenantPlace, ChangeStamp])
    clocks: dict[str, datetime] = field(default_factory=dict[str, datetime])
    servers: dict[str, str] = field(default_factory=dict[str, str])
    machines: dict[str, str] = field(default_factory=dict[str, str])
    """By source, which running server it is."""
    failed: dict[TenantPlace, MirrorlakeError] = field(
        default_factory=dict[TenantPlace, MirrorlakeError]
    )
    lost: dict[str, MirrorlakeError] = field(default_factory=dict[str, MirrorlakeError])
    """Sources that were not looked at: nothing is known of their tenants."""
    skipped: frozenset[str] = frozenset()
    """The lost sources that nobody wanted to look at."""
    left_out: list[LeftOut] = field(default_factory=list[LeftOut])
    """What the contract names and that is no tenant: a view, a source that has none, a pattern that
    no database matches."""
    without: list[TenantPlace] = field(default_factory=list[TenantPlace])
    """Databases that the patterns mean and that have no such table."""
    databases: set[str] = field(default_factory=set[str])
    """All that the accounts may see, tenants or not."""

    @property
    def held(self) -> dict[str, SourceHeld]:
        """The lost sources that a person asked us to leave alone."""
        return {name: e for name, e in self.lost.items() if isinstance(e, SourceHeld)}

    @property
    def unreachable(self) -> dict[str, MirrorlakeError]:
        """The lost sources that could not be queried."""
        known = {*self.held, *self.skipped}
        return {name: e for name, e in self.lost.items() if name not in known}

    def refuse_all_held(self, table: TenantTable) -> None:
        """See that there is a source of the table that may be queried.

        Raises:
            SourceHeld: a person asked us to leave all of them alone.
        """
        held = self.held
        if held.keys() >= {*table.sources} - self.skipped:
            raise next(iter(held.values()))


def survey_tenants(
    workspace: Workspace, table: TenantTable, only: Collection[str] = ()
) -> TenantSurvey:
    """What the sources show of a table's tenants; a source that can't be queried is among the
    ``lost``.

    Args:
        only: the sources that are looked at; all where there is none, or where one of the others
            was last seen at the same server.

    Raises:
        ConfigError: two of the sources are one server, and have the same tenants.
    """
    survey = TenantSurvey()
    skipped = [name for name in table.sources if only and name not in only]
    survey.skipped = frozenset(skipped)
    for name in skipped:
        survey.lost[name] = SourceError(f"source {name} was not looked at", source=name)
    versions = workspace.ledger.schema_versions(table.name)
    lake = _InLake(key_types(workspace, table), versions)
    hash_key = workspace.config.privacy.hash_key
    for name in (name for name in table.sources if name not in survey.skipped):
        source = workspace.config.sources[name]
        try:
            refuse_held(workspace.ledger, name)
            with session(source) as connection:
                _survey_source(connection, source, table, lake, hash_key, survey)
        except SourceHeld as error:
            survey.lost[name] = error
        except SourceError as error:
            survey.lost[name] = error
            logger.warning("table %s: source %s: %s", table.name, name, error)
    followed = servers_of(workspace.ledger, table)
    if any(followed.get(name) in survey.servers.values() for name in skipped):
        return survey_tenants(workspace, table)
    if not survey.lost:
        survey.left_out += _unmatched(table, survey.databases)
    _refuse_one_server(table, survey)
    return survey


def _refuse_one_server(table: TenantTable, survey: TenantSurvey) -> None:
    """See that no database is a tenant of two sources: each of its rows would be there twice.

    Raises:
        ConfigError: one is.
    """
    seen: dict[tuple[str, str], str] = {}
    twice: dict[tuple[str, str], list[str]] = {}
    for source, database in [*survey.plans, *survey.failed]:
        first = seen.setdefault((survey.machines[source], database), source)
        if first != source:
            twice.setdefault((first, source), []).append(database)
    for (first, source), databases in twice.items():
        named = ", ".join(sorted(databases)[:3]) + (" …" if len(databases) > 3 else "")
        count = plural(len(databases), "database")
        raise ConfigError(
            f"table {table.name}: sources {first} and {source} are one server, and {count} of it "
            f"({named}) would be mirrored twice",
            table=table.name,
            source=source,
            next_step=f"Leave one of the two out of the sources of tenants {table.group}",
        )


def look_of(survey: TenantSurvey, before: TenantLook | None) -> TenantLook:
    """What a survey saw; of sources that could not be looked at, what was seen before."""
    left_out, without = list(survey.left_out), [f"{s}.{d}" for s, d in survey.without]
    if before is not None and survey.lost:
        unseen = {*survey.lost, ""}
        left_out += [one for one in before.left_out if one.source in unseen]
        without += [one for one in before.without if one.partition(".")[0] in survey.lost]
    drops, held = ((), ()) if before is None else (before.drops, before.held)
    return TenantLook(datetime.now(UTC), tuple(left_out), tuple(without), drops, held)


@dataclass(frozen=True)
class _InLake:
    """What the mirror has already: its key's types, and its shapes."""

    keys: Mapping[str, str]
    versions: Sequence[SchemaVersion]


def _survey_source(
    connection: Connection[Any],
    source: SourceConfig,
    table: TenantTable,
    lake: _InLake,
    hash_key: SecretStr | None,
    survey: TenantSurvey,
) -> None:
    # First: what is visible then is visible to every later query.
    moment = read_reach(connection, source).shown if source.primary else None
    clock = (moment or read_clock(connection)).replace(tzinfo=UTC)
    server = read_position(connection).server
    visible = read_databases(connection)
    databases = [name for name in visible if table.has(name)]
    found = read_in_databases(connection, set(databases), table.table)
    resolved = resolve_tenants(table, source, found, lake.keys, lake.versions)
    for place, plan in [*resolved.plans.items()]:
        try:
            check_rules(plan, hash_key)
        except ConfigError as error:
            del resolved.plans[place]
            resolved.refused[place] = error
    if table.by_log:
        _refuse_unfollowed(connection, source, resolved)
    stamps = read_stamps_in(connection, list(found), table.table)
    if len(found) < len(databases):
        others = [name for name in databases if name not in found]
        _note_left_out(connection, source.name, table, others, survey)
    if not found:
        survey.left_out.append(LeftOut(source.name, "", _why_none(table, len(databases))))
    survey.databases |= {*visible}
    survey.clocks[source.name] = clock
    survey.servers[source.name] = server
    survey.machines[source.name] = f"{server} {read_machine(connection)}"
    survey.plans |= resolved.plans
    survey.failed |= resolved.refused
    survey.stamps |= {(source.name, database): stamp for database, stamp in stamps.items()}


def _refuse_unfollowed(
    connection: Connection[Any], source: SourceConfig, resolved: Resolved
) -> None:
    """Refuse the tenants not all of whose changes are in the server's log. Foreign keys are looked
    at where one is copied.

    Raises:
        SourceError: the server does not log what is needed to follow it.
    """
    from mirrorlake.sources.mysql.following.log_state import refuse_unfollowable

    plans = resolved.plans.values()
    tables = {(plan.table.database, plan.table.name) for plan in plans}
    refuse_unfollowable(connection, source, tables)
    for place, plan in [*resolved.plans.items()]:
        try:
            refuse_unlogged(plan, UNFOLLOWED_STEP)
        except SchemaError as error:
            del resolved.plans[place]
            resolved.refused[place] = error


def _note_left_out(
    connection: Connection[Any],
    source: str,
    table: TenantTable,
    databases: Sequence[str],
    survey: TenantSurvey,
) -> None:
    """Note why databases that the patterns mean are no tenants."""
    listed = read_listed_in(connection, table.table)
    for database in databases:
        names = listed.get(database, {})
        kind = names.get(table.table)
        if kind == "table":
            continue  # made a moment ago: the next look finds it
        if kind is not None:
            why = f"{table.table} is a {kind} there, and only tables are mirrored"
            survey.left_out.append(LeftOut(source, database, why))
        elif names:
            spelled = " and ".join(names)
            why = f"its table is spelled {spelled}, and the contract says {table.table}"
            survey.left_out.append(LeftOut(source, database, why))
        else:
            survey.without.append((source, database))


def _why_none(table: TenantTable, databases: int) -> str:
    listed = ", ".join(table.databases)
    if not databases:
        return f"no database that this account may see is called like {listed}"
    return (
        f"databases called like {listed}: {databases:,}, and none has a table {table.table} that "
        "this account may see"
    )


def _unmatched(table: TenantTable, databases: Collection[str]) -> list[LeftOut]:
    """The patterns that mean no database of any source."""
    written = [(f"pattern {one}", one) for one in table.databases]
    written += [(f"left_out {one}", one) for one in table.left_out]
    return [
        LeftOut("", label, "no database of any source is called so")
        for label, pattern in written
        if not any(matches((pattern,), name) for name in databases)
    ]


def record_version(
    ledger: Ledger, table: str, plans: Mapping[TenantPlace, ResolvedTable]
) -> dict[TenantPlace, MirrorlakeError]:
    """Write down a version that these tenants share, with the definition that it was first seen
    with. Returns why tenants of it can't be read, as far as that was found: what is visible of a
    table with hidden columns looks like a version of its own."""
    version = next(iter(plans.values())).version
    failed: dict[TenantPlace, MirrorlakeError] = {}
    if version in ledger.schema_versions(table):
        return failed
    for source in dict.fromkeys(source for source, _ in plans):
        places = [place for place in plans if place[0] == source]
        try:
            with session(plans[places[0]].source) as connection:
                for place in places:
                    found = _definition(connection, plans[place])
                    if isinstance(found, str):
                        ledger.record_schema_version(table, version)
                        ledger.record_definition(ddl_name(table, version), found)
                        return failed
                    failed[place] = found
        except SourceError as error:
            failed |= dict.fromkeys(places, error)
    return failed


def _definition(connection: Connection[Any], plan: ResolvedTable) -> str | MirrorlakeError:
    """A tenant's table as SQL, or why it can't be read.

    Raises:
        SourceError: the server was lost.
    """
    database = plan.table.database
    unreadable = find_unreadable(connection, [plan])
    if unreadable:
        return unreadable[database]
    try:
        return read_ddl(connection, database, plan.table.name)
    except SourceError as error:
        if error.retryable and not isinstance(error, TableLocked):
            raise
        return error


def key_types(workspace: Workspace, table: TenantTable) -> dict[str, str]:
    """Iceberg's types of the key's columns in the oldest version that the lake has, by name,
    in lower case."""
    wanted = {name.lower() for name in table.key}
    for version in workspace.ledger.schema_versions(table.name):
        raw = workspace.lake.load(raw_of(table, version.raw_table))
        if raw is not None:
            types = stored_types(raw)
            return {n.lower(): t.iceberg for n, t in types.items() if n.lower() in wanted}
    return {}
