"""What `check` and `repair` share: the rows that their options ask for, a check's verdict on the
screen, and its exit code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.errors import ConfigError, MirrorlakeError
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.proof.report import Ask, Report

DIFFERENT, UNDECIDED = 9, 10
"""Exit codes of verdicts; a failure to look has its error's."""
CODES = {"equal": 0, "different": DIFFERENT, "undecided": UNDECIDED}
COLORS = {"equal": "green", "different": "red", "undecided": "yellow"}


def ask_of(options: dict[str, Any]) -> Ask:
    """The rows that the options of a command ask for."""
    from mirrorlake.proof.named import read_keys
    from mirrorlake.proof.report import Ask

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
    words = f"{tables:,} {'table' if tables == 1 else 'tables'} {done}: {', '.join(parts)}"
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
    notes = [
        f"{plural(count, 'row')} {reason}" for reason, count in sorted(report.undecided.items())
    ]
    if report.not_mirrored:
        notes.append(f"not compared, as they are not mirrored: {', '.join(report.not_mirrored)}")
    if report.waiting:
        notes.append(
            f"{plural(report.waiting, 'row waits', 'rows wait')}: they were not compared, "
            f"since the lake need not have "
            "them yet"
        )
    if report.beside:
        notes.append(
            f"{plural(report.beside, 'row')} beside these bounds were looked up by their "
            f"keys: equal"
        )
    if report.ignored:
        notes.append(
            f"{plural(report.ignored, 'row was', 'rows were')} deleted in MySQL, and "
            f"ignored (deletes)"
        )
    if report.unlooked:
        notes.append(f"{report.unlooked:,} more rows or groups differ: see --most")
    for note in [*notes, f"evidence: {path}"]:
        show.console.print(f"  {escape(note)}", highlight=False, soft_wrap=True)
