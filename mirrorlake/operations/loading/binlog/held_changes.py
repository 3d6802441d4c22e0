"""Changes that were read of the log and are not loaded: their transaction may go on.

Those of a transaction that goes on are kept in files, so that it may be larger than memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.ipc as _ipc

from mirrorlake.load.following.log_rows import is_new
from mirrorlake.sources.mysql.binlog.events.table_map import TableMap
from mirrorlake.sources.mysql.binlog.log_batches import TableChanges
from mirrorlake.sources.mysql.binlog.positions import LogPosition

ipc: Any = _ipc


@dataclass(frozen=True)
class LoggedPiece:
    """Changes of one table.

    Attributes:
        columns: as MySQL calls them; and those of ours.
        last: where the last transaction of them begins.
        held: where they are: here, or in a file.
    """

    logged: TableMap
    columns: tuple[str, ...]
    last: LogPosition
    held: TableChanges | Path

    @classmethod
    def of(cls, changes: TableChanges) -> LoggedPiece:
        places = changes.places
        file, offset = places.column("file")[-1].as_py(), places.column("offset")[-1].as_py()
        columns = tuple(changes.rows.schema.names)
        return cls(changes.logged, columns, LogPosition(file, offset), changes)

    @property
    def name(self) -> tuple[str, str]:
        return self.logged.database, self.logged.table

    def read(self) -> TableChanges:
        """The changes themselves."""
        if isinstance(self.held, TableChanges):
            return self.held
        with pa.memory_map(str(self.held)) as source, ipc.open_file(source) as stored:
            both = stored.get_batch(0)
        rows, places = (pa.RecordBatch.from_struct_array(column) for column in both.columns)
        return TableChanges(self.logged, rows, places)

    def written(self, path: Path) -> LoggedPiece:
        """The same in a file."""
        changes = self.read()
        both = [changes.rows.to_struct_array(), changes.places.to_struct_array()]
        batch = pa.RecordBatch.from_arrays(both, names=["rows", "places"])
        with pa.OSFile(str(path), "wb") as sink, ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        return replace(self, held=path)

    def before(self, place: LogPosition) -> LoggedPiece | None:
        """Those of transactions that begin before a place."""
        return self if self.last < place else self._chosen(place, later=False)

    def since(self, place: LogPosition) -> LoggedPiece | None:
        """The others."""
        return None if self.last < place else self._chosen(place, later=True)

    def _chosen(self, place: LogPosition, *, later: bool) -> LoggedPiece | None:
        changes = self.read()
        mask = is_new(changes.places, place)
        kept = pa.array(np.flatnonzero(mask if later else ~mask))
        if not len(kept):
            return None
        rows, places = changes.rows.take(kept), changes.places.take(kept)
        return LoggedPiece.of(replace(changes, rows=rows, places=places))


@dataclass
class HeldChanges:
    """Pieces in the log's order."""

    pieces: list[LoggedPiece] = field(default_factory=list[LoggedPiece])
    _folder: Path | None = None
    _files: int = 0
    _closing: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def add(self, changes: Sequence[TableChanges]) -> None:
        """Take these in."""
        self.pieces += [LoggedPiece.of(one) for one in changes]

    def take(self, before: LogPosition | None = None) -> list[LoggedPiece]:
        """The pieces, which are not held any more: all, or those of transactions that begin before
        a place. The others are kept in files."""
        if before is None:
            taken, self.pieces = self.pieces, []
            return taken
        taken = [one for piece in self.pieces if (one := piece.before(before)) is not None]
        kept = [one for piece in self.pieces if (one := piece.since(before)) is not None]
        self.pieces = [self._in_file(piece) for piece in kept]
        return taken

    def forget_from(self, place: LogPosition) -> None:
        """Forget what transactions brought that begin at a place or later."""
        self.pieces = [one for piece in self.pieces if (one := piece.before(place)) is not None]

    def _in_file(self, piece: LoggedPiece) -> LoggedPiece:
        if isinstance(piece.held, Path):
            return piece
        if self._folder is None:
            self._folder = Path(self._closing.enter_context(TemporaryDirectory("-mirrorlake")))
        self._files += 1
        return piece.written(self._folder / f"{self._files}.arrow")


def pieces_by_name(pieces: Sequence[LoggedPiece]) -> dict[tuple[str, str], list[LoggedPiece]]:
    """Pieces by the table that they are of, in the order of their first changes."""
    found: dict[tuple[str, str], list[LoggedPiece]] = {}
    for piece in pieces:
        found.setdefault(piece.name, []).append(piece)
    return found
