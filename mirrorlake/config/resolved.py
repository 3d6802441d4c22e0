"""What can only be checked once every default is filled in: contracts against each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from typing import Final

from mirrorlake.capabilities import Seam
from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import matches, nearest
from mirrorlake.config.modes import MODES
from mirrorlake.config.sections.contract_file import ConfigSections
from mirrorlake.config.sections.tenants import TenantTableSection
from mirrorlake.config.settings import STREAM_SUFFIX, Namespaces, default_namespaces, namespaces_of
from mirrorlake.config.source_url import parse_source_url
from mirrorlake.errors import ConfigError

_Found = Iterator[tuple[tuple[str | int, ...], str]]
_PROBLEMS: Final[Seam[Callable[[ConfigSections, tuple[TableContract, ...]], _Found]]] = Seam(
    "config.problems"
)
"""What is wrong between sections of capabilities and the others."""
_LAYERS = ("raw", "deduped", "clean")


def contract_problems(
    sections: ConfigSections, tables: tuple[TableContract, ...], today: date
) -> _Found:
    """Path and message of everything that is wrong between sections, none if they fit together."""
    if sections.defaults.start is not None and sections.defaults.start > today:
        yield ("defaults", "start"), _future(sections.defaults.start, today)
    yield from _replicas(sections)
    yield from _modes(sections)
    for contract in tables:
        yield from _table_problems(sections, contract, today)
    yield from _name_collisions(tables)
    yield from _namespace_collisions(sections)
    yield from _shared_tables(tables)
    yield from _taken_by_streams(tables)
    for problems in _PROBLEMS:
        yield from problems(sections, tables)
    yield from _tenants(sections)
    yield from _tenant_namespaces(sections)


def _replicas(sections: ConfigSections) -> _Found:
    for name, source in sections.sources.items():
        if source.replica is None:
            continue
        try:
            replica = parse_source_url(source.replica)
        except ConfigError as error:
            yield ("sources", name, "replica"), str(error)
            continue
        if (replica.host, replica.port) == (source.host, source.port):
            yield ("sources", name, "replica"), "this is the source itself: leave it out"


def _modes(sections: ConfigSections) -> _Found:
    """Snapshots land, everything else is read from a server."""
    for name, source in sections.sources.items():
        for database, section in source.databases.items():
            for table, contract in section.tables.items():
                place = ("sources", name, "databases", database, "tables", table, "mode")
                landed = MODES[contract.mode].landed
                if source.landing is None and landed:
                    yield place, "mode snapshot needs a source with a landing, not a server"
                elif source.landing is not None and not landed:
                    yield place, f"mode {contract.mode} reads a server; of a landing: snapshot"
                elif landed and contract.clean == "table":
                    yield (*place[:-1], "clean"), "clean of snapshots is a view: clean: view"


_HASH_IN_A_VIEW = "pii: hash in a view would show the key in the view's text: use clean: table"
_NO_FREEZE = (
    "defaults say schema_changes: freeze, and tenants have none: write schema_changes: evolve or"
    " fail here"
)
_HASH_WITHOUT_A_KEY = "pii: hash needs privacy.hash_key: write ${env:NAME} there"


def _tenants(sections: ConfigSections) -> _Found:
    """Groups of tenants name servers that there are, whose clocks write alike."""
    servers = {n: s for n, s in sections.sources.items() if s.landing is None}
    for group, section in sections.tenants.items():
        place = ("tenants", group)
        if group in sections.sources:
            yield place, "a source has this name, too: call the tenants otherwise"
        for number, pattern in enumerate(section.sources):
            if not any(matches((pattern,), name) for name in servers):
                near = nearest(pattern, list(servers))
                yield (*place, "sources", number), f"no server is called {pattern!r}{near}"
        zones = {s.time_zone for n, s in servers.items() if matches(section.sources, n)}
        if len(zones) > 1:
            listed = ", ".join(sorted(zones))
            yield (
                (*place, "sources"),
                f"its servers write times in several zones ({listed}): make a group of each",
            )
        for table, contract in section.tables.items():
            yield from _tenant_table(sections, (*place, "tables", table), contract)


def _tenant_table(
    sections: ConfigSections, place: tuple[str, ...], contract: TenantTableSection
) -> _Found:
    clean = contract.clean or sections.defaults.clean
    if sections.defaults.schema_changes == "freeze" and contract.schema_changes is None:
        yield place, _NO_FREEZE
    for column, rule in contract.columns.items():
        at = (*place, "columns", column, "pii")
        if rule.pii == "hash" and clean == "view":
            yield at, _HASH_IN_A_VIEW
        if rule.pii == "hash" and sections.privacy.hash_key is None:
            yield at, _HASH_WITHOUT_A_KEY


def path_of(contract: TableContract, *rest: str) -> tuple[str, ...]:
    """Where a table's contract stands in the file."""
    place = ("sources", contract.source, "databases", contract.database, "tables", contract.table)
    return (*place, *rest)


def _future(start: date, today: date) -> str:
    return f"{start} is in the future (today is {today} UTC): no partition would ever be loaded"


def _table_problems(sections: ConfigSections, contract: TableContract, today: date) -> _Found:
    # A start that comes from the defaults is reported there, once.
    start = contract.start
    if start is not None and start > today and start != sections.defaults.start:
        yield path_of(contract, "start"), _future(start, today)
    if contract.partitions_from is not None and contract.partitions_from > today:
        yield path_of(contract, "partitions_from"), _future(contract.partitions_from, today)
    key = {column.lower() for column in contract.key}
    for column, rule in contract.rules.items():
        place = path_of(contract, "columns", contract.name_in_mysql(column), "pii")
        if rule == "hash" and contract.clean == "view":
            yield place, _HASH_IN_A_VIEW
        if rule == "hash" and sections.privacy.hash_key is None:
            yield place, _HASH_WITHOUT_A_KEY
        if contract.clean == "table" and rule != "hash" and column.lower() in key:
            message = (
                f"the clean table is kept by its key, and pii: {rule} takes {column!r} away:"
                " use pii: hash, or clean: view"
            )
            yield place, message


def _name_collisions(tables: tuple[TableContract, ...]) -> _Found:
    seen: dict[str, TableContract] = {}
    for contract in tables:
        first = seen.setdefault(contract.name, contract)
        if first is not contract:
            yield (
                path_of(contract),
                f"the name {contract.name!r} also means table {first.table!r} of database"
                f" {first.database!r}: a dot in a name makes them one; leave one of them out",
            )


def _namespace_collisions(sections: ConfigSections) -> _Found:
    """Namespaces that two databases, or two layers of one, would share without having said so."""
    users: dict[str, list[tuple[str, str, str, bool]]] = defaultdict(list)
    for source, server in sections.sources.items():
        for database, section in server.databases.items():
            written = section.namespaces.model_dump(exclude_none=True)
            default: Namespaces = default_namespaces(source, database)
            for layer in _LAYERS:
                name = str(written.get(layer, getattr(default, layer)))
                # A folder of a case-blind file system is one folder for both spellings.
                users[name.casefold()].append((source, database, layer, layer in written))
    for name, found in users.items():
        first = found[0]
        for user in found[1:]:
            source, database, layer, explicit = user
            same_layer = layer == first[2] and (source, database) != first[:2]
            if same_layer and explicit and first[3]:
                continue
            yield (
                ("sources", source, "databases", database, "namespaces", layer),
                f"namespace {name!r} ({layer}) is also the {first[2]} namespace of"
                f" {first[0]}.{first[1]}: name another one under namespaces",
            )


def _tenant_namespaces(sections: ConfigSections) -> _Found:
    """Namespaces of tenants are theirs alone: no database's, and no other layer's."""
    users: dict[str, str] = {}
    for source, server in sections.sources.items():
        for database, section in server.databases.items():
            written = section.namespaces.model_dump(exclude_none=True)
            for layer, name in (
                default_namespaces(source, database).model_dump() | written
            ).items():
                users.setdefault(str(name).casefold(), f"the {layer} one of {source}.{database}")
    for group, tenants in sections.tenants.items():
        written = tenants.namespaces.model_dump(exclude_none=True)
        for layer, name in (namespaces_of(group).model_dump() | written).items():
            mine = f"the {layer} one of tenants {group}"
            user = users.setdefault(str(name).casefold(), mine)
            if user != mine:
                place = ("tenants", group, "namespaces", layer)
                yield place, f"namespace {name!r} ({layer}) is also {user}: name another one"


def _taken_by_streams(tables: tuple[TableContract, ...]) -> _Found:
    """Tables that lie where a view of current rows of another one would be made."""
    there = {
        (str(getattr(contract.namespaces, layer)).casefold(), contract.table): contract
        for contract in tables
        for layer in ("deduped", "clean")
    }
    for contract in tables:
        for layer in ("deduped", "clean"):
            namespace = f"{getattr(contract.namespaces, layer)}{STREAM_SUFFIX}".casefold()
            other = there.get((namespace, contract.table))
            if other is not None:
                yield (
                    path_of(other),
                    f"{namespace}.{contract.table} is where the current rows of {contract.name} are"
                    " shown to stream views: name another namespace",
                )


def _shared_tables(tables: tuple[TableContract, ...]) -> _Found:
    seen: dict[tuple[str, str], TableContract] = {}
    for contract in tables:
        for layer in _LAYERS:
            namespace = str(getattr(contract.namespaces, layer)).casefold()
            first = seen.setdefault((namespace, contract.table), contract)
            if first is not contract and first.name != contract.name:
                yield (
                    path_of(contract),
                    f"it would be written into {namespace}.{contract.table}, as {first.name} is:"
                    " two tables can't share one yet; name another namespace",
                )
                break
