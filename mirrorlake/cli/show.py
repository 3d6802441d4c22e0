"""What the command line's commands share: consoles, common options, and how things are printed."""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import yaml
from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from mirrorlake.config.fields import parse_duration
from mirrorlake.errors import MirrorlakeError
from mirrorlake.runtime.outcomes import Outcomes, T
from mirrorlake.runtime.plural import plural

# In a file or a pipe nothing is wrapped for a screen that is not there, unless somebody says how
# wide it is: Rich reads COLUMNS.
console = Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else 200)
errors = Console(stderr=True)


def table_names(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Tables of the contract file for a shell that completes a word: the shortest name of each that
    is its alone, or the longer ones that begin like the word. The file is only looked at: what is
    wrong with it is said by commands."""
    named = context.params.get("config_path") or os.environ.get("MIRRORLAKE_CONFIG")
    try:
        text = Path(named or "mirrorlake.yaml").read_text("utf-8")
        found = list(_names_in(yaml.load(text, Loader=yaml.CSafeLoader)))
    except (OSError, ValueError, yaml.YAMLError, AttributeError, TypeError):
        return []
    ends = Counter(end for name in found for end in _ends(name))
    own = [[end for end in _ends(name) if ends[end] == 1] for name in found]
    if "." in begun:
        return sorted(end for some in own for end in some if end.startswith(begun))
    return sorted(some[0] for some in own if some and some[0].startswith(begun))


def _names_in(contract: Any) -> Iterator[str]:
    """The names of a contract's tables, in full."""
    for source, about in (contract.get("sources") or {}).items():
        for database, tables in (about.get("databases") or {}).items():
            yield from (f"{source}.{database}.{t}" for t in tables.get("tables") or {})
    for group, about in (contract.get("tenants") or {}).items():
        yield from (f"{group}.{table}" for table in about.get("tables") or {})


def _ends(name: str) -> list[str]:
    """What a table may be called, the shortest first."""
    parts = name.split(".")
    return [".".join(parts[at:]) for at in reversed(range(len(parts)))]


config_option = click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    default=Path("mirrorlake.yaml"),
    envvar="MIRRORLAKE_CONFIG",
    show_default=True,
    show_envvar=True,
    help="The contract file.",
)
grace_option = click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=24.0,
    show_default=True,
    help="Hours since a file was written before it is an orphan; over Spark Connect at least 1.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")

_STYLED = re.compile(r"[^\S ]|[^ -\U0010ffff]|[\[\\\x7f-\x9f]|:\S+:")
"""What Rich may not show as it is: its markup, the names of its signs, and control characters."""
_PROSE = 24
"""The fewest characters in which a sentence is still readable in a column."""


class _Rows(Table):
    """A table where the screen is wide enough for whole words, else a short record a row."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """On a terminal as Rich has it; in a file no line is filled up with spaces."""
        made = self._layout(console, options)
        if console.is_terminal:
            yield from made
            return
        parts: list[Any] = [*made]
        for line in console.render_lines(Group(*parts), options, pad=False):
            yield from _unpadded(line)
            yield Segment.line()

    def _layout(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Choose by the width that the longest words need: a name that is cut names nothing."""
        if lines := self._plain(options.max_width):
            head = console.get_style("table.header")
            for number, line in enumerate(lines):
                yield Segment(line, head if number == 1 else None)
                yield Segment.line()
            return
        wide = options.update(max_width=10_000)
        for column in self.columns:
            if column.no_wrap:
                # By itself Rich needs a cell's longest word alone, and would cut the others.
                cells = (column.header, *column.cells)
                column.min_width = max(Measurement.get(console, wide, x).maximum for x in cells)
        needed = Measurement.get(console, wide, self).minimum
        if needed <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        cells = [list(column.cells) for column in self.columns]
        for row in zip(*cells, strict=True):
            yield from self._record(row, options.max_width)

    def _plain(self, width: int) -> list[str]:
        """The lines that Rich would make of words that fit on one line each, at a twentieth of its
        time; none where a cell is styled or a row is too long: those are Rich's."""
        rows = [
            [str(column.header), *(cell for cell in column.cells if isinstance(cell, str))]
            for column in self.columns
        ]
        if any(len(row) != 1 + self.row_count or any(map(_STYLED.search, row)) for row in rows):
            return []
        sizes = [[cell_len(cell) for cell in row] for row in rows]
        widths = [
            max(column.min_width or 0, *found)
            for column, found in zip(self.columns, sizes, strict=True)
        ]
        if sum(widths) + 3 * len(widths) + 1 > width:
            return []
        filled = [
            [cell + " " * (wide - size) for cell, size in zip(row, found, strict=True)]
            for row, found, wide in zip(rows, sizes, widths, strict=True)
        ]
        head, *body = ("  " + "   ".join(cells) + "  " for cells in zip(*filled, strict=True))
        blank, rule = " " * len(head), " " + "─" * (sum(widths) + 3 * len(widths) - 1) + " "
        return [blank, head, rule, *body, blank]

    def _record(self, row: tuple[Any, ...], width: int) -> Iterable[Any]:
        """The name, then the short cells one after the other, then each sentence."""
        name, *rest = row
        yield f"[bold]{name}[/]"
        found = [
            (column, cell)
            for column, cell in zip(self.columns[1:], rest, strict=True)
            if cell not in ("", "-")
        ]
        short = [_labelled(str(c.header), cell) for c, cell in found if c.no_wrap]
        said = [cell for column, cell in found if not column.no_wrap]
        for line in [*_filled(short, width - 2), *said]:
            yield Padding(line, (0, 0, 0, 2))


def _unpadded(line: list[Segment]) -> list[Segment]:
    """A line without the spaces that it ends with."""
    while line and not line[-1].text.strip():
        line = line[:-1]
    if not line:
        return []
    *before, (text, style, control) = line
    return [*before, Segment(text.rstrip(), style, control)]


def _labelled(label: str, cell: str) -> str:
    """A cell that says what it is: a number by its column's name, a word by itself."""
    return f"[dim]{label}[/] {cell}" if any(map(str.isdigit, cell)) else cell


def _filled(cells: Iterable[str], width: int) -> Iterable[str]:
    """Lines of as many cells as have room; none is broken."""
    line, length = "", 0
    for cell in cells:
        size = Text.from_markup(cell).cell_len
        if line and length + 2 + size > width:
            yield f"{line},"
            line, length = "", 0
        line, length = (f"{line}, {cell}", length + 2 + size) if line else (cell, size)
    if line:
        yield line


def table(*columns: str) -> Table:
    """A table of whole words; where the screen is too narrow for them, a record for each row.

    A column whose name ends in ``…`` holds sentences, which wrap between words; every other cell
    stays on one line.
    """
    made = _Rows(box=box.SIMPLE_HEAD)
    for column in columns:
        prose = column.endswith("…")
        name = column.removesuffix("…")
        made.add_column(
            name, no_wrap=not prose, overflow="fold", min_width=_PROSE if prose else None
        )
    return made


def ago(age: timedelta | None) -> str:
    """How long ago, in one unit: ``3 min ago``; ``-`` of nothing."""
    if age is None:
        return "-"
    seconds = int(age.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def megabytes(size: int | None) -> str:
    """A number of bytes, in MB; what nobody knows is not 0."""
    return "unknown" if size is None else f"{size / 1e6:,.2f}"


def since(moment: str | None) -> str:
    """How long ago a moment (ISO, with its offset) was, as `ago` says it."""
    return ago(None if moment is None else datetime.now(UTC) - datetime.fromisoformat(moment))


def print_errors(failures: Iterable[tuple[str, Exception]]) -> None:
    """One line per table that failed, on standard error; what is said of several tables alike is
    said once, with how many they are."""
    alike: dict[str, list[tuple[str, Exception]]] = {}
    for name, error in failures:
        alike.setdefault(_without_names(name, str(error)), []).append((name, error))
    for (name, error), *others in alike.values():
        line = f"[red]error:[/] {escape(named(name, str(error)))}"
        errors.print(line, highlight=False, soft_wrap=True)
        if others:
            words = f"The same of {plural(len(others), 'other table')}"
            words += f": {first_of(other for other, _ in others)}"
            errors.print(escape(words), highlight=False, soft_wrap=True)


def errors_of(failures: Iterable[tuple[str, MirrorlakeError]]) -> list[dict[str, Any]]:
    """What failed, as every command's JSON has it."""
    return [{"table": name, "error": str(e), "code": e.exit_code} for name, e in failures]


def end_with(
    found: Outcomes[T],
    print_results: Callable[[Sequence[T]], None],
    *,
    as_json: bool,
    key: str = "tables",
) -> None:
    """Show what became of several tables, and exit with the first failure's code, if there is one.

    Args:
        print_results: for people; the failures are printed after it.
        key: under which JSON has the results.
    """
    if as_json:
        results = [_fields(one) for one in found.results]
        print_json({key: results, "errors": errors_of(found.failures)})
    else:
        print_results(found.results)
        print_errors(found.failures)
    if found.failures:
        sys.exit(found.exit_code)


def _fields(result: Any) -> Any:
    """A result as JSON has it: as it says itself, or by its fields."""
    if hasattr(result, "as_json"):
        return result.as_json()
    return result if isinstance(result, dict) else asdict(result)


def first_of(names: Iterable[str], most: int = 5) -> str:
    """The first of some names, and how many more there are.

    >>> first_of("abcdefg"), first_of("ab")
    ('a, b, c, d, e and 2 more', 'a, b')
    """
    listed = list(names)
    more = f" and {len(listed) - most:,} more" if len(listed) > most else ""
    return f"{', '.join(listed[:most])}{more}"


def _without_names(table: str, words: str) -> str:
    """An error's words without what only one table has: its name, ids and numbers."""
    for name in (table, table.rpartition(".")[2]):
        words = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", "*", words)
    return re.sub(r"[0-9a-f-]{8,}|\d+", "*", words)


def named(table: str, words: str) -> str:
    """An error's words with the name of their table, once."""
    return words if table in words else f"{table}: {words}"


def print_json(value: Any) -> None:
    """A value as indented JSON: moments in ISO 8601, timedeltas in seconds, all else its text."""
    click.echo(json.dumps(value, default=plain, indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


def as_values(texts: Sequence[str]) -> dict[str, str]:
    """Name → value, of texts like ``day=2024-05-01`` and of names of partitions, like
    ``day=2024-05-01/shop=Paris``; a value may have a ``/``."""
    found: dict[str, str] = {}
    for text in texts:
        for part in re.split(r"/(?=\w+=)", text):
            name, sign, value = part.partition("=")
            if not sign or not re.fullmatch(r"\w+", name):
                raise click.UsageError(f"{text!r} is no NAME=VALUE, like day=2024-05-01")
            if name in found:
                raise click.UsageError(f"{name} is given twice")
            found[name] = value
    return found


def as_duration(text: str, option: str) -> timedelta:
    """What an option says as 30s, 10m or 8h.

    Raises:
        BadParameter: it is no duration.
    """
    try:
        return parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=option) from error


def compressed(keys: Sequence[str]) -> str:
    """Names of partitions for people: the first, the last, and how many.

    >>> compressed(["day=2024-05-01", "day=2024-05-02", "day=2024-05-03"])
    'day=2024-05-01 … day=2024-05-03 (3)'
    """
    if len(keys) > 2:
        return f"{keys[0]} … {keys[-1]} ({len(keys):,})"
    return ", ".join(keys) or "none"
