"""A ledger that was lost, told from that of a new project in a lake that others fill; and one that
is an older copy.

Neither of the first two knows anything of the lake. But of a new project no table is filled there,
and of one whose ledger was lost its own are: going on, it would read everything again beside what
is there, expire versions that it does not know, and back up a ledger without a load.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.commits.heads import has_our_commits, skip_unknown
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import OF
from mirrorlake.destinations.iceberg.warehouse.lake_location import LakeLook
from mirrorlake.errors import LakeDamaged, LedgerError
from mirrorlake.ledger.store import Ledger

_RAW = re.compile(r"(.+)_v_[0-9a-f]{10}")


def refuse_lost_ledger(config: Config, ledger: Ledger, lake: Lake) -> None:
    """See that a ledger which knows nothing of a lake is not one that was lost.

    Raises:
        LakeError: the catalog failed.
        LedgerError: a table of the contract file is filled in the lake, and the ledger knows no
            load of it; nothing was made.
    """
    if ledger.lake() is not None:
        return
    if (found := next(_unknown(config, ledger, lake), None)) is not None:
        contract, identifier = found
        raise LedgerError(
            f"the ledger {Ledger.shown_url(ledger.url)} knows nothing of the lake that is there "
            f"({lake.warehouse}), in which table {contract.name} is filled already "
            f"({identifier}): it was lost, or is another project's",
            table=contract.name,
            next_step="Put the ledger back from a backup, set ledger.url to it, or run "
            "`mirrorlake ledger rebuild`, which writes down what the lake holds. A second project "
            "with tables of the same names needs a lake of its own (lake.warehouse, lake.catalog)",
        )


def skip_met_numbers(config: Config, ledger: Ledger, lake: Lake, look: LakeLook) -> None:
    """Have a ledger that is an older copy give out no number that a load in the lake has: one table
    would be loaded under it before another one's sync finds what the ledger lacks, and then no
    rebuild could tell their loads apart. Where the catalog is no SQL database, each table is looked
    at once it is synced.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: nor can the ledger.
    """
    known = {head.name: head.metadata_location for head in look.heads}
    named = (look.named or {}) if known else {}
    moved = [name for name, location in named.items() if known.get(name) != location]
    if not moved:
        return
    mirrored = {(one.namespaces.raw, one.table) for one in (*config.tables, *config.tenants)}
    for name in moved:
        shape = _RAW.fullmatch(name[1])
        if shape is not None and (name[0], shape[1]) in mirrored:
            with suppress(LakeDamaged):  # who reads it names the file, and the way out
                if (table := lake.load(Identifier(*name))) is not None:
                    skip_unknown(ledger, table)


def _unknown(config: Config, ledger: Ledger, lake: Lake) -> Iterator[tuple[Mirrored, Identifier]]:
    """Tables of a contract file that are filled in a lake, and of which the ledger knows no
    load."""
    mirrored = [*config.tables, *config.tenants]
    loaded = ledger.loaded_tables({contract.name for contract in mirrored})
    named = _Names(config, lake)
    for contract in mirrored:
        space = contract.namespaces.raw
        for name in named.of(space) if contract.name not in loaded else ():
            shape = _RAW.fullmatch(name)
            if shape is not None and shape[1] == contract.table:
                identifier = Identifier(space, name)
                if _is_filled(lake, identifier, contract.name):
                    yield contract, identifier
    if ledger.knows_commits():
        return  # it is of an older release, which recorded no lake
    for contract in config.snapshots:
        identifier = Identifier(contract.namespaces.deduped, contract.table)
        if identifier.name in named.of(identifier.namespace) and _is_filled(lake, identifier):
            yield contract, identifier


class _Names:
    """What tables the catalog has, a namespace at a time; of a SQL database in one query."""

    def __init__(self, config: Config, lake: Lake) -> None:
        self._lake, self._named = lake, metadata_locations(config.lake)
        self._listed: dict[str, Collection[str]] = {}

    def of(self, space: str) -> Collection[str]:
        if space not in self._listed:
            self._listed[space] = self._list(space)
        return self._listed[space]

    def _list(self, space: str) -> Collection[str]:
        if self._named is not None:
            return [name for namespace, name in self._named if namespace == space]
        with self._lake.translated(space):
            catalog = self._lake.catalog
            if not catalog.namespace_exists((space,)):
                return ()
            return [path[-1] for path in catalog.list_tables((space,))]


def _is_filled(lake: Lake, identifier: Identifier, of: str = "") -> bool:
    """Whether a table holds what we committed, for the contract of that name."""
    try:
        table = lake.load(identifier)
    except LakeDamaged:
        return True  # by its name it is ours
    if table is None or (of and table.properties.get(OF, of) != of):
        return False
    return has_our_commits(table)
