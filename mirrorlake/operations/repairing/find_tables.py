"""Tables that the catalog has lost are registered again, from the metadata files in the warehouse.

The ledger says which metadata file was a table's last: what came after it was never recorded, and
is read or folded again. Where the ledger knows none, the newest is taken.

What belongs here: finding and registering. What doesn't: the rows, and views, which the next sync
makes again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from mirrorlake.capabilities import Seam
from mirrorlake.config import Config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.destinations.iceberg.storage.folder_metadata import (
    FolderMetadata,
    last_sequence,
    read_files,
)
from mirrorlake.destinations.iceberg.storage.listing import list_folder, listed_path
from mirrorlake.destinations.iceberg.tables.clones import OF as CLONE_OF
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.destinations.iceberg.warehouse.lake_location import (
    check_warehouse,
    refuse_no_folder,
)
from mirrorlake.errors import LakeDamaged
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.operations.other_writers.show_ours import other_name

logger = logging.getLogger(__name__)
_OURS: Final[Seam[str]] = Seam("lake.properties")
"""Properties by which a table is known as made here, beside those of namespaces of ours."""


@dataclass(frozen=True)
class FoundTable:
    """A table that the warehouse holds and the catalog does not name as it should.

    Attributes:
        table: its name in the lake.
        what: ``registered``, ``set forward`` (the catalog named an older metadata file), ``left``
            (``why`` says why), ``older`` (the ledger knows a newer metadata file than the
            warehouse holds: the next sync reads again what MySQL has, and refuses by name what it
            has not), or ``gone`` (the warehouse holds none).
        metadata: the metadata file that the catalog names now, or could; of ``gone``, the one that
            the ledger knows.
    """

    table: str
    what: str
    metadata: str
    why: str = ""


def find_tables(config: Config, ledger: Ledger, run_id: str) -> list[FoundTable]:
    """Register the lake's tables again that the catalog lost, or names by an older metadata file.

    Only tables in namespaces of this contract file, and of models. Doing it again changes nothing.
    Of views that the catalog does not have, the ledger forgets how they were: the next sync makes
    them.

    Raises:
        LakeError: the lake is another one than the ledger's, or can't be read.
        LeaseHeld: a live run holds a table.
        LedgerError: the ledger can't be read.
    """
    if check_warehouse(config.lake, ledger):
        refuse_no_folder(config.lake)
    lake = Lake(config.lake)
    heads = {head.uuid: head for head in ledger.lake_heads()}
    names = {head.name for head in heads.values()}
    namespaces = lake_namespaces(config, ledger)
    found: list[FoundTable] = []
    for folder, files in _folders(lake):
        # A table that took another one's name lies in the folder that it was made in.
        known = [heads.pop(uuid) for uuid in {one.uuid for one in files} if uuid in heads]
        meant = [(Identifier(*head.name), head) for head in known]
        for identifier, head in meant or ([] if folder.path in names else [(folder, None)]):
            if (chosen := _choose(identifier, files, head, namespaces)) is None:
                continue
            held = ledger.lease(head.table, run_id) if head is not None else nullcontext()
            with held:
                became = _register(lake, identifier, chosen)
            if became is None and head is not None and chosen.sequence < head.sequence:
                why = "the ledger knows a newer version: put it back, or sync to read it again"
                became = FoundTable(str(identifier), "older", chosen.path, why)
            if became is not None:
                logger.info("lake table %s: %s %s", identifier, became.what, chosen.path)
                found.append(became)
    found += _gone(lake, heads.values())
    forget_lost_views(lake, ledger)
    return found


def _gone(lake: Lake, heads: Iterable[LakeHead]) -> Iterator[FoundTable]:
    """Tables that the ledger knows, and of which neither the warehouse nor the catalog has any."""
    for head in heads:
        identifier = Identifier(*head.name)
        with suppress(LakeDamaged):
            if lake.load(identifier) is not None:
                continue  # in a folder of another name
        why = "no metadata file of it is in the warehouse: put it back, or sync to read it again"
        yield FoundTable(str(identifier), "gone", head.metadata_location, why)


def forget_lost_views(lake: Lake, ledger: Ledger) -> None:
    """Have the next sync make views that the catalog lost, not find them changed by somebody.

    Raises:
        LakeError: the catalog can't be read.
    """
    prefix = "view "
    for name in ledger.definitions(prefix):
        namespace, _, view = name.removeprefix(prefix).partition(".")
        with suppress(LakeDamaged):
            if read_view(lake, Identifier(namespace, view)) is None:
                ledger.forget_definition(name)


def lake_namespaces(config: Config, ledger: Ledger) -> set[str]:
    """Where a lake has tables: the namespaces of a contract file, and those of all that the ledger
    knows, models among them."""
    found = {namespace for namespace, _ in (head.name for head in ledger.lake_heads())}
    for contract in config.mirrored:
        spaces = contract.namespaces
        found |= {spaces.raw, spaces.deduped, spaces.clean, f"{spaces.deduped}__side"}
    return found


def _folders(lake: Lake) -> Iterator[tuple[Identifier, Sequence[FolderMetadata]]]:
    """Every table's folder below the warehouse, with what its metadata files say."""
    with lake.translated("warehouse"):
        io = open_storage(lake.catalog.properties, lake.warehouse)
        root = listed_path(lake.warehouse)
        prefix = lake.warehouse.removesuffix(root)
        folders: dict[tuple[str, str], list[str]] = {}
        for file in list_folder(io, lake.warehouse, "warehouse").files:
            parts = file.path.removeprefix(f"{root}/").split("/")
            if len(parts) == 4 and parts[2] == "metadata":
                names = (unquote(parts[0]), unquote(parts[1]))
                folders.setdefault(names, []).append(f"{prefix}{file.path}")
        for names, paths in sorted(folders.items()):
            yield Identifier(*names), read_files(io, paths)


def _choose(
    identifier: Identifier,
    files: Sequence[FolderMetadata],
    head: LakeHead | None,
    namespaces: set[str],
) -> FolderMetadata | None:
    """The metadata file that the catalog should name; None where it is none of ours."""
    ours = [
        one
        for one in files
        if CLONE_OF not in one.properties
        and (identifier.namespace in namespaces or any(p in one.properties for p in _OURS))
    ]
    if head is not None:
        ours = [one for one in ours if one.uuid == head.uuid]
        recorded = listed_path(head.metadata_location)
        for one in ours:
            if listed_path(one.path) == recorded:
                return one
    else:
        ours = [one for one in ours if not one.renamed]
    return max(ours, key=lambda one: (one.sequence, one.updated), default=None)


def _register(lake: Lake, identifier: Identifier, chosen: FolderMetadata) -> FoundTable | None:
    """Have the catalog name a metadata file; None where it names that, or a newer one."""
    name, folder = str(identifier), chosen.path.rpartition("/metadata/")[0]
    if listed_path(chosen.location) != listed_path(folder):
        why = (
            f"it was written for {chosen.location}: paths are absolute, and the lake was moved; "
            "`mirrorlake lake move` writes them again"
        )
        return FoundTable(name, "left", chosen.path, why)
    try:
        there = lake.load(identifier)
    except LakeDamaged:
        there = None
    else:
        if there is not None and str(there.metadata.table_uuid) != chosen.uuid:
            return FoundTable(name, "left", chosen.path, "another table has its name: rename that")
        if there is not None and last_sequence(there) >= chosen.sequence:
            return None
    if there is None and (other := other_name(lake, identifier, chosen.uuid, chosen.location)):
        why = f"the catalog has it as {other}: rename that back to {identifier}"
        return FoundTable(name, "left", chosen.path, why)
    lake.make_namespace(identifier.namespace)
    lake.name_metadata(identifier, chosen.path)
    return FoundTable(name, "registered" if there is None else "set forward", chosen.path)


def next_steps(ledger: Ledger, found: Sequence[FoundTable]) -> list[str]:
    """What is to be done after `find_tables`, in order."""
    steps: list[str] = []
    if any(one.what == "left" for one in found):
        steps.append("see to the tables that were left, then run `mirrorlake lake find` again")
    if not ledger.newest_columns() and any(one.what == "registered" for one in found):
        steps.append("`mirrorlake ledger rebuild`: this ledger knows no load")
    if found:
        steps.append("`mirrorlake sync`, which makes views again, and reads again what is gone")
    return steps
