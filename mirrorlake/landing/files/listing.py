"""Looking: where a table lands, and which of its snapshots a run may take."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from shlex import quote
from typing import Final

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import format_duration
from mirrorlake.config.landing import SnapshotConfig
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.altered import find_altered
from mirrorlake.landing.files.columns import LandedSchema, parse_schema
from mirrorlake.landing.files.limits import limits_of, read_whole
from mirrorlake.landing.files.records import Reading
from mirrorlake.landing.files.snapshots import (
    Landed,
    Listing,
    Manifest,
    check_chunks,
    first_day,
    is_complete,
    list_day,
    list_landed,
    read_manifest,
)
from mirrorlake.landing.files.waiting_snapshots import ArrivingSnapshot, waiting_of
from mirrorlake.landing.ledger import LandedSnapshots, SeenSnapshot, SnapshotRecord
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.ledger import Ledger
from mirrorlake.sources.files.layout import TableFolder, folder_of, time_of
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.files.stores import open_store

logger = logging.getLogger(__name__)

_MOST_READY: Final = 100
"""Snapshots of a table that are looked into at once."""


@dataclass(frozen=True)
class Ready:
    """A snapshot that is complete and was not published: a run may take it. ``seen_at`` is when its
    first file was seen (UTC)."""

    id: int
    fingerprint: str
    attempts: int
    seen_at: datetime


@dataclass(frozen=True)
class Looked:
    """What one look at a table's landing found.

    Attributes:
        ready: by id.
        waiting: those that are not complete yet, by id, and for what each waits.
        refused: ids that can't be taken as they stand, or whose files changed after they were
            taken, with the reason; not those that somebody acknowledged.
        withdrawn: ids that were published and that readers don't see any more.
        strange: names that are nobody's.
        files: how many names were listed.
    """

    ready: tuple[Ready, ...]
    waiting: tuple[ArrivingSnapshot, ...]
    refused: dict[int, str]
    withdrawn: tuple[int, ...]
    strange: tuple[str, ...]
    files: int

    @property
    def arriving(self) -> tuple[int, ...]:
        """The ids that are not complete yet."""
        return tuple(one.id for one in self.waiting)


@dataclass(frozen=True)
class Place:
    """One table's place in its landing."""

    contract: TableContract
    store: Store
    folder: TableFolder
    settings: SnapshotConfig

    def schema(self) -> LandedSchema:
        """The columns that its schema file lists.

        Raises:
            LandingError: the file is not there, or can't be read.
            SchemaError: it lists no columns, or not the contract's.
        """
        path = self.folder.schema_path
        if self.store.entry(path) is None:
            raise LandingError(
                f"table {self.contract.name}: there is no schema {self.store.describe(path)}",
                table=self.contract.name,
                next_step="Land it beside the snapshots; docs/snapshots.md shows how it is written",
                retryable=True,
            )
        text = read_whole(self.store, path, limits_of(self.settings))
        return parse_schema(text, self.store.describe(path), self.contract)

    def reading(self, max_bad: int | None = None) -> Reading:
        """How its files are read."""
        settings = self.settings
        return Reading(
            store=self.store,
            table=self.contract.name,
            format=settings.format,
            schema=self.schema(),
            extra_columns=settings.extra_columns,
            missing_columns=settings.missing_columns,
            csv_null=settings.csv_null,
            max_bad=settings.max_bad_records if max_bad is None else max_bad,
            limits=limits_of(settings),
        )


def place_of(config: Config, contract: TableContract) -> Place:
    """Where a table of mode ``snapshot`` lands."""
    landing, settings = config.landings[contract.source], contract.snapshot
    if settings is None:
        raise ValueError(f"table {contract.name} is not kept by snapshots")
    return Place(contract, open_store(landing), folder_of(contract, landing), settings)


def look(place: Place, ledger: Ledger, *, whole: bool = False) -> Looked:
    """What is new of a table: complete snapshots that were not published, oldest first.

    Lists only the folders of days from ``late`` before the newest taken snapshot on, all of them if
    ``whole``, and those of snapshots that still wait. What is not complete, and what is refused, is
    written down with what was seen of it. So is what comes later than ``late``: a folder of a day
    of which no snapshot is known is looked into at once, all others once a day.

    Raises:
        LandingError: the landing can't be listed.
        LedgerError: the ledger can't be used.
    """
    table = place.contract.name
    known = {record.id: record for record in LandedSnapshots(ledger).snapshots(table)}
    pending = [n for n, r in known.items() if r.state in ("arriving", "refused")]
    settled = {n: r for n, r in known.items() if n not in pending}
    # What somebody skipped may have an id of the far future: nothing is counted from it.
    taken = [n for n, r in settled.items() if r.state in ("landed", "published")]
    since = None if whole else first_day(taken, place.settings.late)
    listing = list_landed(place.store, place.folder, settled, since, pending)
    late = _find_late(place, ledger, listing, known, since)
    late |= {n for n, record in known.items() if _is_late(record) and not whole}
    SnapshotNotices(ledger).forget_snapshots(table, [n for n in pending if n not in listing.new])
    found = _Found(place, ledger)
    found.ready += [_ready(r) for r in settled.values() if r.state == "landed"]
    records = LandedSnapshots(ledger).see_snapshots(
        table, [seen_of(landed) for landed in listing.new.values()]
    )
    for number, landed in sorted(listing.new.items()):
        if number in late:
            found.leave(landed, records[number])
        else:
            found.sort_in(landed, records[number])
    # One that was taken before, refused, and whose files are gone by now.
    lost = [n for n in pending if n not in listing.new and known[n].digest]
    found.refused |= {n: (known[n].fingerprint, known[n].error or "") for n in lost}
    published = {n: r for n, r in settled.items() if r.state in ("published", "withdrawn")}
    notices = SnapshotNotices(ledger).notices(table)
    found.refused |= find_altered(place.store, ledger, published, listing.known, notices)
    SnapshotNotices(ledger).notice_snapshots(table, found.refused)
    notices = SnapshotNotices(ledger).notices(table)
    return Looked(
        tuple(sorted(found.ready, key=lambda one: one.id)),
        tuple(found.waiting),
        {n: text for n, (_, text) in found.refused.items() if not notices[n].acknowledged_at},
        tuple(n for n, r in settled.items() if r.state == "withdrawn"),
        tuple(listing.strange),
        listing.files,
    )


_LATE: Final = "it came later than `late` allows"
_WHOLE_LOOK: Final = timedelta(days=1)
"""So often the folders of all days are listed."""


def _is_late(record: SnapshotRecord) -> bool:
    """Whether a snapshot was left because it came late; one that another look takes anyway."""
    return record.state == "refused" and (record.error or "").startswith(_LATE)


def _find_late(
    place: Place,
    ledger: Ledger,
    listing: Listing,
    known: Mapping[int, SnapshotRecord],
    since: date | None,
) -> frozenset[int]:
    """Add to a listing what stands in folders of days before ``since`` and was never seen: the ids,
    at most `_MOST_READY` of them, the newest first."""
    name, mark = place.contract.name, f"landing looked through {place.contract.name}"
    now, last = ledger.clock(), ledger.definition(mark)
    again = last is not None and now - datetime.fromisoformat(last) >= _WHOLE_LOOK
    if again or last is None or since is None:
        ledger.record_definition(mark, now.isoformat())
    if since is None:
        return frozenset()
    taken = {when.date() for one in known if (when := time_of(one)) is not None}
    there: dict[int, Landed] = {}
    for day in listing.earlier:
        if again or day not in taken:
            there |= list_day(place.store, place.folder, day).new
    new = sorted((n for n in there if n not in known), reverse=True)
    found = new[: max(0, _MOST_READY - sum(_is_late(record) for record in known.values()))]
    if len(new) > len(found):
        logger.warning("table %s: %d more snapshots came late", name, len(new) - len(found))
    listing.new.update({n: there[n] for n in found})
    return frozenset(found)


@dataclass
class _Found:
    """What is found of snapshots that were not taken; ``refused``: id → (fingerprint, reason)."""

    place: Place
    ledger: Ledger
    ready: list[Ready] = field(default_factory=list[Ready])
    waiting: list[ArrivingSnapshot] = field(default_factory=list[ArrivingSnapshot])
    refused: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])

    def leave(self, landed: Landed, seen: SnapshotRecord) -> None:
        """One that came later than ``late``."""
        name, late = self.place.contract.name, self.place.settings.late
        why = (
            f"{_LATE} ({format_duration(late)} before the newest that was taken): "
            f"`mirrorlake land {quote(name)} --all` takes it, `--skip {landed.id:014d}` leaves "
            "it out"
        )
        if seen.state != "refused":
            LandedSnapshots(self.ledger).refuse_snapshot(name, landed.id, why)
        self.refused[landed.id] = (landed.fingerprint, why)

    def sort_in(self, landed: Landed, seen: SnapshotRecord) -> None:
        if seen.state == "refused" and not _is_late(seen):
            self.refused[landed.id] = (seen.fingerprint, seen.error or "")
        elif not says_complete(self.place, landed, self.ledger, seen):
            self.waiting.append(waiting_of(self.place.folder, self.place.settings, landed, seen))
        elif len(self.ready) >= _MOST_READY:
            return  # the oldest come first: these are found again when those are taken
        elif why := _wrong(self.place, landed):
            LandedSnapshots(self.ledger).refuse_snapshot(self.place.contract.name, landed.id, why)
            self.refused[landed.id] = (landed.fingerprint, why)
        else:
            self.ready.append(_ready(seen))


def _ready(record: SnapshotRecord) -> Ready:
    return Ready(record.id, record.fingerprint, record.attempts, record.seen_at)


def seen_of(landed: Landed) -> SeenSnapshot:
    """What the ledger records of a snapshot that was seen."""
    return SeenSnapshot(landed.id, landed.fingerprint, len(landed.chunks), landed.bytes)


def says_complete(place: Place, landed: Landed, ledger: Ledger, seen: SnapshotRecord) -> bool:
    """Whether a snapshot says that it is complete, or was seen unchanged for long enough."""

    def unchanged(_: Landed) -> timedelta:
        return ledger.clock() - seen.changed_at

    settings = place.settings
    return is_complete(landed, settings.complete, settings.settle, unchanged)


def _wrong(place: Place, landed: Landed) -> str:
    """Why a snapshot that says that it is complete is not; '' where it is."""
    try:
        check_chunks(place.store, landed, manifest_of(place, landed))
    except LandingError as error:
        if error.retryable:
            raise
        return str(error)
    return ""


def manifest_of(place: Place, landed: Landed) -> Manifest | None:
    """What a snapshot's manifest says, where its contract asks for one and it is there."""
    wanted = place.settings.complete == "manifest" and landed.manifest is not None
    if not wanted or landed.manifest is None:
        return None
    return read_manifest(place.store, landed.manifest, limits_of(place.settings))
