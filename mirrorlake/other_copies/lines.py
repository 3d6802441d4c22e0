"""What is said of a comparison, in lines: on the screen and in a report."""

from __future__ import annotations

from collections.abc import Iterator

from mirrorlake.other_copies.verdict import ComparedCopy, CopyDifference
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import ORIGINAL


def difference_line(one: CopyDifference) -> str:
    """A difference with its rows."""
    where = f"{one.column}: " if one.column else ""
    keys = f"; of key {', '.join(one.keys)}" if one.keys else ""
    more = ", …" if one.keys and one.count > len(one.keys) else ""
    return f"{where}{one.words}: {plural(one.count, 'row')}{keys}{more}"


def value_lines(one: CopyDifference) -> Iterator[str]:
    """The values of a difference's rows, where they were asked for."""
    for key, (mine, theirs) in zip(one.keys, one.values, strict=False):
        yield f"{key}: {_cell(mine)} in MySQL, {_cell(theirs)} in the copy"


def _cell(value: str | None) -> str:
    return "NULL" if value is None else f"‘{value}’"


def note_lines(found: ComparedCopy) -> Iterator[str]:
    """What is other, and loses nothing."""
    for one in found.differences:
        if one.lossless:
            yield f"{difference_line(one)}; nothing is lost"
    lossy = {one.column for one in found.differences if not one.lossless}
    if None in lossy:  # whole rows: which columns they are of, nobody can say
        lossy |= {column.name for column in found.columns}
    told: dict[tuple[str, bool], list[str]] = {}
    for column in found.columns:
        for note in column.notes:
            told.setdefault((note, column.name in lossy), []).append(column.name)
    for (note, lost), columns in told.items():
        # Of a column with losses its type is told, and nothing is promised.
        yield f"{', '.join(columns)}: {note}{'' if lost else '; nothing is lost'}"


def scope_lines(found: ComparedCopy) -> Iterator[str]:
    """Exactly what was compared, and what was not."""
    position = f", position {found.position}" if found.position else ""
    when = found.read_at.replace("T", " ").removesuffix("Z")
    yield f"MySQL read at {when} UTC (server {found.server}{position})"
    yield f"the copy: {found.place}; {found.version}"
    renamed = [f"{one.theirs} as {one.name}" for one in found.columns if one.theirs != one.name]
    if renamed:
        yield f"columns of other names: {', '.join(renamed)}"
    for column, why in found.left_out.items():
        yield f"not compared: {column}: {why}"
    if found.surplus:
        own = [f"{name} ({tool})" if tool else name for name, tool in found.surplus.items()]
        yield f"in the copy alone, not compared: {', '.join(own)}"
    if found.originals:
        yield f"read with the columns whose original texts it has: {ORIGINAL}"
    if found.marked_deleted:
        yield (
            f"{plural(found.marked_deleted, 'row')} that the copy marks as deleted: taken for "
            "rows that are not there"
        )
    if found.where:
        left = plural(found.outside, "row")
        yield (
            f"only rows where {found.where}; left out: {left} of MySQL outside of it, with the "
            "copy's rows of the same keys"
        )
        if not any(found.rows):
            yield "no row was compared: the condition holds for none, on either side"
