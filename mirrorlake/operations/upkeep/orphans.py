"""Orphans: files of a lake table that no snapshot names, and how old they must be to go.

What belongs here: finding and removing them. What doesn't: which files of loads that are not
settled are needed (`mirrorlake.operations.repairing.recover`,
`mirrorlake.operations.upkeep.maintain`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from mirrorlake.config import Config
from mirrorlake.config.contract import Mirrored
from mirrorlake.config.fields import format_duration
from mirrorlake.destinations.iceberg.commits.removed_files import (
    overdue_files,
    remove_file,
    remove_overdue,
)
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.named_files import (
    files_of_versions,
    metadata_of_versions,
)
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.destinations.iceberg.storage.folder_metadata import MARKS, refuse_unknown_metadata
from mirrorlake.destinations.iceberg.storage.listing import (
    ListedFile,
    ListedFolder,
    list_files,
    listed_path,
)
from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.load.row_hashes.row_index import FOLDER, index_path

logger = logging.getLogger(__name__)

GRACE = timedelta(hours=24)
"""How old a file is that no snapshot names, before it is taken for an orphan."""

_SHOWN = "clean"

SHORTEST_REMOTE = timedelta(hours=1)
"""The shortest grace where a Spark Connect server works: it resumes a statement whose client
was killed, and may yet commit the files that it wrote."""


def refuse_short_grace(config: Config, grace: timedelta) -> None:
    """See that no file is taken for an orphan that a statement may still be writing.

    Raises:
        ConfigError: ``grace`` is too short for a lake that a Connect server writes.
    """
    if config.spark.connect and grace < SHORTEST_REMOTE:
        raise ConfigError(
            f"a grace of {format_duration(grace)} is too short with Spark Connect: its server goes "
            "on with the statement of a client that was killed, and may commit files that would be "
            "removed here",
            next_step=f"Give at least {format_duration(SHORTEST_REMOTE)}; or stop the server, and "
            "leave `spark.connect` out of the contract for this",
        )


@dataclass(frozen=True)
class Orphan:
    """A file that goes.

    Attributes:
        path: where it is, as its storage names it; bytes: its size.
        for_good: false where it is set aside first.
    """

    path: str
    bytes: int
    for_good: bool


@dataclass(frozen=True)
class OrphanTerms:
    """Which of the files of a lake table that no snapshot of it names are orphans.

    Attributes:
        before: those that were last written before this moment.
        kept: paths that no snapshot names yet: the chunks of a load that can be resumed.
        indexes: the names of row indexes that are needed.
        loaded: names of files below the folder of data that the ledger says are in the table → the
            load that wrote each.
        layer: of clean nothing is set aside: its files may show what a rule takes away, and raw has
            every row.
    """

    before: datetime
    kept: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    loaded: Mapping[str, str] = field(default_factory=dict[str, str])
    layer: str = ""


def remove_orphans(lake: Lake, table: LakeTable, terms: OrphanTerms) -> list[int]:
    """Remove the orphans of a table, as `find_orphans` finds them; their sizes in bytes. On this
    machine's disk they are set aside first
    (`mirrorlake.destinations.iceberg.commits.removed_files`), and those go for good whose time is
    over. The caller holds the table's lease.

    Raises:
        LakeError: as `find_orphans`. Nothing is removed.
    """
    with lake.translated(".".join(table.name())):
        old = _find_orphans(table, terms)
        for listing, file in old:
            if terms.layer == _SHOWN:
                listing.remove(file)
            else:
                remove_file(table, listing, file)
            logger.info("orphan %s removed", file.path)
        remove_overdue(table)
        return [file.bytes for _, file in old]


def find_orphans(lake: Lake, table: LakeTable, terms: OrphanTerms) -> list[Orphan]:
    """The files of a table that none of its snapshots names (data and delete files, and what
    a commit that failed left beside its metadata) and that were last written before a moment; and
    those that were set aside, and whose time is over. The catalog's word alone is not enough: see
    Raises. The caller holds the table's lease.

    Raises:
        LakeError: the table's own files are not among those that its folders list, its folder holds
            metadata that the catalog does not know, or the ledger says that a file is in the table
            which no snapshot names.
    """
    with lake.translated(".".join(table.name())):
        old = _find_orphans(table, terms)
        at_once = terms.layer == _SHOWN or local_path(table.location()) is None
        found = [Orphan(file.path, file.bytes, for_good=at_once) for _, file in old]
        return found + [Orphan(f.path, f.bytes, for_good=True) for f in overdue_files(table)]


def _find_orphans(table: LakeTable, terms: OrphanTerms) -> list[tuple[ListedFolder, ListedFile]]:
    if beside := refuse_unknown_metadata(table):
        logger.warning(
            "lake table %s: no orphan is looked for in its folder: %s is of a table that was "
            "renamed; once nobody needs that, drop it and move its metadata files away",
            ".".join(table.name()[-2:]), beside,
        )  # fmt: skip
        return []
    data = _orphans(table, "data", files_of_versions(table), terms.kept)
    _refuse_loaded(table, [file for _, file in data], terms.loaded)
    metadata = _metadata_orphans(table, terms.before)
    used = [index_path(table.location(), name) for name in terms.indexes]
    unused = _orphans(table, FOLDER, (), used)
    return [(place, f) for place, f in (*data, *unused, *metadata) if f.written < terms.before]


def loaded_files(ledger: Ledger, contract: Mirrored, raw_table: str) -> dict[str, str]:
    """The files that a raw table has by the ledger's word, by name → the load that wrote each."""
    loads = ledger.successful_loads(contract.name, ever=True)
    by_number = {load.seq: load.load_id for load in loads}
    return {
        file.name: by_number[file.seq]
        for file in ledger.raw_files(contract.name)
        if file.raw_table == raw_table and file.seq in by_number
    }


def _refuse_loaded(
    table: LakeTable, unnamed: Iterable[ListedFile], loaded: Mapping[str, str]
) -> None:
    """See that no file goes that a load of ours committed and no load of ours took out."""
    folder = listed_path(f"{table.location()}/data") + "/"
    names = [file.path.removeprefix(folder) for file in unnamed]
    lost = [name for name in names if name in loaded]
    if lost:
        name = ".".join(table.name()[-2:])
        raise LakeError(
            f"lake table {name}: nothing was removed: it does not name {len(lost)} of the files "
            f"that loads committed to it, {lost[0]} of load {loaded[lost[0]]} first",
            table=name,
            next_step="The table was set back, or is an older copy than the ledger: put back the "
            "newest one (Iceberg's register_table), or sync the table, which says what becomes of "
            "these loads",
        )


def _orphans(
    table: LakeTable, folder: str, names: Iterable[str], kept: Iterable[str]
) -> list[tuple[ListedFolder, ListedFile]]:
    """The files of a folder that are neither named, and so must be there, nor kept."""
    listing = list_files(table, f"{table.location()}/{folder}")
    listed = {file.path: file for file in listing.files}
    named = {listed_path(path) for path in names}
    if not named <= set(listed):
        raise LakeError(
            f"lake table {'.'.join(table.name())}: {len(named - set(listed))} of its files are "
            "not where it says",
            table=".".join(table.name()),
            next_step="Look for who removed them; no orphan was removed",
        )
    used = named | {listed_path(path) for path in kept}
    return [(listing, file) for path, file in listed.items() if _owner(path) not in used]


def _metadata_orphans(table: LakeTable, before: datetime) -> list[tuple[ListedFolder, ListedFile]]:
    """What of a table's folder of metadata is not needed to read it. What marks a table that was
    taken away goes with the last of that table's own metadata, and after it."""
    needed = {table.metadata_location, *metadata_of_versions(table)}
    found = _orphans(table, "metadata", needed, _versions(table))
    marks = [one for one in found if one[1].path.endswith(MARKS)]
    others = [one for one in found if one not in marks]
    stays = any(file.written >= before for _, file in others)
    return others if stays else [*others, *marks]


def _versions(table: LakeTable) -> set[str]:
    """Earlier metadata files, and statistics: named, but not needed to read the table."""
    metadata = table.metadata
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    return {
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(file.statistics_path for file in statistics),
    }


def _owner(path: str) -> str:
    """The file that a path is about: Hadoop writes a checksum ``.name.crc`` beside each of its
    own."""
    folder, _, name = path.rpartition("/")
    if name.startswith(".") and name.endswith(".crc"):
        return f"{folder}/{name[1:-4]}"
    return path
