"""Taking what landed: a complete snapshot, written down with its files and their digests.

Nothing is copied. A snapshot that was written down is read where it landed, and is refused as soon
as one of its files is another one.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import LandingClosed, LandingError
from mirrorlake.failpoints import failpoint
from mirrorlake.landing.files.altered import digest_of
from mirrorlake.landing.files.frame import count_landed, landed_frame
from mirrorlake.landing.files.listing import Place, manifest_of, says_complete, seen_of
from mirrorlake.landing.files.records import Bad, LandedFile, Reading
from mirrorlake.landing.files.snapshots import Landed, Manifest, check_chunks, list_day
from mirrorlake.landing.ledger import FileRecord, LandedSnapshots, SnapshotRecord
from mirrorlake.ledger import Ledger
from mirrorlake.runtime.at_once import map_at_once
from mirrorlake.sources.files.layout import time_of
from mirrorlake.sources.files.store import Store, changed, gone
from mirrorlake.sources.files.tasks import landing_errors

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_READERS = 4


@dataclass(frozen=True)
class TakenSnapshot:
    """A snapshot that is written down as landed, and how it is read."""

    record: SnapshotRecord
    reading: Reading
    files: tuple[LandedFile, ...]
    bad: tuple[Bad, ...] = ()

    def frame(self, session: Any) -> DataFrame:
        """Its rows, read where they are each time."""
        return landed_frame(session, self.reading, self.files)

    def check_files(self) -> None:
        """See that its files are those that were written down.

        Raises:
            LandingError: one is gone, or is another one.
        """
        store = self.reading.store
        found = map_at_once(lambda file: store.entry(file.path), self.files, _READERS)
        for file, entry in zip(self.files, found, strict=True):
            if entry is None:
                raise gone(store.describe(file.path))
            if entry.version != file.version:
                raise changed(store.describe(file.path))


def take(place: Place, ledger: Ledger, session: Any, number: int) -> TakenSnapshot:
    """Write a complete snapshot down as landed: its files, their sizes and digests.

    ``session`` gives Spark when it is called: only where records must be counted (malformed ones
    may be left out), or where its number stands in a column.

    Raises:
        LandingError: it is not complete, its content is not what was landed under its id before,
            its manifest names other digests, or a record can't be read. It is then written down as
            refused, unless another try may do.
    """
    table = place.contract.name
    try:
        landed = _find(place, number)
        known = LandedSnapshots(ledger).see_snapshots(table, [seen_of(landed)])[number]
        LandedSnapshots(ledger).begin_snapshot(table, number)
        return _take(place, ledger, session, landed, known)
    except LandingError as error:
        if is_verdict(error):
            LandedSnapshots(ledger).refuse_snapshot(table, number, str(error))
        raise


def is_verdict(error: LandingError) -> bool:
    """Whether an error says something of the snapshot itself, not of how it was reached."""
    return not error.retryable and not isinstance(error, LandingClosed)


def _take(
    place: Place, ledger: Ledger, session: Any, landed: Landed, known: SnapshotRecord
) -> TakenSnapshot:
    table = place.contract.name
    manifest = manifest_of(place, landed)
    untaken = known.state in ("arriving", "refused", "skipped")
    if untaken and not says_complete(place, landed, ledger, known):
        raise LandingError(
            f"table {table}: snapshot {landed.id:014d} is not complete yet",
            table=table,
            next_step=f"It is when its {place.settings.complete} says so",
            retryable=True,
        )
    check_chunks(place.store, landed, manifest)
    files = tuple(LandedFile(c.path, c.entry.bytes, c.entry.version) for c in landed.chunks)
    digests = _digests(place.store, landed)
    if manifest is not None:
        _check_digests(place.store, landed, manifest, digests)
    whole = hashlib.sha256("\n".join(digests).encode()).hexdigest()
    if known.digest and known.digest != whole:  # whatever became of the first one
        raise LandingError(
            f"table {table}: snapshot {landed.id:014d} has another content than when it was taken",
            table=table,
            next_step="An id is one content for good: land what is new under a new id",
        )
    reading = place.reading()
    counted, bad = _count(place, session, reading, files)
    number = _number(place, session, reading, files, landed.id)
    _refuse_same_number(ledger, table, landed.id, number, whole)
    records = [
        FileRecord(file.path, file.bytes, file.version, digest, *counts)
        for file, digest, counts in zip(files, digests, counted, strict=True)
    ]
    failpoint("land.taken")
    record = LandedSnapshots(ledger).land_snapshot(table, landed.id, number, whole, records)
    logger.info("table %s snapshot %014d: landed, %d files", table, landed.id, len(files))
    return TakenSnapshot(record, reading, files, tuple(bad))


def _find(place: Place, number: int) -> Landed:
    when = time_of(number)
    if when is not None:
        found = list_day(place.store, place.folder, when.date()).new.get(number)
        if found is not None:
            return found
    raise LandingError(
        f"table {place.contract.name} has no snapshot {number:014d} in "
        f"{place.store.describe(place.folder.path)}",
        table=place.contract.name,
        next_step="`mirrorlake land` shows what there is",
    )


def _digests(store: Store, landed: Landed) -> list[str]:
    return map_at_once(lambda chunk: digest_of(store, chunk), landed.chunks, _READERS)


def _check_digests(
    store: Store, landed: Landed, manifest: Manifest, digests: Sequence[str]
) -> None:
    for chunk, digest in zip(landed.chunks, digests, strict=True):
        kind, _, value = digest.partition(":")
        said = manifest.files[chunk.path.rpartition("/")[2]].get(kind)
        if said is not None and str(said) != value:
            raise LandingError(
                f"{store.describe(chunk.path)} is not the file that its manifest names: its {kind} "
                "is another one",
                next_step="Nothing of its snapshot was taken. Land the snapshot again, whole",
            )


def _count(
    place: Place, session: Any, reading: Reading, files: Sequence[LandedFile]
) -> tuple[list[tuple[int | None, int]], list[Bad]]:
    """(rows, malformed) of each file, and the first malformed records; uncounted where none may be
    left out: the fold then fails by the first."""
    if not reading.max_bad:
        return [(None, 0)] * len(files), []
    counts = count_landed(session(), reading, files)
    bad = [one for _, listed, _ in counts for one in listed]
    total = sum(count for _, _, count in counts)
    if total > reading.max_bad:
        raise LandingError(
            f"table {place.contract.name}: {total} malformed records, and {reading.max_bad} may be "
            f"left out. The first: {bad[0]}",
            table=place.contract.name,
            next_step="Nothing of the snapshot was taken. Correct it and land it again",
        )
    return [(rows, count) for rows, _, count in counts], bad


def _number(
    place: Place, session: Any, reading: Reading, files: Sequence[LandedFile], number: int
) -> int:
    """The number that a snapshot is folded under: its id, or what its column says in every row."""
    wanted = place.settings.id_column
    if wanted is None:
        return number
    column = next(c for c in reading.schema.columns if c.name.casefold() == wanted.casefold())
    whole = column.iceberg in ("int", "long") or (column.digits or (0, 1))[1] == 0
    table = place.contract.name
    if not whole:
        raise LandingError(
            f"table {table}: the snapshot's id is in {column.name!r}, which is {column.iceberg}",
            table=table,
            next_step="An id is a whole number: name another id_column",
        )
    with landing_errors(table), spark_errors(table):
        frame = landed_frame(session(), reading, files)
        name = f"`{column.name.replace('`', '``')}`"
        (row,) = frame.selectExpr(
            f"min({name}) AS low", f"max({name}) AS high", f"count_if({name} IS NULL) AS gaps"
        ).collect()
    if row.gaps or row.low is None or row.low != row.high or not -(2**63) <= row.low < 2**63:
        raise LandingError(
            f"table {table}: the rows of snapshot {number:014d} don't have one number in "
            f"{column.name!r}",
            table=table,
            next_step="Every row of a snapshot has its id there, a whole number of 64 bits",
        )
    return int(row.low)


def _refuse_same_number(ledger: Ledger, table: str, id: int, number: int, digest: str) -> None:
    for other in LandedSnapshots(ledger).snapshots(table):
        if other.id != id and other.number == number and other.digest != digest:
            raise LandingError(
                f"table {table}: snapshots {other.id:014d} and {id:014d} have one number "
                f"({number}) and different content",
                table=table,
                next_step="An id is one content for good: land what is new under a new id",
            )


def open_taken(place: Place, ledger: Ledger, numbers: Iterable[int]) -> list[TakenSnapshot]:
    """Snapshots that were written down before, to be read again as they landed."""
    reading = place.reading()
    found: list[TakenSnapshot] = []
    for number in sorted(numbers):
        record = LandedSnapshots(ledger).snapshot(place.contract.name, number)
        if record is None or record.state not in ("landed", "published"):
            raise LandingError(
                f"table {place.contract.name}: snapshot {number:014d} has not landed",
                table=place.contract.name,
                next_step="Materialise its raw partition first, or run `mirrorlake land`",
            )
        listed = LandedSnapshots(ledger).landed_files(place.contract.name, number)
        if len(listed) != record.files:
            raise LandingError(
                f"table {place.contract.name}: the files of snapshot {number:014d} left the "
                "landing: they were kept for its keep_landed",
                table=place.contract.name,
                next_step="What it held is in the table's versions; it can't be folded again",
            )
        files = tuple(LandedFile(file.path, file.bytes, file.version) for file in listed)
        found.append(TakenSnapshot(record, reading, files))
    return found
