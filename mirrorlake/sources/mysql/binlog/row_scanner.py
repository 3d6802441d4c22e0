"""Where each row image begins: the one thing of a table that only row by row can be known.

An image is its NULL bits and then its values, of which some say their own length. Everything else
is read a column at a time (`cells`), so this is all of Python that runs for each row: a function
that is written for the table, in which columns of fixed width are one addition together.

Source: MySQL source, ``pack_row``, ``calc_field_size``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from mirrorlake.errors import LogUnreadable
from mirrorlake.sources.mysql.binlog.byte_reader import unreadable

RowScan: TypeAlias = Callable[[bytes | bytearray, int, int, list[int]], int]
"""``scan(bytes, at, end, starts)`` appends where each image begins, and returns where the last one
ends."""

Width: TypeAlias = tuple[bool, int]
"""Of a column: whether its values are of one size, and the bytes of it, or else of its length."""


def make_scan(widths: Sequence[Width]) -> RowScan:
    """The function that finds the images of a table with columns of these widths."""
    source = _source(widths)
    place: dict[str, object] = {"Seen": _FixedParts}
    exec(compile(source, "<row scanner>", "exec"), place)  # noqa: S102 (numbers alone are put in)
    scan = place["scan"]
    assert callable(scan)  # noqa: S101 (the source defines it)
    return scan  # type: ignore[return-value]


class _FixedParts(dict[int, int]):
    """The bytes of neighbouring columns of fixed width, by the image's NULL bits."""

    def __init__(self, first: int, sizes: Sequence[int]) -> None:
        super().__init__()
        self._first, self._sizes = first, sizes

    def __missing__(self, nulls: int) -> int:
        if len(self) > 4096:
            self.clear()
        there = nulls >> self._first
        found = sum(size for n, size in enumerate(self._sizes) if not there >> n & 1)
        self[nulls] = found
        return found


def _source(widths: Sequence[Width]) -> str:
    """The function's text: first the path of rows without any NULL, then that of all others."""
    size = (len(widths) + 7) // 8
    nulls = " | ".join(f"b[p + {n}] << {8 * n}" if n else "b[p]" for n in range(min(size, 8)))
    if size > 8:
        nulls = f"int.from_bytes(b[p:p + {size}], 'little')"
    parts = _runs(widths)
    tables = [
        f"f{n} = Seen({first}, {sizes!r})" for n, (first, sizes, _) in enumerate(parts) if sizes
    ]
    body = [
        "def scan(b, p, end, starts):",
        "  found = starts.append",
        "  while p < end:",
        "    found(p)",
        f"    x = {nulls}",
        "    if not x:",
        *(f"      {line}" for line in _without_nulls(parts, size)),
        "      continue",
        f"    p += {size}",
        *(f"    {line}" for line in _with_nulls(parts)),
        "  return p",
    ]
    return "\n".join([*tables, *body])


def _runs(widths: Sequence[Width]) -> list[tuple[int, list[int], int]]:
    """(number of the first column, sizes of columns of fixed width, and the bytes of the length of
    the column after them or 0 at the end of the image)."""
    found: list[tuple[int, list[int], int]] = []
    first, sizes = 0, list[int]()
    for number, (fixed, size) in enumerate(widths):
        if fixed:
            sizes.append(size)
        else:
            found.append((first, sizes, size))
            first, sizes = number + 1, []
    found.append((first, sizes, 0))
    return found


def _without_nulls(parts: list[tuple[int, list[int], int]], step: int) -> list[str]:
    lines: list[str] = []
    for _, sizes, length in parts:
        step += sum(sizes)
        if length:
            lines.append(f"p += {step}" if step else "pass")
            lines.append(f"p += {_length(length)}")
            step = length
    return [*lines, f"p += {step}"]


def _with_nulls(parts: list[tuple[int, list[int], int]]) -> list[str]:
    lines: list[str] = []
    for number, (first, sizes, length) in enumerate(parts):
        if sizes:
            lines.append(f"p += f{number}[x]")
        if length:
            bit = first + len(sizes)
            lines.append(f"if not x >> {bit} & 1: p += {_length(length)} + {length}")
    return lines


def _length(size: int) -> str:
    """The expression of a length at ``p``."""
    return " + ".join(f"(b[p + {n}] << {8 * n})" if n else "b[p]" for n in range(size))


def scan_images(scan: RowScan, given: bytearray, at: int, starts: list[int]) -> int:
    """Append the starts of all images from ``at`` to the bytes' end; return how many there are.

    Raises:
        LogUnreadable: the last one does not end where the bytes do; no start was appended.
    """
    before, end = len(starts), len(given)
    try:
        last = scan(given, at, end, starts)
    except IndexError:
        last = -1
    if last != end:
        del starts[before:]
        raise images_cut()
    return len(starts) - before


def images_cut() -> LogUnreadable:
    """The error of images that don't fill their event."""
    return unreadable("A row event", "its rows are not of its table's columns")
