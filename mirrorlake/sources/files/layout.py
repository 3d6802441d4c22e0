"""Where what lands stands: paths of chunks, manifests, markers and schemas, both ways. Pure.

::

    <format>/<cluster>/<db>/<table>/dq/<YYYYMMDD>/<YYYYMMDDHHMMSS>_<N>.json[.gz|.zst]
    <format>/<cluster>/<db>/<table>/partition/15m/<YYYYMMDD>/<YYYYMMDDHHMMSS>_<N>.json[.gz|.zst]
    <format>/<cluster>/<db>/<table>/partition/1d/<YYYYMMDD>/<YYYYMMDD>000000_<N>.json[.gz|.zst]
    schemas/<cluster>/<db>/<table>.json

Beside the chunks of a snapshot stand its manifest ``<id>_manifest.json`` or its marker
``<id>_SUCCESS``. ``<format>`` is ``json``, ``parquet`` or ``csv``; N counts chunks of at most 2 GB,
from 0 or 1 on and without a gap.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from mirrorlake.config.contract import TableContract
from mirrorlake.config.landing import LandingConfig, SnapshotFormat, SnapshotPart

FileKind: TypeAlias = Literal["chunk", "manifest", "marker"]
Compression: TypeAlias = Literal["", "gz", "zst"]

MANIFEST: Final = "_manifest.json"
FORMATS: Final[tuple[SnapshotFormat, ...]] = ("json", "parquet", "csv")
PARTS: Final[dict[SnapshotPart, str]] = {
    "dq": "dq",
    "15m": "partition/15m",
    "1d": "partition/1d",
}
_CHUNK: Final = re.compile(r"(\d{14})_(0|[1-9]\d*)\.(json|csv|parquet)(?:\.(gz|zst))?", re.ASCII)
_NAMED: Final = re.compile(r"(\d{14})(.+)", re.ASCII | re.DOTALL)
# Names that writers give to what is not done, or not for readers.
_PASSING: Final = re.compile(
    r"[._].*|.*(\.tmp|\.temp|\.part|\.partial|\.crc|\.filepart|~)", re.DOTALL
)
_UNFINISHED: Final = re.compile(
    r"(\d{14})_.*\.(?:tmp|temp|part|partial|filepart)", re.ASCII | re.DOTALL
)


@dataclass(frozen=True)
class Name:
    """What a file's name says: of which snapshot it is, and what.

    Attributes:
        snapshot: the snapshot's id as the path says it: YYYYMMDDHHMMSS as a number.
        number: the chunk's number; 0 for what is no chunk.
    """

    snapshot: int
    kind: FileKind
    number: int = 0
    compression: Compression = ""


@dataclass(frozen=True)
class TableFolder:
    """The folder of one table in a landing; ``path`` is relative to the landing."""

    format: SnapshotFormat
    cluster: str
    database: str
    table: str
    part: SnapshotPart
    marker: str = "_SUCCESS"

    @property
    def path(self) -> str:
        names = (self.cluster, self.database, self.table)
        return "/".join((self.format, *map(escape, names), PARTS[self.part]))

    @property
    def schema_path(self) -> str:
        """Where the table's columns and their types are written."""
        names = map(escape, (self.cluster, self.database, self.table))
        return "/".join(("schemas", *names)) + ".json"

    def day_path(self, day: date) -> str:
        return f"{self.path}/{day:%Y%m%d}"

    def chunk_name(self, snapshot: int, number: int, compression: Compression = "") -> str:
        """The name of a chunk in its day's folder."""
        ending = f".{compression}" if compression else ""
        return f"{snapshot:014d}_{number}.{self.format}{ending}"

    def manifest_name(self, snapshot: int) -> str:
        return f"{snapshot:014d}{MANIFEST}"

    def marker_name(self, snapshot: int) -> str:
        return f"{snapshot:014d}{self.marker}"

    def parse_name(self, day: date, name: str) -> Name | None:
        """What the name of a file in a day's folder says; None where it says nothing of ours.

        A name of another day's snapshot, or of another time than midnight in ``1d``, is not one of
        this folder.
        """
        found = self._parse(name)
        if found is None:
            return None
        when = _time_of(found.snapshot)
        fits = when is not None and when.date() == day
        midnight = self.part != "1d" or found.snapshot % 1_000_000 == 0
        return found if fits and midnight else None

    def parse_unfinished(self, name: str) -> int | None:
        """The snapshot that somebody is still writing, where a name says so: its id, and an ending
        like ``.tmp`` or ``.part``."""
        found = _UNFINISHED.fullmatch(name)
        return int(found[1]) if found else None

    def _parse(self, name: str) -> Name | None:
        chunk = _CHUNK.fullmatch(name)
        if chunk is not None:
            snapshot, number, ending = chunk.groups()[:3]
            compression = cast(Compression, chunk[4] or "")
            if ending != self.format or (compression and ending == "parquet"):
                return None
            return Name(int(snapshot), "chunk", int(number), compression)
        other = _NAMED.fullmatch(name)
        if other is None:
            return None
        # A marker may be called like the manifest: it is then read as one.
        if other[2] == MANIFEST:
            return Name(int(other[1]), "manifest")
        return Name(int(other[1]), "marker") if other[2] == self.marker else None


def folder_of(contract: TableContract, landing: LandingConfig) -> TableFolder:
    """The folder of a table of mode ``snapshot``."""
    settings = contract.snapshot
    if settings is None:
        raise ValueError(f"table {contract.name} is not kept by snapshots")
    return TableFolder(
        format=settings.format,
        cluster=landing.cluster or contract.source,
        database=contract.database,
        table=contract.table,
        part=settings.part,
        marker=settings.marker,
    )


def time_of(snapshot: int) -> datetime | None:
    """The time (UTC, without a zone) that an id in a path names; None where there is no such time.

    >>> time_of(20240229235959)
    datetime.datetime(2024, 2, 29, 23, 59, 59)
    >>> time_of(20230229000000) is None
    True
    """
    text = f"{snapshot:014d}"
    if snapshot < 0 or len(text) != 14:
        return None
    parts = [int(text[:4]), *(int(text[n : n + 2]) for n in range(4, 14, 2))]
    try:
        return datetime(*parts)  # pyright: ignore[reportArgumentType]  # noqa: DTZ001
    except ValueError:
        return None


# A snapshot has many files, which are listed together.
_time_of = lru_cache(maxsize=1024)(time_of)


def id_of(when: datetime) -> int:
    """The snapshot's id of a time in UTC, to the second.

    >>> id_of(datetime(2024, 2, 29, 23, 59, 59))
    20240229235959
    """
    return int(f"{when:%Y%m%d%H%M%S}")


def parse_day(name: str) -> date | None:
    """The day of a folder's name (YYYYMMDD), None where it is no day."""
    if not re.fullmatch(r"\d{8}", name, re.ASCII):
        return None
    try:
        return date(int(name[:4]), int(name[4:6]), int(name[6:]))
    except ValueError:
        return None


def is_passing(name: str) -> bool:
    """Whether a name is one that writers give to what is not done yet, or is not for readers."""
    return _PASSING.fullmatch(name) is not None


def escape(name: str) -> str:
    """A name as one folder: what would take a path apart is percent-encoded.

    >>> escape("a/b"), escape(".."), escape("50%"), escape("größe 1.2")
    ('a%2Fb', '%2E%2E', '50%25', 'größe 1.2')
    """
    if name in (".", ".."):
        return "%2E" * len(name)
    return name.replace("%", "%25").replace("/", "%2F")


def unescape(name: str) -> str:
    """The name that a folder of `escape` stands for.

    >>> unescape(escape("a/b")), unescape(escape("..")), unescape("50%25"), unescape("50%")
    ('a/b', '..', '50%', '50%')
    """
    return re.sub("%(2E|2F|25)", lambda found: chr(int(found[1], 16)), name)
