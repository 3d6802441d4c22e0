"""What Mirrorlake itself writes, or reads on a contract's behalf: no table that is made elsewhere.

A table that is made elsewhere hides only what its own file says. If it were one of the mirror's own
tables, under whatever name or path, the columns that the contract hides would reach models as they
are. So it is refused, by what its file says and again by what is there.

A copy that somebody made of a table, or a hard link to one of its files, can't be told from a table
of theirs, unless it still has the columns that only raw has.

What belongs here: one decision for all formats. What doesn't: looking at a table
(`mirrorlake.models.external_sources.inspect`).
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from mirrorlake.config import Config
from mirrorlake.config.settings import STREAM_SUFFIX
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED, LOAD_ID
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.storage.folders import table_uri, warehouse_uri
from mirrorlake.destinations.iceberg.tables.schemas import OF
from mirrorlake.errors import ModelError
from mirrorlake.models.external_sources.stores import STORES, store_of_format
from mirrorlake.models.external_sources.tables import OF_MODEL, ExternalLook
from mirrorlake.models.files.external_table import ExternalDeclaration
from mirrorlake.runtime.cache import cache_path
from mirrorlake.schema.own_columns import IN_RAW
from mirrorlake.sources.files.layout import TableFolder

_DERIVED = re.compile(rf"(?:__views_(?:clean|full)|{STREAM_SUFFIX})+\Z")
"""What the names end in of namespaces and datasets that are made of a contract's."""
_READ_CLEAN = "Read the clean table instead, by its own name"


@dataclass(frozen=True)
class OwnFolder:
    """A folder or a place in a bucket, and what of Mirrorlake's is there."""

    url: str
    what: str


@dataclass(frozen=True)
class OwnPlaces:
    """Where a contract file's tables are, and everything else that has their rows.

    Attributes:
        clean: each namespace of a contract, as `_folded` has it → the namespaces that show its
            tables to people.
        folders: what no path may lead to, or be above of.
        tables: URLs of the folders of these namespaces in the warehouse.
        config: the contract file.
    """

    clean: Mapping[str, Collection[str]] = field(default_factory=dict[str, Collection[str]])
    folders: Sequence[OwnFolder] = ()
    tables: Sequence[str] = ()
    config: Config | None = None

    @classmethod
    def of(cls, config: Config) -> OwnPlaces:
        """Those of a contract file; nothing is opened."""
        clean: dict[str, set[str]] = {}
        named: set[str] = set()
        for contract in config.mirrored:
            there = contract.namespaces
            for name in (there.raw, there.deduped, there.clean):
                clean.setdefault(_folded(name), set()).add(there.clean)
                named.update((name, name + STREAM_SUFFIX))
        warehouse = warehouse_uri(config.lake.warehouse)
        tables = sorted(table_uri(warehouse, (name,)) for name in named)
        return cls(clean, tuple(_folders(config)), tables, config)

    def refuse(self, declared: ExternalDeclaration) -> None:
        """See that a file names nothing of Mirrorlake's. Nothing is asked but the file system.

        Raises:
            ModelError: it does, with the place in its file.
        """
        if declared.format == "parquet":
            self._refuse_path(declared, declared.url, above=True)
            return
        if declared.format != "iceberg" and not store_of_format(declared).is_own(
            declared, self.config
        ):
            return
        namespace, name = declared.table
        readers = self.clean.get(_DERIVED.sub("", _folded(namespace)))
        if readers is not None:
            clean = [str(Identifier(one, name)) for one in sorted(readers)]
            raise _refused(declared, f"Mirrorlake fills {namespace}", clean)

    def refuse_look(self, look: ExternalLook, table: LakeTable | None = None) -> None:
        """See that what is there is nothing of Mirrorlake's, whatever its file calls it.

        Args:
            table: of Iceberg, the table.

        Raises:
            ModelError: it is, with the place in its file.
        """
        declared, seen = look.table.declaration, look.table
        if table is not None:
            self._refuse_lake_table(declared, table)
        if seen.stored is not None:
            _refuse_raw(declared, seen.stored.name, seen.stored.column_names)
        if seen.folder is not None and "://" not in declared.url:
            store = seen.folder.store
            for real in _leading_elsewhere(store.describe(one.path) for one in seen.files):
                self._refuse_path(declared, real, above=False)

    def _refuse_lake_table(self, declared: ExternalDeclaration, table: LakeTable) -> None:
        name = str(Identifier(*declared.table))
        if table.properties.get(OF_MODEL):
            raise declared.wrong(f"{name} is made here: model {table.properties[OF_MODEL]} does")
        for place in (table.location(), table.metadata_location):
            if any(_is_within(place, own) for own in self.tables):
                raise _refused(declared, f"{name} is a table of the mirror under another name")
        _refuse_raw(declared, name, [one.name for one in table.schema().fields])
        summaries = [one.summary for one in table.metadata.snapshots if one.summary is not None]
        written = {key for one in summaries for key in one.additional_properties}
        # Clean is folded, too; another contract's may be read, where its namespace says so.
        folded = FOLDED in written and not _folded(declared.table[0]).endswith("__clean")
        if OF in table.properties or LOAD_ID in written or folded:
            raise _refused(declared, f"{name} is made by a mirror")

    def _refuse_path(self, declared: ExternalDeclaration, path: str, *, above: bool) -> None:
        for own in self.folders:
            if _is_within(path, own.url):
                raise _refused(declared, f"{path} is in {own.what}, {own.url}")
            if above and _is_within(own.url, path):
                raise _refused(declared, f"{path} has {own.what} in it, {own.url}")


def _refused(declared: ExternalDeclaration, words: str, clean: Sequence[str] = ()) -> ModelError:
    named = f"{_READ_CLEAN}{': ' if clean else ''}{' or '.join(clean)}"
    return declared.wrong(
        f"{words}: columns that its contract hides would reach models",
        next_step=f"{named}; what somebody else makes is to be elsewhere",
    )


def _refuse_raw(declared: ExternalDeclaration, name: str, columns: Sequence[str]) -> None:
    own = sorted({one.lower() for one in columns} & IN_RAW)
    if own:
        raise _refused(declared, f"{name} has {own[0]}, as only a mirror's own tables have")


def _folders(config: Config) -> Iterator[OwnFolder]:
    yield OwnFolder(warehouse_uri(config.lake.warehouse), "the lake")
    yield OwnFolder(str(config.path.absolute().parent / ".mirrorlake"), "Mirrorlake's own folder")
    yield OwnFolder(str(cache_path()), "Mirrorlake's cache")
    for store in STORES:
        yield from (OwnFolder(url, what) for url, what in store.own_folders(config))
    for contract in config.snapshots:
        landing, settings = config.landings[contract.source], contract.snapshot
        if settings is not None:
            cluster = landing.cluster or contract.source
            names = cluster, contract.database, contract.table
            place = TableFolder(settings.format, *names, settings.part)
            # All parts of a table are below it.
            url = f"{landing.url.rstrip('/')}/{posixpath.dirname(place.path)}"
            yield OwnFolder(url, f"the landing of {contract.name}")


# --- comparing names and places -------------------------------------------------------------------


def _folded(name: str) -> str:
    """A name as the least exact catalog compares it: some know no case, some cut spaces."""
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _is_within(inner: str, outer: str) -> bool:
    """Whether a place is another one or below it, however the two are written."""
    if _bucket_path(inner) is not None or _bucket_path(outer) is not None:
        return _is_below(_bucket_path(inner), _bucket_path(outer))
    inner, outer = _local(inner), _local(outer)
    if _is_below(inner, outer) or _is_below(os.path.realpath(inner), os.path.realpath(outer)):
        return True
    # One folder under two names: mounted twice, or on a disk that knows no case.
    try:
        status = Path(outer).stat()
    except OSError:
        return False
    real = Path(os.path.realpath(inner))
    return any(_is_file(one, status) for one in (real, *real.parents))


def _is_file(path: Path, status: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), status)
    except OSError:
        return False


def _is_below(inner: str | None, outer: str | None) -> bool:
    if inner is None or outer is None:
        return False
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _local(place: str) -> str:
    path = place.removeprefix("file://") if place.startswith("file://") else place
    return os.path.normpath(path.removeprefix("file:"))


def _bucket_path(url: str) -> str | None:
    """Bucket and path, without how they are reached: Google's buckets answer to ``s3://``, too.

    >>> _bucket_path("s3a://b/lake//x/../y%2Fz/"), _bucket_path("/srv/lake")
    ('b/lake/y/z', None)
    """
    scheme, mark, rest = url.partition("://")
    if not mark or scheme == "file":
        return None
    bucket, _, path = rest.partition("/")
    return posixpath.normpath(f"{bucket.lower()}/{unquote(path)}").replace("//", "/")


def _leading_elsewhere(paths: Iterator[str]) -> Iterator[str]:
    """Where files really are, those that links lead to; a folder once."""
    folders: set[Path] = set()
    for path in map(Path, paths):
        above = path.parent
        if above not in folders:
            folders.add(above)
            if (real := os.path.realpath(above)) != str(above):
                yield real
        if path.is_symlink():
            yield os.path.realpath(path)
