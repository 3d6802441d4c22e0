"""`backfill` and `invalidate`: what is missing, or was declared invalid, is loaded and computed.

What belongs here: options, and what is printed. What doesn't: which work there is, and doing it
(`mirrorlake.operations`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.work_options import DAY, print_warnings, request_of, work_options
from mirrorlake.config import Config
from mirrorlake.operations.publishers import Loaded, print_published, publish_all
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger
    from mirrorlake.ledger.proofs.dirty import DirtyMark
    from mirrorlake.operations.planning.backfill import Filled
    from mirrorlake.operations.planning.computed import Computed, ModelFilled
    from mirrorlake.operations.planning.declare import Declared
    from mirrorlake.operations.planning.work import Work
    from mirrorlake.workspace import Leasable


@click.command(short_help="Load past days of tables; compute partitions of models.")
@click.argument("targets", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@work_options
def backfill(
    targets: Sequence[str], config_path: Path, as_json: bool, which: str, **options: Any
) -> None:
    """Load days of tables, and compute partitions of models: what is missing, what failed, what was
    declared invalid, or all of a range again.

    TARGETS are tables (or patterns of their names) and models. What fails stops what needs it, and
    nothing else. `mirrorlake plan backfill` shows what it would do.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.operations.planning.backfill import run_work
    from mirrorlake.operations.planning.computed import open_computed
    from mirrorlake.operations.planning.work import find_work
    from mirrorlake.workspace import Workspace

    if not targets and which != "invalid":
        raise click.UsageError(
            "Name tables or models, or say --invalid. `mirrorlake plan backfill` lists what is "
            "missing of all."
        )
    config = open_contract(config_path)
    request = request_of(config, targets, which=which, **options)
    config.require_secrets(request.tables)
    today = datetime.now(UTC).date()
    with Workspace.open(config) as workspace, Bars(show.errors, quiet=as_json) as bars:
        needs_models = bool(request.models) or which == "invalid"
        ledger, lake = workspace.ledger, workspace.lake
        # A model's file that can't be read keeps no table from being loaded.
        computed = open_computed(config, ledger, lake) if needs_models else []
        work = find_work(config, ledger, computed, request, today)
        config.require_secrets([windows[0].contract for windows in work.windows])
        count, done = bars.count("windows and partitions", None), itertools.count(1)

        def advance(_: object) -> None:
            count(next(done))

        filled, models = run_work(workspace, computed, work, advance)
    loaded, failures = publish_all(config, _moved(work, computed, filled, models))
    _report(work, filled, models, which, loaded, as_json=as_json)
    show.print_errors(failures)
    codes = [one.code for one in (*filled, *models) if one.code]
    codes += [error.exit_code for _, error in failures]
    if codes:
        sys.exit(codes[0])


def _moved(
    work: Work,
    computed: Sequence[Computed],
    filled: Sequence[Filled],
    models: Sequence[ModelFilled],
) -> list[Leasable]:
    """The tables of which something was loaded, and what is published of the models."""
    failed = {one.table for one in filled if one.code}
    tables = [*(windows[0].contract for windows in work.windows), *work.folds]
    loaded = {one.name: one for one in tables if one.name not in failed}
    names = [one.model for one in models if one.computed]
    return [*loaded.values(), *(there for one in computed for there in one.published(names))]


def _report(
    work: Work,
    filled: Sequence[Filled],
    models: Sequence[ModelFilled],
    which: str,
    loaded: Loaded,
    *,
    as_json: bool,
) -> None:
    print_warnings(work.warnings)
    if as_json:
        there = [{name: asdict(one)} for name, done in loaded.items() for one in done]
        show.print_json([*(asdict(one) for one in (*filled, *models)), *there])
        return
    if filled:
        _print_filled(filled)
    if models:
        table = show.table("model", "computed", "unchanged", "waiting", "rows", "seconds", "error…")
        for one in models:
            counts = (f"{n:,}" for n in (one.computed, one.unchanged, one.waiting, one.rows))
            table.add_row(
                escape(one.model), *counts, f"{one.seconds:,.1f}", escape(one.error or "")
            )
        show.console.print(table)
    print_published(loaded)
    if work.nothing:
        words = "Nothing is declared invalid: `mirrorlake invalidate` declares it."
        if which != "invalid":
            words = "Nothing to fill: see `mirrorlake gaps --all`."
        show.console.print(words, soft_wrap=True)
    if work.left:
        show.console.print(
            f"{plural(work.left, 'partition is', 'partitions are')} left: run it again."
        )


def _print_filled(filled: Sequence[Filled]) -> None:
    table = show.table("table", "from", "to", "window", "rows", "tries", "seconds", "error…")
    for one in filled:
        cells = (one.window or "-", f"{one.rows:,}", str(one.attempts), str(one.seconds))
        days = (str(one.first), str(one.last))
        table.add_row(escape(one.table), *days, *cells, escape(one.error or ""))
    show.console.print(table)


@click.command(short_help="Declare days or partitions wrong: they are made again.")
@click.argument("target", required=False)
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]…")
@show.config_option
@show.json_option
@click.option("--from", "first", type=DAY, help="The first day, YYYY-MM-DD.")
@click.option("--to", "last", type=DAY, help="The last day, included.")
@click.option(
    "--downstream",
    default="all",
    show_default=True,
    help="What derives from it, too: all, direct, none, or models (a.b,c.d).",
)
@click.option("--reason", default="", help="Shown to everyone who meets it.")
@click.option("--dry-run", is_flag=True, help="Say what would be declared, and write nothing.")
@click.option("--withdraw", help="Take a declaration back, by its id.")
def invalidate(
    target: str | None,
    values: tuple[str, ...],
    config_path: Path,
    as_json: bool,
    first: datetime | None,
    last: datetime | None,
    downstream: str,
    reason: str,
    dry_run: bool,
    withdraw: str | None,
) -> None:
    """Declare TARGET invalid: days of a table, or partitions of a model; and what derives from it.

    They are stale until they are loaded or computed again: `mirrorlake backfill --invalid` does.
    Without TARGET: list what is declared invalid.
    """
    from mirrorlake.ledger import Ledger

    config = open_contract(config_path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    if withdraw is not None:
        if target is not None:
            raise click.UsageError("--withdraw takes the id of a declaration, and no TARGET.")
        _withdraw(ledger, withdraw)
    if target is None:
        _print_declarations(ledger, as_json=as_json)
        return
    days = (first.date() if first else None, last.date() if last else None)
    declared = _planned(config, ledger, target, values, days, downstream)
    if not dry_run:
        from mirrorlake.operations.planning.declare import declare

        declare(ledger, declared, reason)
    if as_json:
        show.print_json(asdict(declared))
    else:
        _print_declared(declared, dry_run=dry_run)


def _planned(
    config: Config,
    ledger: Ledger,
    target: str,
    values: Sequence[str],
    days: tuple[date | None, date | None],
    downstream: str,
) -> Declared:
    from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
    from mirrorlake.operations.planning.computed import NamedPartitions, is_computed, open_computed
    from mirrorlake.operations.planning.declare import plan_declaration

    lake = open_lake(config, ledger)
    needs_models = downstream != "none" or is_computed(config, target)
    computed = open_computed(config, ledger, lake) if needs_models else []
    meant = NamedPartitions(target, show.as_values(values), *days)
    today = datetime.now(UTC).date()
    return plan_declaration(config, ledger, computed, meant, downstream, today)


def _print_declared(declared: Declared, *, dry_run: bool) -> None:
    from mirrorlake.operations.days.invalid import period_words

    table = show.table("target", "partitions", "which…")
    if declared.reads_again:
        which = period_words((declared.first, declared.last)) or "all of it"
        table.add_row(escape(declared.target), "-", which)
    for model, keys in declared.partitions.items():
        table.add_row(escape(model), f"{len(keys):,}", escape(show.compressed(keys)))
    show.console.print(table)
    words = f"Declared invalid as {declared.declaration}: `mirrorlake plan backfill --invalid` "
    words += "shows what that takes, `mirrorlake backfill --invalid` does it."
    words = "Nothing was written." if dry_run else words
    show.console.print(words, highlight=False, soft_wrap=True)


def _withdraw(ledger: Ledger, declaration: str) -> None:
    from mirrorlake.errors import ConfigError

    mine = [one.mark_id for one in ledger.dirty_marks() if one.declaration == declaration]
    if not mine:
        raise ConfigError(
            f"nothing is declared invalid as {declaration!r}",
            next_step="`mirrorlake invalidate` lists what is",
        )
    ledger.forget_marks(mine)


def _print_declarations(ledger: Ledger, *, as_json: bool) -> None:
    from mirrorlake.operations.days.invalid import invalid_ranges, period_words

    marks = ledger.dirty_marks()
    standing = {one.mark.mark_id for one in invalid_ranges(ledger, marks)}
    groups: dict[tuple[str, str], list[DirtyMark]] = {}
    for mark in marks:
        if mark.key is not None or mark.mark_id in standing:
            groups.setdefault((mark.declaration, mark.target), []).append(mark)
    if as_json:
        show.print_json([_declaration_as_json(found) for found in groups.values()])
        return
    table = show.table("id", "target", "partitions", "since", "by", "reason…")
    for (declaration, target), found in groups.items():
        one = found[0]
        days = period_words((one.first, one.last)) or "all of it"
        what = days if one.key is None else f"{len(found):,}"
        at = one.at.isoformat() if one.at else None
        cells = (escape(target), what, show.since(at), escape(one.by), escape(one.reason))
        table.add_row(declaration, *cells)
    if groups:
        show.console.print(table)
    else:
        show.console.print("Nothing is declared invalid.")


def _declaration_as_json(found: Sequence[DirtyMark]) -> dict[str, Any]:
    one = found[0]
    return {
        "declaration": one.declaration,
        "target": one.target,
        "first": one.first,
        "last": one.last,
        "partitions": [mark.key for mark in found if mark.key is not None],
        "reason": one.reason,
        "by": one.by,
        "at": one.at,
    }
