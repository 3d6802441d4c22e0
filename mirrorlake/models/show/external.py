"""Tables that are made elsewhere, as somebody sees them who asks: version, rows, and how fresh.

What belongs here: what is said of one. What doesn't: what models read of it
(`mirrorlake.models.external_sources.tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from mirrorlake.config import Config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import is_rewrite
from mirrorlake.errors import LakeError, LandingError
from mirrorlake.models.compile.model import Project
from mirrorlake.models.external_sources.stores import STORES
from mirrorlake.models.external_sources.tables import ExternalTable, SeenInStore
from mirrorlake.models.files.external_table import rules_of_view
from mirrorlake.models.spark_sql.columns import NamedValue
from mirrorlake.sources.files.parquet_folder import ParquetFolder
from mirrorlake.sources.files.parquet_table import check_files


@dataclass(frozen=True)
class ExternalSeen:
    """A table that is made elsewhere, as it is.

    Attributes:
        version: another one whenever its rows changed.
        files: None where it has none that anybody sees.
        rows: None where its metadata do not count them exactly.
        changed_at: when it was last written (UTC); None where nothing says that. Where rows are
            streamed in it may have been later.
        streamed: of BigQuery, about how many rows were streamed in that are not counted yet; None
            without any.
    """

    version: str
    rows: int | None
    files: int | None
    bytes: int
    changed_at: datetime | None
    streamed: int | None = None


@dataclass(frozen=True)
class ShownExternal:
    """What `mirrorlake show` says of a table that is made elsewhere.

    Attributes:
        place: where it is: a table of the lake or of BigQuery, or a folder.
        hidden: columns with personal data, in lower case.
        view: of BigQuery, what readers have of it; None where its file does not say `clean`.
        in_view: what it does with each column: ``show``, ``drop``, ``null`` or ``mask``.
        read_by: models.
    """

    name: str
    path: str
    description: str
    owner: str | None
    format: str
    place: str
    columns: tuple[NamedValue, ...]
    partition_by: tuple[str, ...]
    seen: ExternalSeen
    read_by: tuple[str, ...]
    hidden: tuple[str, ...]
    view: str | None
    in_view: Mapping[str, str]


def observe(table: ExternalTable, lake: Lake, *, counted: bool = True) -> ExternalSeen:
    """Look at all of a table.

    Args:
        counted: of Parquet, whether each file's footer is read for its rows.

    Raises:
        LandingError: a file is gone, or not as the table is declared.
        LakeError: the lake or the store can't be read.
    """
    if table.stored is not None:
        return _of_store(table, table.stored)
    if table.folder is not None:
        return _of_parquet(table, _rows_of(table, table.folder) if counted else None)
    return _of_iceberg(table, lake)


def _of_store(table: ExternalTable, stored: SeenInStore) -> ExternalSeen:
    streamed = stored.streaming
    times = (stored.changed_at, streamed.oldest_at if streamed is not None else None)
    return ExternalSeen(
        version=table.version([{}]),
        rows=stored.rows,
        files=None,
        bytes=stored.bytes,
        changed_at=max((one for one in times if one is not None), default=None),
        streamed=streamed.estimated if streamed is not None else None,
    )


def _of_parquet(table: ExternalTable, rows: int | None) -> ExternalSeen:
    times = [one.changed_at for one in table.files]
    known = [one for one in times if one is not None]
    return ExternalSeen(
        version=table.version([{}]),
        rows=rows,
        files=len(table.files),
        bytes=sum(one.bytes for one in table.files),
        changed_at=max(known) if len(known) == len(times) else None,
    )


def _rows_of(table: ExternalTable, folder: ParquetFolder) -> int:
    try:
        return sum(check_files(folder, table.files))
    except LandingError as error:
        raise LandingError(
            f"{table.name}: {error.message}",
            next_step=error.next_step,
            retryable=error.retryable,
        ) from None


def _of_iceberg(table: ExternalTable, lake: Lake) -> ExternalSeen:
    version, identifier = table.version([{}]), Identifier(*table.declaration.table)
    found = lake.load(identifier)
    if found is None:
        raise LakeError(f"{identifier} is gone since it was looked at", retryable=True)
    # Of the version that was looked at; what came since is of the next look.
    counted = lake.statistics(identifier, table.snapshot) if table.snapshot is not None else None
    if counted is None:
        return ExternalSeen(version, 0, 0, 0, None)
    commit = found.snapshot_by_id(table.rows_of) if table.rows_of is not None else None
    # Of a table that was only compacted since its older snapshots expired nobody knows.
    known = commit is not None and not is_rewrite(commit)
    written = datetime.fromtimestamp(commit.timestamp_ms / 1000, UTC) if commit and known else None
    rows = None if counted.delete_files else counted.rows
    return ExternalSeen(version, rows, counted.data_files, counted.bytes, written)


def show_external(project: Project, lake: Lake, config: Config, name: str) -> ShownExternal | None:
    """What is said of a table that is made elsewhere; None of another name.

    Raises:
        LandingError, LakeError: see `observe`.
    """
    table = project.externals.get(name.lower())
    if table is None:
        return None
    declared = table.declaration
    store = STORES.added.get(declared.format)
    return ShownExternal(
        name=table.name,
        path=str(declared.path),
        description=declared.description,
        owner=declared.owner,
        format=declared.format,
        place=_place_of(table),
        columns=table.relation.fields,
        partition_by=declared.partition_by,
        seen=observe(table, lake),
        read_by=project.readers.get(table.name, ()),
        hidden=tuple(sorted(declared.hidden)),
        view=store.view(declared, config) if store is not None else None,
        in_view=rules_of_view(declared) if declared.clean is not None else {},
    )


def _place_of(table: ExternalTable) -> str:
    if table.stored is not None:
        return table.stored.name
    declared = table.declaration
    return declared.url if declared.format == "parquet" else str(Identifier(*declared.table))
