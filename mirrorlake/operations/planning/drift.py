"""How MySQL's tables differ from the schema versions that were loaded last, and what becomes of
models when the next sync takes the difference up.

What belongs here: looking at the servers. What doesn't: a migration before it runs
(`mirrorlake.preflight.tables`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import Config, TableContract
from mirrorlake.errors import MirrorlakeError, SourceError
from mirrorlake.operations.loading.next_load import find_next_load
from mirrorlake.operations.loading.resolve import changes_of, refuse_changes, resolve_table
from mirrorlake.operations.planning.computed import Computed
from mirrorlake.operations.planning.contract_changes import TableChange, altered_words
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.operations.schema_changes.altered_tables import (
    AlteredCatalogue,
    AlteredTable,
    altered_by,
)
from mirrorlake.serving.catalogue import Catalogue
from mirrorlake.sources.mysql.introspection.introspect import read_listing
from mirrorlake.sources.mysql.sessions.connect import read_position, session
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Drift:
    """What was found at the servers.

    Attributes:
        changes: of every table that could be looked at, by name.
        lost: source → why its tables were not looked at; ``code``: the first error's exit code.
        unmirrored: ``source.database.table`` of the tables that no contract names, in databases of
            which a contract names some.
    """

    changes: tuple[TableChange, ...]
    lost: Mapping[str, str]
    code: int = 0
    unmirrored: tuple[str, ...] = ()


@dataclass
class _Found:
    changes: dict[str, TableChange] = field(default_factory=dict[str, TableChange])
    altered: dict[str, dict[str, AlteredTable]] = field(
        default_factory=dict[str, "dict[str, AlteredTable]"]
    )
    words: dict[str, tuple[str, ...]] = field(default_factory=dict[str, "tuple[str, ...]"])


def find_drift(workspace: Workspace, catalogue: Catalogue, computed: Sequence[Computed]) -> Drift:
    """Compare the tables of all sources with the schema versions that were loaded last. Nothing is
    written. Tables of tenants and of snapshots are not looked at.

    Raises:
        LakeError, LedgerError: they can't be read.
    """
    found, lost, code = _Found(), dict[str, str](), 0
    unmirrored: list[str] = []
    tables = workspace.config.tables
    for source in dict.fromkeys(contract.source for contract in tables):
        mine = [contract for contract in tables if contract.source == source]
        try:
            with session(workspace.config.sources[source]) as connection:
                for contract in mine:
                    _look(workspace, catalogue, contract, connection, found)
                unmirrored += _unmirrored(workspace.config, mine, connection)
        except SourceError as error:
            lost[source], code = str(error), code or error.exit_code
    altered = {name: table for some in found.altered.values() for name, table in some.items()}
    changed = AlteredCatalogue(catalogue, altered)
    impacts = [impact for one in computed for impact in one.impacts(changed)]
    for name, some in found.altered.items():
        found.changes[name] = _changed(name, catalogue, some, found.words[name], impacts)
    changes = tuple(found.changes[name] for name in sorted(found.changes))
    return Drift(changes, lost, code, tuple(unmirrored))


def _unmirrored(
    config: Config, mine: Sequence[TableContract], connection: Connection[Any]
) -> Iterator[str]:
    """The tables of a source that no contract names, in databases of which one names some.

    Args:
        mine: the source's contracts.
    """
    source = mine[0].source
    for database in sorted({one.database for one in mine}):
        known = {one.table.lower() for one in mine if one.database == database}
        tenants = (one for one in config.tenants if source in one.servers)
        known |= {one.table.lower() for one in tenants if one.has(database)}
        for table, kind in read_listing(connection, database).items():
            if kind == "table" and table.lower() not in known:
                yield f"{source}.{database}.{table}"


def _look(
    workspace: Workspace,
    catalogue: Catalogue,
    contract: TableContract,
    connection: Connection[Any],
    found: _Found,
) -> None:
    name = contract.name
    versions = workspace.ledger.schema_versions(name)
    try:
        plan = resolve_table(workspace, contract, connection)
        if versions and plan.version != versions[-1]:
            refuse_changes(workspace, plan, versions[-1])
    except SourceError:
        raise
    except MirrorlakeError as error:
        words = f"its next sync stops: {error.message}"
        found.changes[name] = TableChange(name, "breaking", (words,))
        return
    if not versions:
        found.changes[name] = TableChange(name, "added", ("it was never loaded",))
    elif plan.version == versions[-1]:
        found.changes[name] = _as_it_was(workspace, plan, connection)
    else:
        changes = changes_of(plan, versions[-1])
        hint = ("if one was renamed, say so with `renamed_from`",)
        renamed = hint if changes.added and changes.dropped else ()
        found.words[name] = (*(changes.words or (changes.said,)), *renamed)
        found.altered[name] = altered_by(catalogue, plan, dict(changes.renamed))


def _as_it_was(
    workspace: Workspace, plan: ResolvedTable, connection: Connection[Any]
) -> TableChange:
    """Of a table with the columns of before: whether its next sync reads it as a whole, or compares
    its rows first.

    Raises:
        SourceError: the server could not be queried.
    """
    name = plan.name
    server = read_position(connection).server
    try:
        upcoming = find_next_load(connection, workspace, plan, server)
    except SourceError:
        raise
    except MirrorlakeError as error:
        return TableChange(name, "breaking", (f"its next sync stops: {error.message}",))
    if not upcoming.whole:
        return TableChange(name, "unchanged")
    then = "the whole table is read again"
    if upcoming.continuity.may_be_equal:
        then = "its rows are compared, and only if one differs the whole table is read again"
    return TableChange(name, "changed", (f"{upcoming.reason}: {then}",))


def _changed(
    name: str,
    catalogue: Catalogue,
    altered: Mapping[str, AlteredTable],
    words: tuple[str, ...],
    impacts: list[ModelImpact],
) -> TableChange:
    lost, readers = altered_words(AlteredCatalogue(catalogue, altered), impacts)
    broken = any(
        impact.what == "breaks" and altered.keys() & set(impact.tables) for impact in impacts
    )
    change = "breaking" if lost or broken else "changed"
    return TableChange(name, change, (*words, *lost), tuple(readers))
