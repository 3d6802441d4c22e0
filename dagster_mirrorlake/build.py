"""A contract file as Dagster's definitions: all of them, or one kind at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, TypeVar, cast

import dagster as dg

from dagster_mirrorlake.assets import (
    build_chain,
    build_cleanup,
    build_maintenance,
    build_source_log,
    build_tenants_chain,
)
from dagster_mirrorlake.assets.columns import COLUMN_SCHEMA, source_schema
from dagster_mirrorlake.checks import build_checks, build_lag_check, build_tenant_checks
from dagster_mirrorlake.executor import threads_executor
from dagster_mirrorlake.jobs import (
    build_backfill_errored,
    build_follow,
    build_hold,
    build_prove,
    build_prove_tenants,
    build_refold,
    build_release,
    build_repair,
    build_sync,
)
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources import build_resources
from dagster_mirrorlake.sensors import (
    build_cleanup_schedule,
    build_failed_sensor,
    build_maintenance_schedule,
    build_moved_sensor,
    build_partitions_sensor,
    build_proof_schedule,
    build_schedule,
    build_tenants_sensor,
    build_unfolded_sensor,
)
from dagster_mirrorlake.sensors.reporters import PublicationReporter, Reporter
from dagster_mirrorlake.table import MirroredTable, by_source, mirrored_tables
from dagster_mirrorlake.table_places import TablePlace, address_of, table_places
from dagster_mirrorlake.tenants import AnyMirrored, MirroredTenants, mirrored_tenants
from dagster_mirrorlake.translator import MirrorlakeTranslator
from mirrorlake.capabilities import Seam
from mirrorlake.config import Config, TableContract
from mirrorlake.ledger.database.peek import definitions_now, first_days
from mirrorlake.sources.mysql.types.registry import TIMES
from mirrorlake.table.columns.source_columns import RECORDED, parse_columns, parse_comment

_LEDGER_LIMIT = 2.0
"""Seconds that a location waits for its ledger's word as it loads; without it, it loads too."""
Asset = dg.AssetSpec | dg.AssetsDefinition
T = TypeVar("T")


@dataclass(frozen=True)
class Mirror:
    """A contract file as one code location has it.

    Attributes:
        config: the contracts.
        translator: what assets are called.
        running: whether sensors and schedules are on until someone turns them off.
        name: what its definitions are called beside others of the location: see
            `dagster_mirrorlake.names`.
    """

    config: Config
    translator: MirrorlakeTranslator = field(default_factory=MirrorlakeTranslator)
    running: bool = False
    name: str | None = None
    _made: dict[object, object] = field(default_factory=dict[object, object], compare=False)

    @cached_property
    def names(self) -> Names:
        """What its definitions are called."""
        return Names(self.name)

    @cached_property
    def first_days(self) -> Mapping[str, date]:
        """By table, the first day (UTC) that it has, where the contract or the ledger gives it."""
        return first_days(self.config.ledger.url, self.config.tables, _LEDGER_LIMIT)

    @cached_property
    def source_columns(self) -> Mapping[str, str]:
        """By table, its columns and comment as the ledger keeps them."""
        return definitions_now(self.config.ledger.url, RECORDED, _LEDGER_LIMIT)

    @cached_property
    def tables(self) -> Sequence[MirroredTable]:
        """The tables that a server has."""
        comments = {name: parse_comment(text) for name, text in self.source_columns.items()}
        return mirrored_tables(
            *(self.config.tables, self.translator, self.first_days, self.names),
            places=self._places,
            comments=comments,
            days_of={c.name: self.day_of(c) for c in self.config.tables},
        )

    @cached_property
    def snapshots(self) -> Sequence[MirroredTable]:
        """The tables whose snapshots land."""
        return mirrored_tables(
            self.config.snapshots, self.translator, names=self.names, places=self._places
        )

    @cached_property
    def tenants(self) -> Sequence[MirroredTenants]:
        """The tables that many databases have, each mirrored as one."""
        project = address_of(self.config)
        return mirrored_tenants(self.config.tenants, self.translator, self.names, project)

    @property
    def every(self) -> Sequence[MirroredTable]:
        """All of them but those of tenants."""
        return [*self.tables, *self.snapshots]

    def day_of(self, contract: TableContract) -> str | None:
        """Which column tells the day of a table's rows, by its columns at the newest load; None
        before there was one."""
        return _day_of(contract, self.source_columns)

    def once(self, make: "Callable[[Mirror], T]") -> T:
        """What somebody makes of it, made once."""
        if make not in self._made:
            self._made[make] = make(self)
        return cast("T", self._made[make])

    @cached_property
    def _places(self) -> Mapping[str, TablePlace]:
        return table_places(self.config)

    @property
    def by_source(self) -> Mapping[str, Sequence[MirroredTable]]:
        """The servers that have tables, each with them."""
        return by_source(self.tables)

    @property
    def followed(self) -> Mapping[str, Sequence[AnyMirrored]]:
        """The servers whose logs are followed, each with what follows it."""
        found: dict[str, list[AnyMirrored]] = {}
        for table in self.tables:
            if table.contract.by_log:
                found.setdefault(table.contract.source, []).append(table)
        for tenants in self.tenants:
            for source in tenants.contract.sources if tenants.contract.by_log else ():
                found.setdefault(source, []).append(tenants)
        return found

    def named(self, *names: str) -> Sequence[MirroredTable]:
        """The tables of these names (``source.database.table``) that the contract file has."""
        return [table for table in self.tables if table.contract.name in names]

    def needs(self, table: MirroredTable) -> frozenset[str]:
        """The resources that must be given to whatever reads a table's landing."""
        url = self.config.landings[table.contract.source].url
        return frozenset({"gcs"} if url.startswith("gs://") else ())


ASSETS: Seam[Callable[[Mirror], Sequence[Asset]]] = Seam("assets", "dagster_mirrorlake")
CHECKS: Seam[Callable[[Mirror], Sequence[dg.AssetChecksDefinition]]] = Seam(
    "asset checks", "dagster_mirrorlake"
)
JOBS: Seam[Callable[[Mirror], Sequence[dg.JobDefinition]]] = Seam(
    "job definitions", "dagster_mirrorlake"
)
SENSORS: Seam[Callable[[Mirror], Sequence[dg.SensorDefinition]]] = Seam(
    "sensors", "dagster_mirrorlake"
)
SCHEDULES: Seam[Callable[[Mirror], Sequence[dg.ScheduleDefinition]]] = Seam(
    "schedules", "dagster_mirrorlake"
)
COMPUTED: Seam[Callable[[Mirror], Sequence[Reporter]]] = Seam(
    "computed reports", "dagster_mirrorlake"
)
"""What the sensor `partitions` reports of what is computed from tables."""
PUBLICATIONS: Seam[Callable[[Mirror], PublicationReporter | None]] = Seam(
    "publication reports", "dagster_mirrorlake"
)
"""The same of what is published elsewhere; None of a mirror that publishes nothing there."""


def _day_of(contract: TableContract, columns: Mapping[str, str]) -> str | None:
    """Which column tells the day of a table's rows, by its columns at the newest load; None before
    there was one."""
    if contract.copies or contract.rereads or contract.cursor is None:
        return "cursor"
    text, cursor = columns.get(contract.name), contract.cursor.casefold()
    found = parse_columns(text) if text is not None else ()
    kinds = [c.type.partition("(")[0] for c in found if c.name.casefold() == cursor]
    if not kinds:
        return None
    return "cursor" if kinds[0] in TIMES else "created" if contract.created else ""


def build_assets(mirror: Mirror) -> list[Asset]:
    """Every table's chain, every source's cleanup, and the lake's maintenance."""
    return [
        *(asset for table in mirror.tables for asset in _chain(mirror, table)),
        *(build_cleanup(source, tables) for source, tables in mirror.by_source.items()),
        *(build_source_log(*one) for one in mirror.followed.items()),
        *(asset for tenants in mirror.tenants for asset in build_tenants_chain(tenants)),
        *([build_maintenance(mirror.every, mirror.tenants)] if _has_lake(mirror) else []),
        *(asset for build in ASSETS for asset in build(mirror)),
    ]


def _has_lake(mirror: Mirror) -> bool:
    """Whether the mirror has lake tables to look after."""
    return bool(mirror.every or mirror.tenants)


def _chain(mirror: Mirror, table: MirroredTable) -> list[Asset]:
    """A table's chain; of the source, which nobody materialises, the definition shows the columns
    as the newest load saw them."""
    assets = build_chain(table)
    text = mirror.source_columns.get(table.contract.name)
    source = assets[0]
    if text is not None and isinstance(source, dg.AssetSpec):
        schema = source_schema(table.contract, parse_columns(text))
        assets[0] = source.merge_attributes(metadata={COLUMN_SCHEMA: schema})
    return assets


def build_asset_checks(mirror: Mirror) -> list[dg.AssetChecksDefinition]:
    """Every table's checks."""
    return [
        *(check for table in mirror.tables for check in build_checks(table)),
        *map(build_tenant_checks, mirror.tenants),
        *(build_lag_check(*one) for one in mirror.followed.items()),
        *(check for build in CHECKS for check in build(mirror)),
    ]


def build_jobs(mirror: Mirror) -> list[dg.JobDefinition]:
    """What a person on call starts; nothing where there is no table."""
    needs = frozenset[str]().union(*map(mirror.needs, mirror.snapshots))
    of_tables = (build_backfill_errored, build_repair, build_refold)
    of_servers = [*mirror.tables, *mirror.tenants]
    return [
        *(build(mirror.every, needs) for build in (build_sync, build_prove) if mirror.every),
        *(build(mirror.tables) for build in of_tables if mirror.tables),
        *(build_follow(*one) for one in mirror.followed.items()),
        *(build(of_servers) for build in (build_hold, build_release) if of_servers),
        *([build_prove_tenants(mirror.tenants)] if mirror.tenants else []),
        *(job for build in JOBS for job in build(mirror)),
    ]


def build_sensors(mirror: Mirror) -> list[dg.SensorDefinition]:
    """What starts runs when something moved or landed, what reports, and what alerts."""
    running = mirror.running
    reporters = [one for build in COMPUTED for one in build(mirror)]
    made = {name: build(mirror) for name, build in PUBLICATIONS.added.items()}
    publications = {name: one for name, one in made.items() if one is not None}
    return [
        build_failed_sensor(mirror.every, mirror.names, mirror.tenants),
        *(
            build_moved_sensor(source, tables, running=running)
            for source, tables in mirror.by_source.items()
        ),
        *(build_tenants_sensor(tenants, running=running) for tenants in mirror.tenants),
        *(sensor for build in SENSORS for sensor in build(mirror)),
        *([build_unfolded_sensor(mirror.tables, running=running)] if mirror.tables else []),
        *(
            [
                build_partitions_sensor(
                    *(mirror.tables, mirror.snapshots, mirror.tenants, publications, reporters)
                )
            ]
            if _has_lake(mirror) or publications or reporters
            else []
        ),
    ]


def build_schedules(mirror: Mirror) -> list[dg.ScheduleDefinition]:
    """What runs once a day, or every two hours."""
    running = mirror.running
    by_table = (build_schedule, build_cleanup_schedule, build_proof_schedule)
    return [
        *([build_maintenance_schedule(mirror.names, running=running)] if _has_lake(mirror) else []),
        *(build(mirror.tables, running=running) for build in by_table if mirror.tables),
        *(schedule for build in SCHEDULES for schedule in build(mirror)),
    ]


def build_definitions(
    config: Config,
    resources: Mapping[str, Any] | None = None,
    *,
    translator: MirrorlakeTranslator | None = None,
    running: bool = False,
    name: str | None = None,
    executor: dg.ExecutorDefinition | None = threads_executor,
) -> dg.Definitions:
    """Everything that Dagster needs of a config, to load by itself or to merge with others.

    Args:
        config: the contracts.
        resources: replaces resources by name; tests give their own.
        translator: what assets are called, and how they are partitioned.
        running: whether sensors and schedules are on until someone turns them off.
        name: what resources, sensors, schedules and chores are called beside those of another
            mirror in the same location, or beside resources of your own: see
            `dagster_mirrorlake.names`. Keys of tables are the translator's to say.
        executor: of the location, whatever else is in it. By default the steps of a run share one
            process, and so one JVM: tables side by side in threads, assets of your own one at a
            time. None leaves the location its own.

    Raises:
        ConfigError: the name is none that Dagster takes.
    """
    mirror = Mirror(config, translator or MirrorlakeTranslator(), running, name=name)
    return dg.Definitions(
        assets=build_assets(mirror),
        asset_checks=build_asset_checks(mirror),
        jobs=build_jobs(mirror),
        sensors=build_sensors(mirror),
        schedules=build_schedules(mirror),
        resources={
            **build_resources(str(config.path), config, mirror.names),
            **(resources or {}),
        },
        executor=executor,
    )
