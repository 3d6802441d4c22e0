"""Progress bars on a terminal: one a table that is loaded, and one for a number of things; lines
where there is no terminal, so that a log shows how far a long command is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from mirrorlake.table.progress import OnProgress
from mirrorlake.table.progress import Progress as Seen


class Bars:
    """Bars that are shown while the block runs, and are gone afterwards.

    Args:
        console: shown there if it is a terminal; elsewhere lines are.
        quiet: whether nothing is shown at all.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._lines = not quiet and not console.is_terminal
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def refresh(self) -> None:
        """Show the newest state now, rather than with the next tick."""
        self._bars.refresh()

    def line(self, words: str) -> None:
        """Say what is done, where no bar shows it."""
        if self._lines:
            self._console.print(words, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def table(self, name: str) -> Iterator[OnProgress]:
        """A bar for one table's load, gone with the block; what it gives moves the bar."""
        task = self._add(name, None)

        def report(seen: Seen) -> None:
            state = f"{seen.words}; commit and fold" if seen.ended else seen.words
            # Without a total the bar only shows that something moves.
            total = None if seen.ended else seen.expected
            self._bars.update(task, completed=seen.rows, total=total, state=state)

        try:
            yield report
        finally:
            self._bars.remove_task(task)

    def count(self, name: str, total: int | None) -> Callable[[int], None]:
        """A bar for a number of things, if it is known; what it returns moves the bar."""
        task = self._add(name, total)

        def report(done: int) -> None:
            state = f"{done:,}" if total is None else f"{done:,} of {total:,}"
            self._bars.update(task, completed=done, state=state)

        report(0)
        return report

    def _add(self, name: str, total: int | None) -> TaskID:
        return self._bars.add_task(escape(name), total=total, state="")
