"""The way from a file to a `Config`: parse, validate, resolve; every problem at its line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import SecretStr, ValidationError

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract, TenantTable
from mirrorlake.config.fields import matches
from mirrorlake.config.landing import LandingConfig, SnapshotConfig
from mirrorlake.config.modes import MODES
from mirrorlake.config.resolved import contract_problems
from mirrorlake.config.secrets import PLACEHOLDER, UnsetSecret, has_placeholder
from mirrorlake.config.sections.added import added_sections, file_sections, secret_paths
from mirrorlake.config.sections.contract_file import (
    ConfigSections,
    DatabaseSection,
    DefaultsConfig,
    SourceSection,
    TableSection,
)
from mirrorlake.config.sections.table_findings import lake_names
from mirrorlake.config.server import SourceConfig, Tls, TlsConfig
from mirrorlake.config.settings import (
    LakeConfig,
    LedgerConfig,
    Namespaces,
    PartitionSize,
    ShapePolicy,
    default_namespaces,
    namespaces_of,
)
from mirrorlake.config.source_url import default_tls, parse_source_url
from mirrorlake.config.yaml.problems import raise_problems, read_text, validation_problems
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.config.yaml.yaml_file import Plain, Problem, YamlFile
from mirrorlake.errors import ConfigError

_FIRST_FILE: Final = "`mirrorlake init --from mysql://…` writes a first one"
_ENVIRONMENT_ALLOWED: Final = re.compile(
    r"/sources/[^/]*/(?:password|replica)|/privacy/hash_key|/ledger/url|/lake/catalog/uri"
    r"|/readers/trino/password"
    r"|/lake/catalog/properties/.*|/spark/conf/.*|/(?:sources|tenants)/.*/tables/.*",
    re.DOTALL,
)


def load_config(
    path: str | os.PathLike[str],
    *,
    environ: Mapping[str, str] | None = None,
    today: date | None = None,
    secrets: Literal["now", "when used"] = "now",
) -> Config:
    """Read ``mirrorlake.yaml``: validated, defaults filled in, paths absolute, secrets in place.

    Args:
        path: the file; paths in it are relative to its folder.
        environ: where ``${env:NAME}`` is looked up; the process's environment by default.
        secrets: whether a variable that is not set is a problem now, or where its secret is used
            (passwords of sources, of hooks and of Trino, the hash key; what opens lake and ledger
            always now).
        today: the day (UTC) after which a ``start`` lies in the future; today by default.

    Raises:
        ConfigError: the file can't be read, or has problems: all of them, one a line, each with
            file, line and column.
    """
    path = Path(path)
    file = YamlFile(read_text(path, "config file", _FIRST_FILE))
    raise_problems(path, file.problems)
    if not isinstance(file.root, dict):
        what = "is empty" if file.root is None else "is not a mapping (name: value)"
        raise ConfigError(
            f"{path}:1: the config {what}", next_step="`mirrorlake init` writes a first one"
        )
    problems = list(_misplaced_placeholders(file))
    try:
        sections = file_sections().model_validate(
            file.root,
            context={
                "environ": os.environ if environ is None else environ,
                "places": None if secrets == "now" else _places(path, file),
            },
        )
    except ValidationError as error:
        problems += validation_problems(file, error, file_sections())
        raise_problems(path, problems)
        raise  # unreachable: a ValidationError holds at least one problem
    tables = tuple(sorted(_contracts(sections), key=lambda contract: contract.name))
    today = today or datetime.now(UTC).date()
    problems += (
        file.problem(where, message)
        for where, message in contract_problems(sections, tables, today)
    )
    raise_problems(path, problems)
    return _config(path, sections, tables)


def config_schema() -> dict[str, Any]:
    """The JSON schema (draft 2020-12) of ``mirrorlake.yaml``, for editors and for reading."""
    schema = file_sections().model_json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "mirrorlake.yaml",
    }


def _places(path: Path, file: YamlFile) -> dict[str, str]:
    """Where each environment variable is first named: ``file:line:column: path``."""
    found: dict[str, str] = {}
    for where, text in _texts(file.root, ()):
        for name in PLACEHOLDER.findall(text):
            problem = file.problem(where, "")
            found.setdefault(name, f"{path}:{problem.line}:{problem.column}: {problem.path}")
    return found


def _texts(value: Plain, path: YamlPath) -> Iterator[tuple[YamlPath, str]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _texts(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts(inner, (*path, index))
    elif value is not None:
        yield path, value


def _takes_placeholder(path: YamlPath) -> bool:
    # Under a table stand names of MySQL's, where any text may be one.
    written = "".join(f"/{part}" for part in path)
    if _ENVIRONMENT_ALLOWED.fullmatch(written) is not None:
        return True
    return any(re.fullmatch(allowed, written, re.DOTALL) for allowed in secret_paths())


def _misplaced_placeholders(file: YamlFile) -> Iterator[Problem]:
    for path, value in _texts(file.root, ()):
        if has_placeholder(value) and not _takes_placeholder(path):
            yield file.problem(path, "only secrets come from the environment: write the value")


def _contracts(sections: ConfigSections) -> Iterator[TableContract]:
    for source, server in sections.sources.items():
        for database, section in server.databases.items():
            namespaces = _namespaces(source, database, section)
            for table, contract in section.tables.items():
                name = (source, database, table)
                found = _contract(name, contract, sections.defaults, namespaces)
                yield found.model_copy(update={"every": contract.every or server.every})


def _shape_policy(defaults: DefaultsConfig) -> ShapePolicy:
    """What tenants do whose contract says nothing; `contract_problems` refuses ``freeze``."""
    return "evolve" if defaults.schema_changes == "freeze" else defaults.schema_changes


def _tenant_tables(sections: ConfigSections) -> Iterator[TenantTable]:
    servers = [name for name, section in sections.sources.items() if section.landing is None]
    defaults = sections.defaults
    for group, section in sections.tenants.items():
        written = section.namespaces.model_dump(exclude_none=True)
        for table, contract in section.tables.items():
            said = contract.model_fields_set
            yield TenantTable(
                group=group,
                table=table,
                sources=tuple(name for name in servers if matches(section.sources, name)),
                databases=section.databases,
                left_out=section.left_out,
                dropped=section.dropped,
                mode=contract.mode if MODES[contract.mode].by_log else None,
                every=section.every,
                key=contract.key,
                clean=contract.clean or defaults.clean,
                new_columns=contract.new_columns or defaults.new_columns,
                schema_changes=contract.schema_changes or _shape_policy(defaults),
                verify=defaults.verify if contract.verify is None else contract.verify,
                shrink_limit=(
                    contract.shrink_limit if "shrink_limit" in said else defaults.shrink_limit
                ),
                owners=defaults.owners if contract.owners is None else contract.owners,
                freshness=contract.freshness if "freshness" in said else defaults.freshness,
                columns=contract.columns,
                write_mode=contract.write_mode or defaults.write_mode,
                publish=contract.publish or defaults.publish,
                bigquery=contract.bigquery,
                namespaces=namespaces_of(group).model_copy(update=written),
            )


def _namespaces(source: str, database: str, section: DatabaseSection) -> Namespaces:
    written = section.namespaces.model_dump(exclude_none=True)
    return default_namespaces(source, database).model_copy(update=written)


def _partition(table: TableSection, defaults: DefaultsConfig) -> PartitionSize:
    """The default size of a table's partitions. A copy is of a day, not of an hour."""
    mode = MODES[table.mode]
    copies = defaults.partition == "hour" and not (mode.by_windows or mode.by_log)
    return "day" if copies else defaults.partition


def _contract(
    name: tuple[str, str, str],
    table: TableSection,
    defaults: DefaultsConfig,
    namespaces: Namespaces,
) -> TableContract:
    source, database, bare = name
    written, landed = table.model_fields_set, MODES[table.mode].landed
    names = lake_names(table)

    def in_lake(column: str) -> str:
        return names.get(column.lower(), column)

    entity = table.entity and table.entity.model_copy(
        update={
            "token": in_lake(table.entity.token),
            "created": in_lake(table.entity.created),
        }
    )
    return TableContract(
        source=source,
        database=database,
        table=bare,
        mode=table.mode,
        key=tuple(map(in_lake, table.key)),
        cursor=table.cursor and in_lake(table.cursor),
        created=table.created and in_lake(table.created),
        entity=entity,
        # `null` takes the default of these three away; the others can't be null.
        start=table.start if "start" in written else defaults.start,
        partition=table.partition or _partition(table, defaults),
        partitions_from=table.partitions_from,
        freshness=table.freshness if "freshness" in written else defaults.freshness,
        shrink_limit=(table.shrink_limit if "shrink_limit" in written else defaults.shrink_limit),
        overlap=defaults.overlap if table.overlap is None else table.overlap,
        overlap_keys=defaults.overlap_keys if table.overlap_keys is None else table.overlap_keys,
        settle=defaults.settle if table.settle is None else table.settle,
        # The rows of snapshots are shown by a view, whatever the others' default is.
        clean=table.clean or ("view" if landed else defaults.clean),
        new_columns=table.new_columns or defaults.new_columns,
        schema_changes=table.schema_changes or defaults.schema_changes,
        # Snapshots have no raw rows.
        versions="view" if landed else table.versions or defaults.versions,
        owners=defaults.owners if table.owners is None else table.owners,
        deletes=table.deletes or "remove",
        repair=table.repair or defaults.repair,
        repair_limit=table.repair_limit or defaults.repair_limit,
        verify=defaults.verify if table.verify is None else table.verify,
        columns={in_lake(name): rule for name, rule in table.columns.items()},
        lake_names={n: rule.name_in_lake for n, rule in table.columns.items() if rule.name_in_lake},
        namespaces=namespaces,
        snapshot=(table.snapshot or SnapshotConfig()) if landed else None,
        write_mode=table.write_mode or defaults.write_mode,
        publish=table.publish or defaults.publish,
        bigquery=table.bigquery,
    )


def _config(path: Path, sections: ConfigSections, tables: tuple[TableContract, ...]) -> Config:
    folder = path.absolute().parent
    return Config(
        path=path,
        lake=_lake(sections.lake, folder),
        ledger=_ledger(sections.ledger, folder),
        spark=sections.spark,
        privacy=sections.privacy,
        readers=sections.readers,
        added=dict(added_sections(sections)),
        sources={
            name: _source(name, section, folder)
            for name, section in sections.sources.items()
            if section.landing is None
        },
        tables=tuple(table for table in tables if not table.landed),
        landings={
            name: _landing(name, section.landing, folder)
            for name, section in sections.sources.items()
            if section.landing is not None
        },
        snapshots=tuple(table for table in tables if table.landed),
        tenants=tuple(sorted(_tenant_tables(sections), key=lambda table: table.name)),
    )


def _lake(lake: LakeConfig, folder: Path) -> LakeConfig:
    catalog = lake.catalog
    if catalog.uri is not None:
        catalog = catalog.model_copy(update={"uri": _absolute_sqlite(catalog.uri, folder)})
    return lake.model_copy(
        update={"warehouse": _absolute(lake.warehouse, folder), "catalog": catalog}
    )


def _ledger(ledger: LedgerConfig, folder: Path) -> LedgerConfig:
    return ledger.model_copy(update={"url": _absolute_sqlite(ledger.url, folder)})


def _absolute(text: str, folder: Path) -> str:
    """A URI as it is; a path as an absolute one, without following links."""
    return text if "://" in text else os.path.normpath(folder / Path(text).expanduser())


def _absolute_sqlite(url: str, folder: Path) -> str:
    match = re.fullmatch(r"(sqlite(?:\+\w+)?:///)([^?]*)(\?.*)?", url)
    if match is None:
        return url
    scheme, file, query = match.groups()
    return f"{scheme}{_absolute(file, folder)}{query or ''}"


def _source(name: str, section: SourceSection, folder: Path) -> SourceConfig:
    source = SourceConfig(
        name=name,
        host=section.host,
        port=section.port,
        user=section.user,
        password=section.password,
        tls=_tls(section.tls or default_tls(section.host), folder),
        time_zone=section.time_zone,
        time_zone_of=section.time_zone_of,
        connections=section.connections,
        rows_per_second=section.rows_per_second,
        statement_seconds=section.statement_seconds,
        silence=section.silence,
        every=section.every,
        skip_unchanged=section.skip_unchanged,
        back_off=section.back_off,
    )
    if section.replica is None:
        return source
    url = parse_source_url(section.replica)
    password: SecretStr = url.password
    if unset := PLACEHOLDER.fullmatch(password.get_secret_value()):
        password = UnsetSecret(unset[1], f"sources.{name}.replica")
    there = {"host": url.host, "port": url.port, "user": url.user, "password": password}
    update = {**there, "tls": _tls(url.tls, folder), "primary": source}
    return source.model_copy(update=update)


def _landing(name: str, landing: LandingConfig, folder: Path) -> LandingConfig:
    place = {"url": _absolute(landing.url, folder), "cluster": landing.cluster or name}
    return landing.model_copy(update=place)


def _tls(tls: Tls, folder: Path) -> Tls:
    return TlsConfig(ca=_absolute(tls.ca, folder)) if isinstance(tls, TlsConfig) else tls
