"""Which snapshots of a table are there: listed from a day on, grouped, and held against the ledger.

Pure but for the listing. Nothing here decides by a clock of the files: a copy may carry the times
of its original.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Any, cast

from mirrorlake.errors import LandingError
from mirrorlake.landing.files.limits import Limits, read_whole
from mirrorlake.sources.files.layout import TableFolder, is_passing, parse_day, time_of
from mirrorlake.sources.files.store import Entry, Store


@dataclass(frozen=True)
class Chunk:
    """One file of a snapshot; ``path`` is relative to the landing."""

    path: str
    number: int
    entry: Entry


@dataclass(frozen=True)
class Landed:
    """What stands of one snapshot in its day's folder; chunks are in the order of their numbers.

    ``unfinished``: a file of it has a name that says that somebody is writing.
    """

    id: int
    chunks: tuple[Chunk, ...]
    manifest: str | None = None
    marker: bool = False
    unfinished: bool = False

    @property
    def fingerprint(self) -> str:
        """A hash of the files' names and versions: another one means that something changed."""
        listed = [[c.path, c.entry.bytes, c.entry.version] for c in self.chunks]
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:32]

    @property
    def bytes(self) -> int:
        return sum(chunk.entry.bytes for chunk in self.chunks)


@dataclass
class Listing:
    """What one look found.

    Attributes:
        new: snapshots that are not known, by id; one of which only unfinished files are there too.
        known: what stands of each known snapshot in the folders that were looked at.
        strange: names in the folders that are no snapshot's, and not passed over either.
        earlier: days before those that were looked at whose folders are there, by their names.
        files: how many names were seen.
    """

    new: dict[int, Landed] = field(default_factory=dict[int, Landed])
    known: dict[int, Landed] = field(default_factory=dict[int, Landed])
    strange: list[str] = field(default_factory=list[str])
    earlier: list[date] = field(default_factory=list[date])
    files: int = 0


def list_landed(
    store: Store,
    folder: TableFolder,
    known: Iterable[int],
    since: date | None,
    also: Iterable[int] = (),
) -> Listing:
    """What stands in the folders of the days from ``since`` on, and of the snapshots ``also``.

    Raises:
        LandingError: the landing can't be listed.
    """
    known = frozenset(known)
    found = Listing()
    _list_earlier(store, folder, also, since, found)
    first = f"{since:%Y%m%d}" if since else ""
    for name in store.folders(folder.path, ""):
        day = parse_day(name)
        if name < first:
            found.earlier += [day] if day is not None else []
        elif day is None:
            if not is_passing(name):
                found.strange.append(f"{folder.path}/{name}")
        else:
            _list_day(store, folder, day, known, found)
    return found


def _list_earlier(
    store: Store, folder: TableFolder, wanted: Iterable[int], since: date | None, found: Listing
) -> None:
    """Add what stands of single snapshots in the folders of days before ``since``."""
    days = {when.date() for one in wanted if (when := time_of(one)) is not None}
    for day in sorted(days):
        if since is not None and day < since:
            there = list_day(store, folder, day)
            found.new |= {i: landed for i, landed in there.new.items() if i in wanted}
            found.files += there.files


def list_day(store: Store, folder: TableFolder, day: date) -> Listing:
    """What stands in the folder of one day."""
    found = Listing()
    _list_day(store, folder, day, frozenset(), found)
    return found


def _list_day(
    store: Store, folder: TableFolder, day: date, known: frozenset[int], found: Listing
) -> None:
    path = folder.day_path(day)
    named: dict[str, Any] = {}
    chunks: dict[int, list[Chunk]] = {}
    manifests: dict[int, str] = {}
    markers: set[int] = set()
    unfinished: set[int | None] = set()

    def wanted(name: str) -> bool:
        found.files += 1
        parsed = folder.parse_name(day, name)
        if parsed is None:
            unfinished.add(folder.parse_unfinished(name))
            if not is_passing(name):
                found.strange.append(f"{path}/{name}")
            return False
        named[name] = parsed
        return True

    for entry in store.files(path, wanted):
        parsed = named[entry.name]
        chunks.setdefault(parsed.snapshot, [])
        if parsed.kind == "chunk":
            chunks[parsed.snapshot].append(Chunk(f"{path}/{entry.name}", parsed.number, entry))
        elif parsed.kind == "manifest":
            manifests[parsed.snapshot] = f"{path}/{entry.name}"
        else:
            markers.add(parsed.snapshot)
    for one in unfinished:
        # A writer that died early leaves nothing but a file that it had not finished.
        when = time_of(one) if one is not None else None
        if one is not None and when is not None and when.date() == day and one not in known:
            chunks.setdefault(one, [])
    for snapshot, listed in chunks.items():
        ordered = tuple(sorted(listed, key=lambda chunk: (chunk.number, chunk.path)))
        place = found.known if snapshot in known else found.new
        place[snapshot] = Landed(
            snapshot,
            ordered,
            manifests.get(snapshot),
            snapshot in markers,
            snapshot in unfinished,
        )


def first_day(known: Iterable[int], late: timedelta) -> date | None:
    """The first day whose folder is looked at: ``late`` before the newest known snapshot's.

    >>> first_day([20260131120000, 20260101000000], timedelta(days=2))
    datetime.date(2026, 1, 29)
    """
    newest = time_of(max(known, default=-1))
    return None if newest is None else (newest - late).date()


@dataclass(frozen=True)
class Manifest:
    """What the writer of a snapshot says of it: each file's size, digests and rows, by name."""

    files: Mapping[str, Mapping[str, Any]]
    rows: int | None


def read_manifest(store: Store, path: str, limits: Limits | None = None) -> Manifest:
    """The manifest of a snapshot.

    Raises:
        LandingError: it can't be read, is too large, or is none.
    """
    place = store.describe(path)
    text = read_whole(store, path, limits or Limits())
    try:
        content = cast("dict[str, Any]", json.loads(text))
        files = {str(one["name"]): cast("dict[str, Any]", one) for one in content["files"]}
        sizes = [int(one["bytes"]) for one in files.values()]
        rows = content.get("rows")
        fits = content["version"] == 1 and len(files) == len(content["files"])
        manifest = Manifest(files, None if rows is None else int(rows))
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        fits, manifest, sizes, cause = False, Manifest({}, None), [0], error
    else:
        cause = None
    if not fits or min(sizes, default=0) < 0:
        raise LandingError(
            f"{place} is no manifest of version 1",
            next_step="docs/snapshots.md shows how one is written. Write it last, and at once",
        ) from cause
    return manifest


def check_chunks(store: Store, landed: Landed, manifest: Manifest | None) -> None:
    """See that a snapshot that is declared complete has every file that it should have.

    Raises:
        LandingError: a file is missing, has another size than its manifest says, is not in it, or
            there are two of one number.
    """
    numbers = [chunk.number for chunk in landed.chunks]
    place = f"snapshot {landed.id:014d}"
    if len(set(numbers)) < len(numbers):
        raise _incomplete(place, "has two files of one number")
    if manifest is None:
        if not numbers:
            raise _incomplete(place, "is complete by its marker, and has no file")
        if numbers[0] > 1 or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
            raise _incomplete(place, f"lacks a file: there are the numbers {_few(numbers)}")
        return
    there = {chunk.path.rpartition("/")[2]: chunk for chunk in landed.chunks}
    missing = sorted(set(manifest.files) - set(there))
    if missing:
        raise _incomplete(place, f"lacks {_few(missing)}, which its manifest names")
    extra = sorted(set(there) - set(manifest.files))
    if extra:
        raise _incomplete(place, f"has {_few(extra)}, which its manifest does not name")
    for name, stated in manifest.files.items():
        size = there[name].entry.bytes
        if size != int(stated["bytes"]):
            where = store.describe(there[name].path)
            words = f"{where} has {size} bytes, and its manifest says {int(stated['bytes'])}"
            raise _incomplete(place, words)


def _incomplete(place: str, words: str) -> LandingError:
    return LandingError(
        f"{place} {words}",
        next_step="Nothing of it was taken. It is looked at again when something there changes",
    )


def _few(names: Sequence[Any]) -> str:
    shown = ", ".join(str(name) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


def is_complete(
    landed: Landed, when: str, settle: timedelta, unchanged: Callable[[Landed], timedelta]
) -> bool:
    """Whether a snapshot says that it is complete, or was seen unchanged for so long."""
    if when == "manifest":
        return landed.manifest is not None
    if when == "marker":
        return landed.marker
    # A writer that died may leave files that never change again.
    return bool(landed.chunks) and not landed.unfinished and unchanged(landed) >= settle
