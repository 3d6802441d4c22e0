"""What `mirrorlake doctor` says of a contract: the file, the lake, the ledger and each source.

The machine's own pieces are `mirrorlake.runtime.doctor`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pymysql.connections import Connection
from sqlalchemy import make_url

from mirrorlake.config import Config, SourceConfig, TableContract, TenantTable, load_config
from mirrorlake.config.source_url import default_tls
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.destinations.iceberg.warehouse.identity import check_served_catalog, open_lake
from mirrorlake.destinations.iceberg.warehouse.lake_location import (
    check_place,
    is_catalog_missing,
    refuse_no_folder,
)
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import LEDGER_VERSION, Ledger
from mirrorlake.load.tenants.readable_tenants import find_unreadable
from mirrorlake.operations.loading.accept import refuse_other_server
from mirrorlake.operations.other_writers.moved_lake import (
    recorded_tables,
    refuse_lost_views,
    refuse_moved_lake,
)
from mirrorlake.operations.status.file_permissions import look_at_permissions
from mirrorlake.operations.status.leftovers import look_at_leftovers
from mirrorlake.operations.status.log_diagnosis import look_at_log
from mirrorlake.operations.tenants.survey import TenantSurvey, survey_tenants
from mirrorlake.runtime.at_once import map_at_once
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.runtime.java import small_code_cache
from mirrorlake.runtime.permissions import held
from mirrorlake.runtime.plural import plural
from mirrorlake.runtime.replaced_file import file_of
from mirrorlake.sources.mysql.introspection.introspect import read_contracted, read_tables
from mirrorlake.sources.mysql.introspection.lake_names import in_lake
from mirrorlake.sources.mysql.reading.privileges import missing_privileges
from mirrorlake.sources.mysql.sessions.connect import read_position, rows_of, session
from mirrorlake.sources.mysql.sessions.zones import differences, name_of_zone, read_server_zone
from mirrorlake.sources.mysql.tables import SourceTable
from mirrorlake.table.columns.new_columns import gone_words, once_there
from mirrorlake.table.resolve import (
    located_errors,
    names_not_in_bigquery,
    publish_step,
    resolve_contract,
)
from mirrorlake.workspace import Workspace

SHOWN = 5
"""Tenants that can't be kept, and things that are no tenants, are listed up to this many."""
_AT_ONCE = 8
_NOT_MADE = "not made yet; the first sync makes it"


def diagnose_contract(path: Path) -> list[Diagnosis]:
    """Every piece that a contract names, also those that are fine; never raises for a bad one.

    No ledger, catalog or lake is made. A ledger of an older version is brought to this one, as by
    every command. In the empty database of a server their empty tables are.
    """
    try:
        config = load_config(path)
    except MirrorlakeError as error:
        return [Diagnosis("contract", "", "broken", str(path), str(error))]
    with held(config.lake.permissions), TemporaryDirectory(prefix="mirrorlake-") as folder:
        return _pieces(path, _Parts(config, Path(folder)))


@dataclass(frozen=True)
class _Parts:
    """A contract's ledger and lake. What is not there yet, as a file on this machine, is empty and
    in a folder that is removed: a look must not make what a restore puts back."""

    config: Config
    folder: Path

    @property
    def has_ledger(self) -> bool:
        file = file_of(make_url(self.config.ledger.url))
        return file is None or file.is_file()

    def ledger(self) -> Ledger:
        where = self.config.ledger
        url = where.url if self.has_ledger else f"sqlite:///{self.folder}/ledger.db"
        found = Ledger(url, where.wait)
        found.url = where.url  # as errors show it
        return found

    def missing_lake(self) -> dict[str, Any]:
        """What of the lake is not there, and what is looked at in its place."""
        lake, found = self.config.lake, dict[str, Any]()
        folder = local_path(lake.warehouse)
        if folder is not None and not folder.is_dir():
            found["warehouse"] = str(self.folder / "lake")
        if is_catalog_missing(lake):
            uri = f"sqlite:///{self.folder}/catalog.db"
            found["catalog"] = lake.catalog.model_copy(update={"uri": uri})
        return found

    def lake(self, ledger: Ledger) -> Lake:
        """Raises LakeError: it is lost, or not the one that the ledger knows."""
        config = self.config.lake
        if check_place(config, ledger).heads:
            refuse_no_folder(config)
        if missing := self.missing_lake():
            return Lake(config.model_copy(update=missing))
        return open_lake(self.config, ledger, looks_only=True)


def _pieces(path: Path, parts: _Parts) -> list[Diagnosis]:
    config = parts.config
    tables = plural(len(config.tables), "table")
    tables += f", {len(config.tenants)} of tenants" if config.tenants else ""
    pieces = [Diagnosis("contract", "1", "ok", str(path), tables)]
    ledger_at = Ledger.shown_url(config.ledger.url)
    pieces.append(_looked_at("ledger", ledger_at, lambda: _ledger(parts)))
    pieces.append(_looked_at("lake", config.lake.warehouse, lambda: _lake(parts)))
    pieces.append(_looked_at("lake and ledger", ledger_at, lambda: _agreement(parts)))
    if config.spark.connect:
        where = str(config.spark.connect).partition("/;")[0]
        pieces.append(_looked_at("Spark Connect", where, lambda: _connect(parts)))
    pieces += look_at_permissions(config)
    pieces += look_at_leftovers(config, parts.ledger)
    for source in config.sources.values():
        servers = {f"source {source.name}": source}
        if source.primary is not None:
            servers[f"source {source.name}, primary"] = source.primary
        for name, server in servers.items():
            pieces += _server(name, server)
        if pieces[-1].state != "broken" or source.primary is not None:
            pieces += _tables(parts, source)
        pieces += look_at_log(config, source)
    return [*pieces, *(piece for table in config.tenants for piece in _tenants(parts, table))]


def _tables(parts: _Parts, source: SourceConfig) -> list[Diagnosis]:
    """Whether each table's contract can be kept by the server that is there, as a sync would find
    before it reads: one piece for those that can, one for each that can't."""
    config = parts.config
    contracts = [c for c in config.tables if c.source == source.name]
    refused: list[Diagnosis] = []
    warned: list[Diagnosis] = []
    try:
        with session(source) as connection:
            ledger, server = _open_ledger(parts), read_position(connection).server
            databases = dict.fromkeys(c.database for c in contracts)
            there = {(t.database, t.name): t for d in databases for t in read_tables(connection, d)}
            for contract in contracts:
                try:
                    table = there.get((contract.database, contract.table))
                    if table is None:
                        table = read_contracted(config, contract, connection)
                    with located_errors(config, contract):
                        table = in_lake(table, contract)
                    once = _once(ledger, contract)
                    plan, name = resolve_contract(config, contract, table, once), contract.name
                    if ledger is not None:
                        refuse_other_server(ledger, connection, plan, server)
                    notes = [gone_words(plan.gone)] if plan.gone else []
                    warned += [
                        Diagnosis(f"table {name}", "", "missing", "", note, optional=True)
                        for note in [*notes, *_unread(table, contract)]
                    ]
                    warned += [
                        Diagnosis(
                            f"table {name}, BigQuery", "", "broken", "",
                            f"{problem.words}. {publish_step(problem)}",
                        )
                        for problem in names_not_in_bigquery(plan)
                    ]  # fmt: skip
                except MirrorlakeError as error:
                    refused.append(
                        Diagnosis(f"table {contract.name}", "", "broken", "", str(error))
                    )
    except MirrorlakeError as error:
        return [Diagnosis(f"tables of {source.name}", "", "broken", "", str(error))]
    fit = f"{len(contracts) - len(refused)} of {len(contracts)} contracts can be kept"
    state = "broken" if refused else "ok"
    return [Diagnosis(f"tables of {source.name}", "", state, "", fit), *refused, *warned]


def _unread(table: SourceTable, contract: TableContract) -> list[str]:
    """Which rows no window reads."""
    cursor = next((c for c in table.columns if c.name == contract.cursor), None)
    if contract.copies or cursor is None or cursor.fixed_time is None:
        return []
    return [
        f"its cursor {cursor.name} has the default '{cursor.fixed_time}': a row that is inserted "
        "without it lies behind every window, and is missing until a check finds it. Give the "
        "column CURRENT_TIMESTAMP as its default, or the table mode: full"
    ]


def _open_ledger(parts: _Parts) -> Ledger | None:
    """The ledger; None where it can't be opened, which is a piece of its own."""
    try:
        return parts.ledger()
    except MirrorlakeError:
        return None


def _once(ledger: Ledger | None, contract: TableContract) -> frozenset[str]:
    """The columns that a table had when it was loaded; none where the ledger can't be read."""
    if ledger is None:
        return frozenset()
    try:
        return once_there(ledger, contract, ledger.schema_versions(contract.name))
    except MirrorlakeError:
        return frozenset()


def _tenants(parts: _Parts, table: TenantTable) -> list[Diagnosis]:
    """Whether the sources have tenants of a table, and which of them can be kept, as a sync would
    find before it reads; sources and patterns that mean nothing are named."""
    name = f"tenants {table.name}"
    try:
        config, ledger = parts.config, parts.ledger()
        lake = parts.lake(ledger)
        workspace = Workspace(config, ledger, lake, LazySpark(config.spark, lake), "doctor")
        survey = survey_tenants(workspace, table)
        _look_into(config, survey)
    except MirrorlakeError as error:
        return [Diagnosis(name, "", "broken", "", str(error))]
    there = len(survey.plans) + len(survey.failed)
    words = f"{len(survey.plans):,} of {there:,} tenants can be kept"
    lost = [f"source {source} was not looked at" for source in sorted(survey.lost)]
    state = "broken" if survey.failed or not (there or lost) else "ok"
    pieces = [Diagnosis(name, "", state, "", "; ".join([words, *lost]))]
    failed = [f"{s}.{d}: {error}" for (s, d), error in sorted(survey.failed.items())]
    pieces += [Diagnosis(f"{name}: tenant", "", "broken", "", line) for line in failed[:SHOWN]]
    left_out = [f"{one.label}: {one.why}" for one in survey.left_out]
    pieces += [
        Diagnosis(f"{name}: left out", "", "missing", "", line, optional=True)
        for line in left_out[:SHOWN]
    ]
    for more in (len(failed) - SHOWN, len(left_out) - SHOWN):
        if more > 0:
            pieces.append(Diagnosis(name, "", "missing", "", f"and {more:,} more", optional=True))
    return pieces


def _look_into(config: Config, survey: TenantSurvey) -> None:
    """Move the tenants that can't be read among the failed."""
    for name in sorted({source for source, _ in survey.plans}):
        plans = [plan for (source, _), plan in survey.plans.items() if source == name]
        with session(config.sources[name]) as connection:
            for database, error in find_unreadable(connection, plans).items():
                del survey.plans[name, database]
                survey.failed[name, database] = error


def _looked_at(name: str, where: str, look: Callable[[], tuple[str, str]]) -> Diagnosis:
    try:
        version, detail = look()
    except MirrorlakeError as error:
        return Diagnosis(name, "", "broken", where, str(error))
    return Diagnosis(name, version, "ok", where, detail)


def _lake(parts: _Parts) -> tuple[str, str]:
    lake = parts.lake(parts.ledger())
    if parts.missing_lake():
        return "", _NOT_MADE
    with lake.translated("catalog"):
        return "format 2", f"{len(lake.catalog.list_namespaces())} namespaces"


def _connect(parts: _Parts) -> tuple[str, str]:
    """A Spark Connect server's version, and whether it has room for what it compiles."""
    spark = LazySpark(parts.config.spark, parts.lake(parts.ledger()))
    try:
        session = spark.get()
        options = session.conf.get("spark.driver.extraJavaOptions", "")
        return session.version, small_code_cache(options or "")
    finally:
        spark.stop()


def _agreement(parts: _Parts) -> tuple[str, str]:
    """Whether the lake's tables are as the ledger's last commits left them."""
    config, ledger = parts.config, parts.ledger()
    if not parts.missing_lake():
        check_served_catalog(config, ledger)
    refuse_moved_lake(config, ledger, recorded_tables(config, ledger))
    refuse_lost_views(config, ledger)
    heads = ledger.lake_heads()
    if heads and not parts.missing_lake():
        # Where nothing moved, nobody opened what the catalog names: it may be gone.
        lake = parts.lake(ledger)
        map_at_once(lambda head: lake.load(Identifier(*head.name)), heads, _AT_ONCE)
    return "", f"{plural(len(heads), 'table is', 'tables are')} as the ledger knows them"


def _ledger(parts: _Parts) -> tuple[str, str]:
    if not parts.has_ledger:
        return "", _NOT_MADE
    parts.ledger()
    return str(LEDGER_VERSION), ""


def _server(name: str, source: SourceConfig) -> list[Diagnosis]:
    """A server, and a piece for each thing that a sync can do without and a person may want to
    change."""
    where = f"{source.host}:{source.port}"
    try:
        with session(source) as connection:
            (version,) = rows_of(connection, "SELECT @@version")[0]
            found = {
                "TLS": unproved_server(source),
                "time zone": _other_zone(connection, source),
                "privileges": missing_privileges(connection),
            }
    except MirrorlakeError as error:
        return [Diagnosis(name, "", "broken", where, str(error))]
    return [
        Diagnosis(name, str(version), "ok", where, ""),
        *(
            Diagnosis(f"{name}: {what}", "", "missing", where, "; ".join(words), optional=True)
            for what, words in found.items()
            if words
        ),
    ]


def _other_zone(connection: Connection[Any], source: SourceConfig) -> list[str]:
    """In words, if the server writes DATETIME in another zone than the contract says."""
    server = read_server_zone(connection, source)
    if source.time_zone_of == "application" or not any(differences(source.zone, server)):
        return []
    named = name_of_zone(server) or server.words
    return [
        f"the contract's time_zone is {source.time_zone}, and the server's own is {named}: tables "
        "with a DATETIME cursor are refused"
    ]


def unproved_server(source: SourceConfig) -> list[str]:
    """What a source's TLS does not protect from, in words; nothing on a loopback address."""
    if default_tls(source.host) == "off" or not isinstance(source.tls, str):
        return []
    if source.tls == "off":
        return ["tls: off: rows and the login travel in clear text; set tls: {ca: …}"]
    return [
        "tls: required checks no certificate: whoever answers in the server's place is not "
        "noticed; set tls: {ca: …}"
    ]
