"""What `check` and `repair` share: the rows that their options ask for, a check's verdict on the
screen, and its exit code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.proof.comparing.report import Ask, Report

DIFFERENT, UNDECIDED = 9, 10
"""Exit codes of verdicts; a failure to look has its error's."""
CODES = {"equal": 0, "different": DIFFERENT, "undecided": UNDECIDED}
COLORS = {"equal": "green", "different": "red", "undecided": "yellow"}


@dataclass(frozen=True)
class Checked:
    """A table that was checked.

    Attributes:
        words: what was found, as JSON has it.
        show: prints all that is to be said of it.
        rows: in MySQL, or in the files that landed; and in the lake.
        waiting: rows that are too new to be compared.
        notes: what a line about it says, too.
        repairable: rows differ, and `repair` reads them again.
    """

    table: str
    verdict: str
    words: dict[str, Any]
    show: Callable[[], None]
    rows: tuple[int, int]
    notes: tuple[str, ...] = ()
    waiting: int = 0
    repairable: bool = False


def print_checked(found: Sequence[Checked]) -> None:
    """A line for each table; notes on those that are equal, and all that is to be said of those
    that are not."""
    table = show.table("table", "verdict", "source rows", "lake rows", "waiting")
    for one in found:
        source, lake = one.rows
        cells = (f"[{COLORS[one.verdict]}]{one.verdict}[/]", f"{source:,}", f"{lake:,}")
        cells = (*cells, f"{one.waiting:,}" if one.waiting else "-")
        table.add_row(escape(one.table), *cells)
    if found:
        show.console.print(table)
    for one in found:
        if one.verdict != "equal":
            one.show()
        elif one.notes:
            words = f"{one.table}: {'; '.join(one.notes)}"
            show.console.print(escape(words), highlight=False, soft_wrap=True)


def print_rows(lines: Sequence[str], most: int, rest: str) -> None:
    """The first lines about rows that differ, and where the others are."""
    for line in lines[:most]:
        show.console.print(escape(line), highlight=False, soft_wrap=True)
    if len(lines) > most:
        words = f"and {len(lines) - most:,} more: {rest}"
        show.console.print(escape(words), highlight=False, soft_wrap=True)


def notes_of(report: Report) -> tuple[str, ...]:
    """What a line about a check says beside its verdict."""
    found = [f"{plural(n, 'row')} {why}" for why, n in sorted(report.undecided.items())]
    if report.ignored:
        found.append(f"{plural(report.ignored, 'row')} deleted in MySQL, and ignored")
    if report.not_mirrored:
        found.append(f"not mirrored: {', '.join(report.not_mirrored)}")
    return tuple(found)


def ask_of(options: dict[str, Any]) -> Ask:
    """The rows that the options of a command ask for."""
    from mirrorlake.proof.comparing.report import Ask
    from mirrorlake.proof.ranges.named_ranges import read_keys

    choices = ("full", "next_", "partition", "keys", "where", "counts")
    if sum(bool(options.get(name)) for name in choices) > 1:
        raise ConfigError(
            "--full, --next, --partition, --keys, --where and --counts exclude each other",
            next_step="Give one of them",
        )
    if options.get("next_"):
        return Ask("next")
    if options["partition"]:
        day: datetime = options["partition"]
        return Ask("partition", day=day.date())
    if options["where"]:
        return Ask("where", where=options["where"])
    return Ask("keys", named=read_keys(options["keys"])) if options["keys"] else Ask()


def code_of_all(verdicts: Sequence[str], failures: Sequence[tuple[str, MirrorlakeError]]) -> int:
    """The exit code of several tables: a failure to look, then the worst verdict.

    >>> code_of_all(["equal", "undecided", "different"], []), code_of_all(["equal"], [])
    (9, 0)
    """
    if failures:
        return failures[0][1].exit_code
    return next((CODES[v] for v in ("different", "undecided") if v in verdicts), 0)


def print_tally(
    done: str, verdicts: Sequence[str], failures: Sequence[tuple[str, MirrorlakeError]]
) -> None:
    """How many tables there were of each verdict, and what failed."""
    counts = Counter(verdicts)
    parts = [f"[{COLORS[v]}]{counts[v]:,} {v}[/]" for v in CODES if counts[v]]
    parts += [f"[red]{len(failures):,} failed[/]"] if failures else []
    tables = len(verdicts) + len(failures)
    words = f"{plural(tables, 'table')} {done}: {', '.join(parts)}"
    show.console.print(words, highlight=False, soft_wrap=True)
    show.print_errors(failures)


def print_report(report: Report, path: Path) -> None:
    """A check's verdict, in a few lines."""
    color = COLORS[report.verdict]
    rows = f"{plural(report.source.rows, 'row')} in MySQL, {report.lake.rows:,} in the lake"
    show.console.print(
        f"{escape(report.table)}: [{color}]{report.verdict}[/] ({rows}; "
        f"{escape(report.scope)}; {report.seconds} s, {report.bytes:,} bytes from MySQL)",
        highlight=False,
        soft_wrap=True,
    )
    undecided = sorted(report.undecided.items())
    notes = [f"{plural(count, 'row')} {reason}" for reason, count in undecided]
    if report.not_mirrored:
        notes.append(f"not compared, as they are not mirrored: {', '.join(report.not_mirrored)}")
    if report.waiting:
        wait = plural(report.waiting, "row waits: it was", "rows wait: they were")
        notes.append(f"{wait} not compared, since MySQL wrote so recently")
    if report.beside:
        notes.append(
            f"{plural(report.beside, 'row')} outside these bounds, looked up by key: equal"
        )
    if report.ignored:
        notes.append(f"{plural(report.ignored, 'row')} deleted in MySQL, and ignored (deletes)")
    if report.unlooked:
        one, many = "more row or group differs", "more rows or groups differ"
        notes.append(f"{plural(report.unlooked, one, many)}: see --most")
    for note in [*notes, f"evidence: {path}"]:
        show.console.print(f"  {escape(note)}", highlight=False, soft_wrap=True)
