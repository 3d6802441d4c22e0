"""`check` of a table that is kept by snapshots: what is printed."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.checking.check import clean_notes, warn_of_clean
from mirrorlake.cli.checking.whole import CheckTerms, WholeCheck
from mirrorlake.cli.reports import COLORS, Checked, print_rows
from mirrorlake.config import TableContract
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace


def _check_landed(workspace: Workspace, contract: TableContract, terms: CheckTerms) -> Checked:
    """Compare a table of mode ``snapshot`` with the files that landed."""
    from mirrorlake.landing.check import (
        check_snapshots,
        compared_words,
        difference_lines,
        landed_formatter,
        unread_words,
        verdict_words,
    )
    from mirrorlake.serving.personal_audit import find_suspects

    found = check_snapshots(workspace, contract, terms.options["most"])
    formatter = landed_formatter(workspace, contract, shown=terms.show_pii)
    lines = difference_lines(formatter, found.differences)
    suspects = find_suspects(workspace.lake, workspace.ledger, contract).found
    fields = {k: v for k, v in asdict(found).items() if k != "differences"}
    words = {"table": contract.name, "verdict": found.verdict, "compared": compared_words(found)}
    words |= {**fields, "differences": lines, "suspected_pii": suspects}

    def show_it() -> None:
        verdict = f"[{COLORS[found.verdict]}]{found.verdict}[/]"
        parts = [compared_words(found), verdict_words(found)]
        notes = escape("; ".join(part for part in parts if part))
        printed = [f"{escape(contract.name)}: {verdict} ({notes})"]
        printed += [f"  {escape(line)}" for line in unread_words(found)]
        for line in printed:
            show.console.print(line, highlight=False, soft_wrap=True)
        print_rows(lines, terms.shown, "--json lists them")
        warn_of_clean((), suspects)

    kept = (f"{plural(found.kept, 'row')} kept",) if found.kept else ()
    notes = (*kept, *unread_words(found), *clean_notes((), (), suspects))
    rows = (found.expected, found.rows)
    return Checked(contract.name, found.verdict, words, show_it, rows, notes)


CHECK = WholeCheck("kept by snapshots", "--json, --most or --show-pii", _check_landed)
