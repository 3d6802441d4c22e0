"""The commands of SQL models: what one is, and computing it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape

from mirrorlake.cli import show as shown
from mirrorlake.cli.contract import open_contract
from mirrorlake.errors import ExpectationFailed
from mirrorlake.models.cli.checks import checks_of, print_checks
from mirrorlake.models.cli.external import print_external
from mirrorlake.operations.publishers import PUBLISHERS, Loaded, print_published, publish_all
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from rich.table import Table

    from mirrorlake.models.compile.dependencies import Input
    from mirrorlake.models.compute.model_run import ModelRun
    from mirrorlake.models.files.declaration import Declaration
    from mirrorlake.models.partition_states.partition_state import PartitionState
    from mirrorlake.models.show.model import ShownModel, ShownPartition
    from mirrorlake.models.show.stream_prices import StreamPrice


@click.command("show", short_help="Show a model: columns, readers, what a partition reads.")
@click.argument("model")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]…")
@shown.config_option
@shown.json_option
@click.option("--sql", is_flag=True, help="Print the query of the partition, and nothing else.")
def show_command(
    model: str, values: tuple[str, ...], config_path: Path, as_json: bool, sql: bool
) -> None:
    """Show a SQL model: its columns, and of one partition what it is computed from.

    NAME=VALUE gives the partition: `mirrorlake show shop.sales day=2024-05-01`.
    """
    from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
    from mirrorlake.ledger import Ledger
    from mirrorlake.models.contract_models import compile_project
    from mirrorlake.models.partition_states.states import States
    from mirrorlake.models.show.external import show_external
    from mirrorlake.models.show.model import show_model

    wanted = shown.as_values(values)
    config = open_contract(config_path)
    ledger = Ledger(config.ledger.url, config.ledger.wait)
    lake = open_lake(config, ledger)
    project, catalogue = compile_project(config, lake)
    external = show_external(project, lake, config, model)
    if external is not None:
        print_external(external, as_json=as_json)
        return
    states = States(project, catalogue, lake, ledger)
    found = show_model(states, model, wanted)
    shown_key = found.partition.key if found.partition is not None else None
    checks = None if sql else checks_of(states, found.name, shown_key)
    if sql:
        if found.partition is None:
            raise click.UsageError(f"--sql is of one partition: name it, as in {found.first}")
        click.echo(found.partition.sql)
    elif as_json:
        shown.print_json({**_as_json(found), **asdict(checks)} if checks else _as_json(found))
    else:
        _print(found)
        if checks is not None:
            print_checks(checks)


def _as_json(found: ShownModel) -> dict[str, Any]:
    said = asdict(found)
    published = said.pop("published")
    said |= {name: published.get(name) for name in PUBLISHERS.added}
    if found.partition is not None:
        said["partition"]["inputs"] = [_input_as_json(one) for one in found.partition.inputs]
    return said


def _input_as_json(one: Input) -> dict[str, Any]:
    from mirrorlake.models.compile.dependencies import ModelInput
    from mirrorlake.models.external_sources.tables import ExternalInput

    if isinstance(one, ModelInput):
        return {"table": one.table, "partitions": list(one.keys), "all": not one.bounded}
    if isinstance(one, ExternalInput):
        mentions = [{name: str(values) for name, values in said} for said in one.mentions]
        return {"table": one.table, "mentions": mentions, "all": not one.bounded}
    days = [[lo and lo.isoformat(), hi and hi.isoformat()] for lo, hi in one.days]
    return {"table": one.table, "column": one.column, "days": days, "all": not one.bounded}


def _print(found: ShownModel) -> None:
    console = shown.console
    kind = f"{found.materialized}, {found.owner}" if found.owner else found.materialized
    console.print(f"{escape(found.name)} ({escape(kind)}): {escape(found.path)}")
    if found.description:
        console.print(escape(found.description))
    table = shown.table("column", "type", "NULL", "made of…")
    for column in found.columns:
        origins = "the partition" if column.partition else ", ".join(column.made_of) or "-"
        null = "yes" if column.nullable else "no"
        table.add_row(escape(column.name), escape(column.type), null, escape(origins))
    console.print(table)
    if found.partition_by:
        by, ends = ", ".join(found.partition_by), f"{found.first} to {found.last}"
        console.print(f"{plural(found.partitions, 'partition')} by {by}: {escape(ends)}")
    if found.retention is not None:
        words = f"Kept for {found.retention}: {found.gone:,} are no longer kept"
        console.print(f"{words}, {found.to_drop:,} of these still in the table.", highlight=False)
    _print_state(found)
    console.print(f"Reads {escape(', '.join(found.reads) or 'no table')}.")
    if found.read_by:
        console.print(f"Read by {escape(', '.join(found.read_by))}.")
    if found.streams:
        console.print(_streams_table(found.streams))
    for words in found.warnings:
        console.print(f"Warning: {escape(words)}", highlight=False, soft_wrap=True)
    if found.partition is not None:
        _print_partition(found.partition)


def _print_state(found: ShownModel) -> None:
    """How many partitions are computed, at which cut others would be, and what is elsewhere."""
    console = shown.console
    console.print(f"State: {_counts(found.states)}.", highlight=False)
    if words := read_words(found.cut, found.cut_at, found.why_main):
        words = f"A run {words}"
        console.print(escape(words), highlight=False, soft_wrap=True)
    for name, there in found.published.items():
        words = there.error or ("-" if there.rows is None else plural(there.rows, "row"))
        title = PUBLISHERS.added[name].title
        console.print(f"In {title}: {there.state}, {escape(words)}.", highlight=False)


def _streams_table(streams: Sequence[StreamPrice]) -> Table:
    """What a look at a stream view reads of each table."""
    table = shown.table("streams", "folded MB", "not folded", "added MB", "what…")
    for one in streams:
        waiting = "-" if one.waiting is None else plural(one.waiting, "load")
        sizes = (f"{one.folded_bytes / 1e6:,.2f}", waiting, f"{one.added_bytes / 1e6:,.2f}")
        words = f"no loads to add: {one.why_none}" if one.why_none else "with its newest loads"
        table.add_row(escape(one.table), *sizes, words)
    return table


_STATES = ("computed", "stale", "missing", "missed")


def _counts(states: Mapping[str, int]) -> str:
    words = (f"{states[one]:,} {one}" for one in _STATES if one in states)
    return ", ".join(words) or "-"


def _print_partition(found: ShownPartition) -> None:
    console = shown.console
    why = f": {found.why}" if found.why else ""
    console.print(f"Partition {found.key or '(the only one)'} is {found.state}{why}.", markup=False)
    if found.cut_at is not None:
        words = f"It is of cut {found.cut}, as of {found.cut_at:%Y-%m-%d %H:%M:%S} UTC."
        console.print(escape(words), highlight=False, soft_wrap=True)
    if found.scope:
        table = shown.table("name", "value", "type")
        for one in found.scope:
            table.add_row(escape(one.name), escape(one.value), one.type)
        console.print(table)
    table = shown.table("reads", "partitions…", "state")
    for one in found.inputs:
        counts = _counts(found.states.get(one.table, {}))
        table.add_row(escape(one.table), escape(_partitions_of(one)), counts)
    console.print(table)
    if found.readers:
        table = shown.table("read by", "partitions…", "state")
        for name, keys in found.readers.items():
            table.add_row(escape(name), escape(shown.compressed(keys)), _counts(found.states[name]))
        console.print(table)


def _partitions_of(one: Input) -> str:
    from mirrorlake.models.compile.dependencies import ModelInput
    from mirrorlake.models.external_sources.tables import ExternalInput

    if isinstance(one, ExternalInput):
        if not one.bounded:
            return "all"
        said = (", ".join(f"{name} {values}" for name, values in m) for m in one.mentions)
        return "; ".join(dict.fromkeys(said)) or "none"
    if isinstance(one, ModelInput):
        words = shown.compressed(one.keys)
        return words if one.bounded or len(one.keys) < 2 else f"all: {words}"
    if not one.bounded:
        return "all" if one.column is None else f"all days of {one.column}"
    if not one.days:
        return "none"
    return f"{one.column}: " + ", ".join(_period(lo, hi) for lo, hi in one.days)


def _period(first: date | None, last: date | None) -> str:
    if first == last and first is not None:
        return first.isoformat()
    if first is None or last is None:
        return f"until {last}" if first is None else f"from {first}"
    return f"{first} to {last}"


@click.command("run", short_help="Compute partitions of a model that are missing or stale.")
@click.argument("model")
@click.argument("values", nargs=-1, metavar="[NAME=VALUE]…")
@shown.config_option
@shown.json_option
@click.option("--upstream", is_flag=True, help="Compute the models that it reads first.")
@click.option("--again", is_flag=True, help="Compute partitions that need nothing, too.")
@click.option("--rebuild", is_flag=True, help="Make its table again, if its columns changed.")
@click.option("--dry-run", is_flag=True, help="Say what would be computed, and compute nothing.")
@click.option("--cut", metavar="NAME", help="Read mirrored tables at this cut; none: at main.")
def run_command(
    model: str,
    values: tuple[str, ...],
    config_path: Path,
    as_json: bool,
    upstream: bool,
    again: bool,
    rebuild: bool,
    dry_run: bool,
    cut: str | None,
) -> None:
    """Compute the partitions of a SQL model that are missing or stale.

    NAME=VALUE chooses some: `mirrorlake run shop.sales store=Paris` all of one store. A model with
    `publish: [lake, bigquery]` is loaded into BigQuery then.

    With --cut, partitions that were computed from later than that cut stay as they are, but for
    those that NAME=VALUE chooses.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.models.bigquery.published import published_models
    from mirrorlake.models.compute.run import run_model, with_those_above
    from mirrorlake.models.contract_models import compile_project, scopes_of
    from mirrorlake.models.partition_states.drop_expired import gone_keys
    from mirrorlake.models.partition_states.states import States
    from mirrorlake.workspace import Workspace

    wanted, config = shown.as_values(values), open_contract(config_path)
    runs: list[ModelRun] = []
    ran: list[Declaration] = []
    failed: ExpectationFailed | None = None
    with Workspace.open(config) as workspace, Bars(shown.errors, quiet=as_json) as bars:
        project, catalogue = compile_project(config, workspace.lake)
        chosen = project.model(model)
        models = with_those_above(project.models, chosen.name) if upstream else [chosen]
        sets_back = {chosen.name} if cut is not None and wanted else set[str]()
        states = States(project, catalogue, workspace.lake, workspace.ledger, cut, sets_back)
        states.readings.refuse_main(models)
        for one in models:
            scopes = scopes_of(one, wanted if one is chosen else {})
            if dry_run:
                due = [states.of(one, scope) for scope in scopes]
                _print_due(one.name, due, gone_keys(workspace.lake, one), as_json=as_json)
                continue
            watch = bars.count(one.name, len(scopes))
            flags = {"again": again, "rebuild": rebuild}
            ran.append(one.declaration)
            try:
                runs.append(run_model(workspace, states, one, scopes, **flags, watch=watch))
            except ExpectationFailed as error:
                failed = error
                runs.append(error.run)
                break
    loaded, failures = publish_all(config, published_models(ran))
    if not dry_run:
        _print_runs(runs, loaded, as_json=as_json)
    if failed is not None:
        raise failed
    if failures:
        raise failures[0][1]


def _print_runs(runs: Sequence[ModelRun], loaded: Loaded, *, as_json: bool) -> None:
    if as_json:
        there: dict[str, dict[str, Any]] = {}
        for name, done in loaded.items():
            for one in done:
                there.setdefault(one.table, {})[name] = asdict(one)
        shown.print_json([asdict(one) | there.get(f"model {one.model}", {}) for one in runs])
        return
    shown.console.print(runs_table(runs))
    for one in runs:
        for words in one.warnings:
            said = f"Warning: {one.model} {words}"
            shown.console.print(escape(said), highlight=False, soft_wrap=True)
        if words := read_words(one.cut, one.cut_at, one.why_main):
            shown.console.print(escape(f"{one.model} {words}"), highlight=False, soft_wrap=True)
    print_published(loaded)


def read_words(cut: str | None, at: datetime | None, why_main: str) -> str:
    """At which cut mirrored tables are read, or why each is at main; empty where nobody would read
    a cut."""
    if cut is not None:
        return f"reads cut {cut}, as of {at:%Y-%m-%d %H:%M:%S} UTC."
    return f"reads what each table shows now: {why_main}." if why_main else ""


def runs_table(runs: Sequence[ModelRun]) -> Table:
    """What runs did, a line for each model; a view has no rows of its own. What was missed or
    dropped has a column only where there is any: the others fit on a screen of 80."""
    counted = {
        "computed": [len(one.computed) for one in runs],
        "unchanged": [one.unchanged for one in runs],
        "missed": [one.missed for one in runs],
        "dropped": [one.dropped for one in runs],
    }
    for name in ("missed", "dropped"):
        if not any(counted[name]):
            del counted[name]
    table = shown.table("model", *counted, "rows", "seconds")
    for one, *counts in zip(runs, *counted.values(), strict=True):
        rows = sum(part.rows for part in one.computed)
        seconds = sum(part.seconds for part in one.computed)
        cells = (*(f"{n:,}" for n in counts), "-" if one.is_view else f"{rows:,}")
        table.add_row(escape(one.model), *cells, f"{seconds:,.1f}")
    return table


def _print_due(
    model: str, states: Sequence[PartitionState], gone: Sequence[str], *, as_json: bool
) -> None:
    if as_json:
        partitions = [asdict(one) for one in states]
        shown.print_json({"model": model, "partitions": partitions, "to_drop": list(gone)})
        return
    table = shown.table("partition", "state", "why…")
    for one in states:
        if one.word != "computed":
            table.add_row(escape(f"{model} {one.key}".strip()), one.word, escape(one.why))
    computed = sum(one.word == "computed" for one in states)
    if computed < len(states):
        shown.console.print(table)
    shown.console.print(f"{escape(model)}: {computed:,} of {len(states):,} computed.")
    if gone:
        shown.console.print(
            f"{plural(len(gone), 'partition')} that are no longer kept would be dropped."
        )
