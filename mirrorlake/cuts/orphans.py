"""Rows of a version in the lake whose values no row of another version has.

DuckDB joins the keys, which PyIceberg reads; what is more than `MEMORY` goes to files in a
temporary folder. Values are equal where they are the same value of the lake's type: which columns
may be compared so is not said here (`mirrorlake.cuts.foreign_keys`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as _compute

from mirrorlake.destinations.base import EVERY_ROW, Destination, Identifier
from mirrorlake.errors import LakeError
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL

pc: Any = _compute  # its functions are made at import: type checkers see none of them
MEMORY = "512MB"
"""What DuckDB may use."""
AT_ONCE, BYTES_AT_ONCE = 200_000, 64 * 2**20
"""Rows that it is given at once, and about how many bytes."""


class OriginalKept(Exception):
    """A row keeps the original text of a value of the key: the lake's value is not MySQL's."""


@dataclass(frozen=True)
class KeyVersion:
    """The columns of a key in one version of a lake table.

    Attributes:
        snapshot: the version; None of a table without a row.
        originals: whether rows may keep original texts.
        flags: whether rows that MySQL has no more are there, with the time of that.
    """

    identifier: Identifier
    snapshot: int | None
    columns: tuple[str, ...]
    originals: bool
    flags: bool


def count_orphans(lake: Destination, child: KeyVersion, parent: KeyVersion) -> int:
    """How many rows of a child have no parent; a row with NULL in any of the columns has none to
    look for (MATCH SIMPLE).

    Raises:
        OriginalKept: a row of either keeps an original in a column of the key.
        LakeError: the lake can't be read, or there is no room for the keys.
    """
    with tempfile.TemporaryDirectory(prefix="mirrorlake-keys-") as folder:
        settings: dict[str, str | bool | int | float | list[str]] = {
            "memory_limit": MEMORY,
            "temp_directory": folder,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "preserve_insertion_order": False,
        }
        with duckdb.connect(config=settings) as database:
            try:
                children = _fill(database, "children", _keys(lake, child))
                parents = _fill(database, "parents", _keys(lake, parent)) if children else 0
                return _without_parent(database, len(child.columns)) if parents else children
            except duckdb.Error as error:
                # Its own words may hold values.
                raise LakeError(
                    f"the keys of {child.identifier} and {parent.identifier} could not be joined "
                    f"({type(error).__name__})",
                    next_step="See that the folder for temporary files (TMPDIR) has room for them",
                ) from error


def _without_parent(database: Any, columns: int) -> int:
    same = " AND ".join(f"c.k{n} = p.k{n}" for n in range(columns))
    sql = f"SELECT count(*) FROM children c ANTI JOIN parents p ON {same}"  # noqa: S608
    return int(database.execute(sql).fetchall()[0][0])


def _fill(database: Any, name: str, batches: Iterator[pa.Table]) -> int:
    """Put rows into a table of DuckDB's own; how many there are. It is made with the first."""
    total, waiting, count = 0, list[pa.Table](), 0

    def put() -> None:
        database.register("rows", pa.concat_tables(waiting))
        into = f"CREATE TABLE {name} AS" if total == count else f"INSERT INTO {name}"
        database.execute(f"{into} SELECT * FROM rows")  # noqa: S608
        database.unregister("rows")

    for batch in batches:
        waiting.append(batch)
        count += batch.num_rows
        total += batch.num_rows
        if count >= AT_ONCE or sum(one.nbytes for one in waiting) >= BYTES_AT_ONCE:
            put()
            waiting, count = [], 0
    if count:
        put()
    return total


def _keys(lake: Destination, version: KeyVersion) -> Iterator[pa.Table]:
    """The keys of a version without NULL, in columns k0, k1 …"""
    if version.snapshot is None:
        return
    also = [ORIGINAL] if version.originals else []
    also += [DELETED_AT] if version.flags else []
    wanted = [*dict.fromkeys((*version.columns, *also))]
    for batch in lake.scan(version.identifier, wanted, EVERY_ROW, version.snapshot) or ():
        rows = pa.Table.from_batches([batch])
        if version.flags:
            rows = rows.filter(pc.is_null(rows.column(DELETED_AT)))
        if version.originals:
            _refuse_originals(rows, version.columns)
        keys = pa.table([_plain(rows.column(name)) for name in version.columns], _names(version))
        if found := keys.drop_null():
            yield found


def _names(version: KeyVersion) -> Sequence[str]:
    return [f"k{n}" for n in range(len(version.columns))]


def _plain(values: Any) -> Any:
    """Moments without a zone: all of the lake's are in UTC."""
    return values.cast(pa.timestamp("us")) if pa.types.is_timestamp(values.type) else values


def _refuse_originals(rows: Any, columns: Sequence[str]) -> None:
    """See that no row keeps an original of one of these columns.

    Raises:
        OriginalKept: one does.
    """
    kept = pc.list_flatten(rows.column(ORIGINAL))
    if len(kept) and pc.any(pc.is_in(pc.struct_field(kept, "column"), pa.array(columns))).as_py():
        raise OriginalKept
