"""The shapes that a table ever had, and what became of each of its columns. Queries no source.

What belongs here: reading it out of ledger and lake. What doesn't: taking a shape up
(`mirrorlake.operations.loading.resolve`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.schemas import stored_types
from mirrorlake.ledger import Ledger
from mirrorlake.merge.tenant_shapes import read_shapes
from mirrorlake.schema.lattice import common_type
from mirrorlake.schema.versions import SchemaVersion, name_in
from mirrorlake.sources.mysql.introspection.identity import Identity
from mirrorlake.table.lake_tables import raw_tables
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Shape:
    """One schema version of a table.

    Attributes:
        number: from 1, in the order in which they were last taken up.
        raw_table: its name, ``customer_v_<hash>``.
        first_seen: when it was first met (UTC).
        last_load: when the newest load of rows in it ended (UTC); None: none succeeded.
        loads: how many loads of it raw holds, of any history.
        changes: what it has that the version before it had not, in words; of tenants, whose
            versions stand side by side, in what it differs from the nearest of those before it.
        ddl: the statement that would make the table, as its server printed it; None where a version
            was met by an earlier release, or came from a ledger that was rebuilt.
        tenants: how many tenants' newest copies are in it; None of a table of one database.
    """

    number: int
    hash: str
    raw_table: str
    first_seen: datetime
    last_load: datetime | None
    loads: int
    columns: tuple[tuple[str, str], ...]
    changes: tuple[str, ...]
    ddl: str | None
    tenants: int | None = None


@dataclass(frozen=True)
class ShapeColumn:
    """One column over all versions of its table.

    Attributes:
        name: in the newest version that has it.
        types: its types in MySQL, the oldest first, each once.
        lake: its type where all versions are read together (the view over raw); None: not loaded.
        why: why it is that type.
        since, until: the numbers of the first and the last version that have it.
        versions: the numbers of all versions that have it.
        former: names that it had before.
    """

    name: str
    types: tuple[str, ...]
    lake: str | None
    since: int
    until: int
    former: tuple[str, ...] = ()
    why: str = ""
    versions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Shapes:
    """All shapes of a table, oldest first, and its columns: those of now, then those that went.

    Attributes:
        identity: what the newest load saw of which table its name means, and what it did not, in
            words; None of a table of tenants, or of full copies, which need none of it.
    """

    table: str
    versions: tuple[Shape, ...]
    columns: tuple[ShapeColumn, ...]
    identity: str | None = None


def shapes_of(workspace: Workspace, contract: Mirrored) -> Shapes:
    """The shapes of a table, as far as it was loaded; none of a table that never was. Those of a
    table of tenants stand side by side.

    Raises:
        LakeError, LedgerError: they could not be read.
    """
    if isinstance(contract, TenantTable):
        return _shapes_of_tenants(workspace, contract)
    ledger = workspace.ledger
    versions = ledger.schema_versions(contract.name)
    raw = {one.name()[-1]: one for one in raw_tables(workspace.lake, ledger, contract)}
    columns = _columns(workspace, contract, raw, _named_over(contract, versions))
    found = _versions(ledger, contract)
    return Shapes(contract.name, found, columns, _identity_words(ledger, contract))


def _shapes_of_tenants(workspace: Workspace, table: TenantTable) -> Shapes:
    ledger = workspace.ledger
    tenants = Counter(one.version for one in ledger.tenants(table.name).values())
    shapes = read_shapes(workspace, table)
    versions = ledger.schema_versions(table.name)
    there = [
        (
            name,
            [
                (number, then)
                for number, version in enumerate(versions, 1)
                if version.hash in shapes.tables
                and (then := shapes.names[version.hash].held.get(name))
            ],
        )
        for name in shapes.columns
    ]
    raw = {one.name()[-1]: one for one in shapes.tables.values()}
    columns = _columns(workspace, table, raw, there)
    return Shapes(table.name, _versions(ledger, table, tenants), columns)


def _identity_words(ledger: Ledger, contract: TableContract) -> str | None:
    receipt = ledger.newest_receipt(contract.name)
    if contract.copies or receipt is None:
        return None
    if receipt.identity is None:
        return "not looked at by the newest load, of an older release"
    return Identity.from_fields(receipt.identity).words


def _versions(
    ledger: Ledger, contract: Mirrored, tenants: Mapping[str | None, int] | None = None
) -> tuple[Shape, ...]:
    """The versions of a table as the ledger has them.

    Args:
        tenants: how many of its tenants have each version, by hash; None: it has no tenants.
    """
    name, earlier = contract.name, contract.earlier_names
    versions, seen = ledger.schema_versions(name), ledger.first_seen(name)
    loads = ledger.successful_loads(name, ever=True)
    found: list[Shape] = []
    for at, version in enumerate(versions):
        own = [load for load in loads if load.raw_table == version.raw_table]
        changes: tuple[str, ...] = ()
        if at and tenants is not None:
            number, changed = version.nearest(versions[:at], earlier)
            changes = (f"as {number + 1}, {changed.beside}",)
        elif at:
            changed = version.changes_from(versions[at - 1], earlier)
            changes = changed.words or (changed.said,)
        found.append(
            Shape(
                number=at + 1,
                hash=version.hash,
                raw_table=version.raw_table,
                first_seen=seen[version.hash],
                last_load=max((x.finished_at for x in own if x.finished_at), default=None),
                loads=len(own),
                columns=version.columns,
                changes=changes,
                ddl=ledger.definition(ddl_name(name, version)),
                tenants=None if tenants is None else tenants.get(version.hash, 0),
            )
        )
    return tuple(found)


def ddl_name(table: str, version: SchemaVersion) -> str:
    """The name under which the ledger keeps the statement that makes a version's table."""
    return f"ddl {table} {version.hash}"


_Named: TypeAlias = tuple[str, list[tuple[int, str]]]
"""A column, and its name in each version that has it, by the version's number."""


def _named_over(contract: TableContract, versions: Sequence[SchemaVersion]) -> Iterator[_Named]:
    """The columns of versions that follow each other: those of now, then those that went."""
    taken: set[tuple[int, str]] = set()
    for newest in range(len(versions), 0, -1):
        for name, _ in versions[newest - 1].columns:
            if (newest, name) in taken:
                continue
            there = [
                (number, then)
                for number, version in enumerate(versions[:newest], 1)
                if (then := name_in(dict(version.columns), name, contract.earlier_names))
            ]
            taken.update(there)
            yield name, there


def _columns(
    workspace: Workspace,
    contract: Mirrored,
    raw: Mapping[str, LakeTable],
    named: Iterable[_Named],
) -> tuple[ShapeColumn, ...]:
    versions = workspace.ledger.schema_versions(contract.name)
    lake = {name: stored_types(table) for name, table in raw.items()}
    utc = all(workspace.config.sources[name].is_utc for name in contract.servers)
    found: list[ShapeColumn] = []
    for name, there in named:
        kinds = [dict(versions[number - 1].columns).get(then) for number, then in there]
        held = [lake.get(versions[n - 1].raw_table, {}).get(then) for n, then in there]
        stored = [kind.iceberg for kind in held if kind is not None]
        common = common_type(stored, utc=utc) if stored else None
        found.append(
            ShapeColumn(
                name=name,
                types=tuple(dict.fromkeys(kind for kind in kinds if kind is not None)),
                lake=common and common.type,
                why=common.why if common else "",
                since=there[0][0],
                until=there[-1][0],
                versions=tuple(number for number, _ in there),
                former=tuple(dict.fromkeys(then for _, then in there if then != name)),
            )
        )
    return tuple(found)
