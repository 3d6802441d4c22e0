"""`plan`: what the working tree changes of what is deployed; what a sync or a backfill would do.

What belongs here: options, tables for people, Markdown for a review, JSON for programs. What
doesn't: finding it out (`mirrorlake.operations`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.markup import escape

from mirrorlake.cli import show
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.work_options import print_warnings, request_of, work_options
from mirrorlake.errors import ModelError
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.operations.planning.computed import PlannedModels
    from mirrorlake.operations.planning.contract_changes import TableChange
    from mirrorlake.operations.planning.drift import Drift
    from mirrorlake.operations.planning.forecasts import Forecast, ForecastSum
    from mirrorlake.operations.planning.planned_steps import PlannedStep
    from mirrorlake.operations.planning.sync_plans import PlannedSync
    from mirrorlake.operations.planning.work_plans import WorkPlan

_markdown_option = click.option(
    "--markdown", "as_markdown", is_flag=True, help="Print Markdown, for a review."
)


@click.group(
    invoke_without_command=True,
    short_help="Say what the files here would change; nothing is touched.",
)
@show.config_option
@show.json_option
@_markdown_option
@click.option(
    "--sources",
    is_flag=True,
    help="Look at the servers, too: what MySQL changed, and which tables no contract names.",
)
@click.pass_context
def plan(
    context: click.Context, config_path: Path, as_json: bool, as_markdown: bool, sources: bool
) -> None:
    """Say what the working tree changes of what is deployed: models, contracts and, with --sources,
    schema versions. Nothing is touched.

    Ends with 0 if nothing changes, 10 if something is read or computed again, 20 if readers lose a
    column, 2 if a model does not compile, 4 if --sources could not look at a server.
    """
    if context.invoked_subcommand is not None:
        _refuse_options(context)
        return
    from mirrorlake.operations.planning.computed import CODES, open_computed
    from mirrorlake.operations.planning.contract_changes import plan_contracts
    from mirrorlake.operations.planning.drift import find_drift
    from mirrorlake.serving.catalogue import Catalogue
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    with Workspace.open(config) as workspace:
        ledger, lake = workspace.ledger, workspace.lake
        catalogue = Catalogue(config, lake)
        computed = open_computed(config, ledger, lake, catalogue)
        models = [one.planned() for one in computed]
        contracts = plan_contracts(config, ledger, catalogue, computed)
        drift = find_drift(workspace, catalogue, computed) if sources else None
    problems = [problem for one in models for problem in one.problems]
    if as_json:
        show.print_json(_as_json(models, contracts, drift))
    else:
        printed = _Printed(markdown=as_markdown)
        if not any(one.changes or one.problems for one in models):
            printed.lines(["There are no models."])
        for one in models:
            _print_models(printed, one)
        _print_tables(printed, "contract", contracts)
        _print_drift(printed, drift)
        if as_markdown:
            printed.lines([f"Error: {one}" for one in problems])
    if problems:
        raise ModelError.joined(problems)
    codes = [CODES[change.change] for one in models for change in one.changes]
    codes += [CODES[one.change] for one in (*contracts, *(drift.changes if drift else ()))]
    code = max(codes, default=0)
    sys.exit(drift.code if drift is not None and drift.code and code < CODES["breaking"] else code)


def _as_json(
    models: Sequence[PlannedModels], contracts: Sequence[TableChange], drift: Drift | None
) -> dict[str, Any]:
    return {
        "models": [
            {**asdict(change), **one.facts.get(change.model, {})}
            for one in models
            for change in one.changes
        ],
        "contracts": [asdict(one) for one in contracts],
        "schema_versions": None if drift is None else [asdict(d) for d in drift.changes],
        "not_looked_at": {} if drift is None else dict(drift.lost),
        "not_mirrored": None if drift is None else list(drift.unmirrored),
        "problems": [str(problem) for one in models for problem in one.problems],
    }


def _refuse_options(context: click.Context) -> None:
    """See that no option stands before a subcommand, which would not see it."""
    for parameter in context.command.params:
        if context.get_parameter_source(str(parameter.name)) is ParameterSource.COMMANDLINE:
            raise click.UsageError(
                f"Write {parameter.opts[0]} behind: `mirrorlake plan {context.invoked_subcommand} "
                f"{parameter.opts[0]} …`."
            )


class _Printed:
    """Tables and lines as people read them: on a screen, or as Markdown."""

    def __init__(self, *, markdown: bool) -> None:
        self._markdown = markdown

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        if not rows:
            return
        if self._markdown:
            head = [column.removesuffix("…") for column in columns]
            click.echo(f"| {' | '.join(head)} |")
            click.echo(f"|{'---|' * len(head)}")
            for row in rows:
                click.echo(f"| {' | '.join(markdown_cell(cell) for cell in row)} |")
            click.echo()
            return
        table = show.table(*columns)
        for row in rows:
            table.add_row(*map(escape, row))
        show.console.print(table)

    def lines(self, lines: Sequence[str]) -> None:
        for line in lines:
            if self._markdown:
                click.echo(f"- {markdown_cell(line.strip())}")
            else:
                show.console.print(escape(line), highlight=False, soft_wrap=True)
        if self._markdown and lines:
            click.echo()


def markdown_cell(text: str) -> str:
    """A text in a cell of Markdown: nothing in it is taken for a table, a tag or a link."""
    for sign in ("\\", "|", "<", "`", "*", "_", "[", "]"):
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")


def _print_models(printed: _Printed, found: PlannedModels) -> None:
    rows: list[tuple[str, ...]] = []
    for change in found.changes:
        facts = found.facts.get(change.model)
        cells = ("-", "-", "-")
        if facts is not None:
            counts = (f"{len(facts['columns']):,}", f"{facts['partitions']:,}")
            cells = (*counts, ", ".join(facts["reads"]) or "-")
        rows.append((change.model, change.change, *cells))
    printed.table(("model", "change", "columns", "partitions", "reads…"), rows)
    for change in found.changes:
        printed.lines([f"{change.model}: {words}" for words in change.words])
        printed.lines([f"  {words}" for words in change.readers])
    warnings = (words for facts in found.facts.values() for words in facts["warnings"])
    printed.lines([f"Warning: {words}" for words in warnings])


def _print_tables(printed: _Printed, what: str, changes: Sequence[TableChange]) -> None:
    printed.table((what, "change"), [(one.table, one.change) for one in changes])
    for one in changes:
        printed.lines([f"{one.table}: {words}" for words in one.words])
        printed.lines([f"  {words}" for words in one.readers])


def _print_drift(printed: _Printed, drift: Drift | None) -> None:
    if drift is None:
        printed.lines(["Schema versions: not looked at; --sources looks at the servers."])
        return
    _print_tables(printed, "schema version", drift.changes)
    printed.lines([f"Source {name}: not looked at: {why}" for name, why in drift.lost.items()])
    if drift.unmirrored:
        printed.lines(
            [f"Not mirrored, as no contract names them: {show.first_of(drift.unmirrored)}"]
        )


# --- sync -----------------------------------------------------------------------------------------


@plan.command("sync")
@click.argument("tables", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@_markdown_option
def plan_sync(tables: Sequence[str], config_path: Path, as_json: bool, as_markdown: bool) -> None:
    """Say what a sync of TABLES (all by default) would read now, and what that takes. Nothing is
    touched: the sources are looked at, and rows of windows are counted. Of a table of tenants it
    says how many moved, are new, or are gone.

    Ends with the code of the first table that a sync would refuse, or could not read as a whole.
    """
    from mirrorlake.operations.mirrored.kinds import by_kind
    from mirrorlake.workspace import Workspace

    config = open_contract(config_path)
    of_one, of_tenants = config.split(tables)
    chosen = [*of_one, *of_tenants]
    config.require_secrets(chosen)
    with Workspace.open(config) as workspace:
        found = [one for kind, some in by_kind(chosen) for one in kind.plan(workspace, some)]
    if as_json:
        show.print_json({"tables": [asdict(one) for one in found]})
    else:
        _print_syncs(_Printed(markdown=as_markdown), found)
    sys.exit(next((one.code for one in found if one.code), 0))


def _print_syncs(printed: _Printed, found: Sequence[PlannedSync]) -> None:
    columns = ("table", "window", "since", "rows", "MB", "seconds", "fold seconds", "why…")
    forecasts = [forecast for one in found for forecast in (one.load, one.fold)]
    forecast = any(x.bytes is not None or x.seconds is not None for x in forecasts)
    reading = [one for one in found if one.window not in ("held", "refused")]
    rows = [
        (
            *(one.table, one.window, one.since or "-", _sync_rows(one)),
            *(show.megabytes(one.load.bytes), _seconds(one.load), _seconds(one.fold), one.why),
        )
        for one in found
    ]
    # Before a first load nothing is known of its size and time: no column says so in each row.
    shown = [n for n, name in enumerate(columns) if forecast or name not in columns[4:7]]
    printed.table([columns[n] for n in shown], [[row[n] for n in shown] for row in rows])
    reads = sum(one.window != "unchanged" for one in reading)
    takes = _total(_read_and_folded(reading), "expected")
    if reading and not forecast:
        takes = "how much and how long is known once they were loaded"
    printed.lines([f"{reads:,} of {len(found):,} tables are read: {takes}."])


def _read_and_folded(found: Sequence[PlannedSync]) -> ForecastSum:
    """What syncs read, and the seconds of their loads and folds.

    >>> from mirrorlake.operations.planning.forecasts import Forecast
    >>> from mirrorlake.operations.planning.sync_plans import PlannedSync
    >>> read, folded = Forecast(10, 100, 1.0), Forecast(10, 80, 2.0)
    >>> _read_and_folded([PlannedSync("t", "full", load=read, fold=folded)])
    ForecastSum(rows=10, bytes=100, seconds=3.0, unknown={})
    """
    from mirrorlake.operations.planning.forecasts import summed

    folds = [replace(one.fold, rows=0, bytes=0) for one in found]
    return summed([*(one.load for one in found), *folds])


def _sync_rows(one: PlannedSync) -> str:
    if one.window in ("held", "refused"):
        return "-"
    if one.window == "unchanged":
        return "0"
    if one.rows is None and one.window == "log":
        return "unknown"
    if one.rows is None:
        from mirrorlake.operations.planning.sync_plans import MOST_COUNTED

        return f"more than {MOST_COUNTED:,}"
    return f"{one.rows:,}" if one.counted else f"about {one.rows:,}"


# --- backfill -------------------------------------------------------------------------------------


@plan.command("backfill")
@click.argument("targets", nargs=-1, shell_complete=show.table_names)
@show.config_option
@show.json_option
@_markdown_option
@work_options
def plan_backfill(
    targets: Sequence[str],
    config_path: Path,
    as_json: bool,
    as_markdown: bool,
    which: str,
    **options: Any,
) -> None:
    """Say what a backfill of TARGETS (tables and models; all by default) would load, fold and
    compute, in order, and what that is expected to take. Nothing is touched, and no source is
    queried."""
    from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.other_writers.moved_lake import recorded_tables, refuse_moved_lake
    from mirrorlake.operations.planning.computed import open_computed
    from mirrorlake.operations.planning.work import find_work
    from mirrorlake.operations.planning.work_plans import plan_work

    config = open_contract(config_path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    lake = open_lake(config, ledger)
    refuse_moved_lake(config, ledger, recorded_tables(config, ledger))
    request = request_of(config, targets, which=which, **options)
    needs_models = not targets or bool(request.models) or which == "invalid"
    computed = open_computed(config, ledger, lake) if needs_models else []
    if not targets and which != "invalid":
        # All models: of some days those alone that have such partitions.
        days = (request.first, request.last)
        names = tuple(name for one in computed for name in one.with_days(*days))
        models = () if which == "errored" else names
        request = replace(request, tables=config.tables, models=models, named=False)
    today = datetime.now(UTC).date()
    work = find_work(config, ledger, computed, request, today)
    found = plan_work(work, ledger, computed, today)
    problems = [problem.message for one in computed for problem in one.problems]
    print_warnings([f"{words}: its model is left out" for words in problems])
    if as_json:
        show.print_json(asdict(found))
    else:
        _print_work(_Printed(markdown=as_markdown), found)


def _print_work(printed: _Printed, found: WorkPlan) -> None:
    columns = ("", "step", "what", "partitions", "rows", "MB", "seconds", "why…")
    rows = [
        (
            *(f"{number}.", one.step, one.target, f"{one.partitions:,}" if one.partitions else "-"),
            *(_rows(one.forecast), show.megabytes(one.forecast.bytes), _seconds(one.forecast)),
            _why(one),
        )
        for number, one in enumerate(found.steps, 1)
    ]
    printed.table(columns, rows)
    for one in found.steps:
        printed.lines(
            [
                f"{one.target}: {_of(u.partitions, one.partitions)} read {u.words}"
                for u in one.unproved
            ]
        )
    if found.steps:
        printed.lines([f"In all {_total(found.total, 'expected')}."])
    else:
        printed.lines(["Nothing is to be done."])
    if found.left:
        words = plural(found.left, "partition is", "partitions are")
        printed.lines([f"{words} left to another run by --limit."])
    print_warnings(found.warnings)


def _of(some: int, all_: int) -> str:
    return f"{some:,} of {all_:,} partitions"


def _why(one: PlannedStep) -> str:
    reasons = sorted(one.why.items(), key=lambda item: -item[1])
    shown = [words if len(reasons) == 1 else f"{words} ({n:,})" for words, n in reasons[:3]]
    more = f"; {plural(len(reasons) - 3, 'more reason')}" if len(reasons) > 3 else ""
    which = f"{show.compressed(one.names)}: " if any(one.names) else ""
    return which + "; ".join(shown) + more


def _rows(one: Forecast) -> str:
    return "unknown" if one.rows is None else f"{one.rows:,}"


def _seconds(one: Forecast) -> str:
    return "unknown" if one.seconds is None else f"{one.seconds:,.1f}"


def _total(total: ForecastSum, verb: str) -> str:
    """The sum of what is known, if of anything, and of how many steps it is not.

    >>> from mirrorlake.operations.planning.forecasts import ForecastSum
    >>> _total(ForecastSum(1000, 2_500_000, 61.0, {"seconds": 2}), "expected")
    '1,000 rows, 2.50 MB, 61.0 s are expected; seconds of 2 steps are not known'
    """
    figures = {"rows": plural(total.rows, "row"), "bytes": f"{total.bytes / 1e6:,.2f} MB"}
    figures["seconds"] = f"{total.seconds:,.1f} s"
    known = [
        one for name, one in figures.items() if getattr(total, name) or name not in total.unknown
    ]
    words = f"{', '.join(known)} are {verb}" if known else "no figure is known"
    for name, count in total.unknown.items():
        words += f"; {name} of {count:,} step{'' if count == 1 else 's'} are not known"
    return words
