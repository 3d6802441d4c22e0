"""One sensor per source: which of its tables moved, and a run for their chains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_mirrorlake.assets.source_log import observed_lag
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.sensors.requests import (
    STATUS,
    busy_tables,
    chains_of,
    request_chains,
    why_held,
)
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import LakeError

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.loading.detect import Mark, Moved, Seen
    from mirrorlake.operations.other_writers.moved_lake import HeadsInTurn

INTERVAL_SECONDS = 60
"""How often a tick looks at most; less often than some table's `every` would have it."""
_DATA_VERSION = "dagster/data_version"


def interval_of(every: timedelta) -> int:
    """Seconds between two looks of the sensor: a second less than configured.

    Dagster's daemon comes every five seconds, and looks if the interval has passed since the last
    tick began, which was a moment after it came: an interval of five seconds would let it pass by
    every second time.

    >>> interval_of(timedelta(minutes=15)), interval_of(timedelta(seconds=5))
    (59, 4)
    """
    return max(1, min(INTERVAL_SECONDS, int(every.total_seconds())) - 1)


def build_moved_sensor(
    source: str,
    tables: Sequence[MirroredTable],
    *,
    running: bool = False,
) -> dg.SensorDefinition:
    """The sensor of one source, which requests a table's chain once in its ``every`` at most.

    A tick looks at its tables by one connection. A table that a run under way is not done with is
    left alone: what moves meanwhile is seen after it. So are all of a source that is held. A source
    that can't be queried fails the tick with the reason; the cursor stays where it was.
    """
    names = tables[0].names

    @cache
    def in_turn() -> "HeadsInTurn":
        """From tick to tick of one process."""
        from mirrorlake.operations.other_writers.moved_lake import HeadsInTurn

        return HeadsInTurn()

    @dg.sensor(
        name=names.of(f"moved_{source}"),
        asset_selection=chains_of(tables),
        minimum_interval_seconds=interval_of(min(table.contract.every for table in tables)),
        required_resource_keys=names.all_of({"mysql", "ledger"}),
        default_status=STATUS[running],
        description=f"Requests the chains of the tables of source {source} that moved in MySQL.",
    )
    def moved(context: dg.SensorEvaluationContext) -> Any:
        busy = busy_tables(context.instance, tables)
        if len(busy) == len(tables):
            return dg.SkipReason(f"Runs of all tables of source {source} are under way")
        with dagster_errors():
            if why := why_held(names.resources(context).ledger.ledger, source):
                return dg.SkipReason(why)
        return _look(context, source, tables, busy, in_turn)

    return moved


def _look(
    context: dg.SensorEvaluationContext,
    source: str,
    tables: Sequence[MirroredTable],
    busy: set[str],
    in_turn: "Callable[[], HeadsInTurn]",
) -> dg.SensorResult | dg.SkipReason:
    from mirrorlake.operations.cursors import read_cursor
    from mirrorlake.operations.following.lag import read_lag
    from mirrorlake.operations.following.log_owner import is_followed
    from mirrorlake.operations.loading.detect import Mark, find_moved
    from mirrorlake.operations.loading.quiet_log import find_quiet, note_quiet

    marks = read_cursor(dict[str, Mark], context.cursor, {})
    contracts = [table.contract for table in tables if table.contract.name not in busy]
    with dagster_errors():
        resources = tables[0].names.resources(context)
        mysql, ledger = resources.mysql, resources.ledger.ledger
        changed = _changed(context, mysql.contracts, ledger, contracts, in_turn)
        with mysql.session(source) as connection:
            config = mysql.contracts.sources[source]
            quiet = find_quiet(connection, config, contracts, ledger)
            note_quiet(ledger, quiet)
            idle = set(quiet.tables)
            if is_followed(ledger, source):
                idle |= {contract.name for contract in contracts if contract.by_log}
            seen = find_moved(connection, config, contracts, marks, ledger, changed, idle)
            # A run for a table that a command writes to would wait, and keep others from starting.
            free = [m for m in seen.moved if not ledger.is_held(m.contract.name)]
            held = len(seen.moved) - len(free)
            seen = replace(seen, moved=tuple(free))
            columns = _columns(connection, [m.contract for m in seen.moved])
            lag = None
            if any(m.contract.by_log for m in seen.moved):
                lag = read_lag(connection, config, contracts, ledger)
    for reason in seen.refused.values():
        context.log.warning(reason)
    if not seen.moved:
        words = _nothing(seen, len(contracts), len(busy))
        return dg.SkipReason(f"{words}; tables that commands write to: {held}" if held else words)
    result = _result(context.instance, source, tables, marks, seen, columns)
    if lag is None:
        return result
    return result._replace(
        asset_events=[*result.asset_events, observed_lag(source, tables[0], lag)]
    )


def _changed(
    context: dg.SensorEvaluationContext,
    config: Config,
    ledger: "Ledger",
    contracts: Sequence[TableContract],
    in_turn: "Callable[[], HeadsInTurn]",
) -> frozenset[str]:
    """The tables that other hands changed in the lake, as far as the catalog shows that now. One
    that can't be asked keeps nothing from being requested that moved in MySQL."""
    from mirrorlake.operations.other_writers.moved_lake import named_otherwise

    changed = named_otherwise(config, ledger)
    if changed is not None:
        return changed
    try:
        return in_turn().look(config, ledger, {contract.name for contract in contracts})
    except LakeError as error:
        context.log.warning(f"what other hands did in the lake is not seen: {error}")
        return frozenset()


def _columns(
    connection: Any, contracts: Sequence[TableContract]
) -> dict[tuple[str, str], dg.TableSchema]:
    """The columns of these tables as MySQL has them: what a page can show before the first load."""
    from dagster_mirrorlake.assets.columns import source_schema
    from mirrorlake.sources.mysql.introspection.introspect import read_tables
    from mirrorlake.sources.mysql.introspection.lake_names import in_lake
    from mirrorlake.table.columns.source_columns import source_columns

    wanted = {(c.database, c.table): c for c in contracts}
    databases = dict.fromkeys(database for database, _ in wanted)
    return {
        (table.database, table.name): source_schema(
            contract, source_columns(in_lake(table, contract))
        )
        for database in databases
        for table in read_tables(connection, database)
        if (contract := wanted.get((table.database, table.name))) is not None
    }


def _result(
    instance: dg.DagsterInstance,
    source: str,
    tables: Sequence[MirroredTable],
    marks: "Mapping[str, Mark]",
    seen: "Seen",
    columns: Mapping[tuple[str, str], dg.TableSchema],
) -> dg.SensorResult:
    """The request, and the marks of exactly the requested tables moved on."""
    from mirrorlake.operations.cursors import cursor_text
    from mirrorlake.operations.loading.detect import run_key

    known = {table.contract.name: table for table in tables}
    kept = {name: mark for name, mark in marks.items() if name in known}
    requests = request_chains(
        instance,
        [known[m.contract.name] for m in seen.moved],
        seen.clock.replace(tzinfo=None),
        run_key(source, seen.moved),
        ", ".join(sorted({m.reason for m in seen.moved})),
        "live",
    )
    return dg.SensorResult(
        run_requests=requests,
        cursor=cursor_text({**kept, **{m.contract.name: m.mark for m in seen.moved}}),
        asset_events=[_observed(m, known[m.contract.name], columns) for m in seen.moved],
    )


def _observed(
    moved: "Moved", table: MirroredTable, columns: Mapping[tuple[str, str], dg.TableSchema]
) -> dg.AssetObservation:
    """The source table as it was seen; its data version has no clock in it."""
    mark, contract = moved.mark, moved.contract
    schema = columns.get((contract.database, contract.table))
    return dg.AssetObservation(
        table.key("source"),
        description=moved.reason,
        metadata={
            "rows from the anchor on": mark.rows,
            "anchor": mark.anchor or "-",
            "highest cursor": mark.high or "-",
            **({"dagster/column_schema": schema} if schema else {}),
        },
        tags={_DATA_VERSION: mark.version},
    )


def _nothing(seen: "Seen", tables: int, busy: int) -> str:
    words = f"None of {tables:,} tables moved"
    if seen.until is not None:
        words = "Nothing moved; tables that were requested a moment ago are looked at again at "
        words += f"{seen.until:%H:%M:%S} UTC"
    if busy:
        words = f"{words}; runs of {busy} other tables are under way"
    return f"{words}; not watched: {'; '.join(seen.refused.values())}" if seen.refused else words
