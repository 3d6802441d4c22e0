"""The command that runs the tests of models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.markup import escape

from mirrorlake.cli import show as shown
from mirrorlake.cli.contract import open_contract
from mirrorlake.cli.reports import DIFFERENT
from mirrorlake.runtime.plural import plural

if TYPE_CHECKING:
    from mirrorlake.config.configuration import Config
    from mirrorlake.models.testing.run_tests import FoundTests, ModelTestResult

_MOST_ROWS = 20


@click.command("test", short_help="Run the tests of SQL models.")
@click.argument("model", required=False)
@shown.config_option
@shown.json_option
def test_command(model: str | None, config_path: Path, as_json: bool) -> None:
    """Run the tests of SQL models: of MODEL, or of all.

    Each query runs on Spark, over the rows that the test gives. Lake, ledger and sources are left
    alone.
    """
    from mirrorlake.cli.bars import Bars
    from mirrorlake.models.testing import run_tests as testing

    config = open_contract(config_path)
    found = _found(config, model)
    results: list[ModelTestResult] = []
    if found.ready:
        with Bars(shown.errors, quiet=as_json) as bars:
            done = bars.count("tests", len(found.ready))
            with testing.local_session(config) as spark:
                results = testing.run_tests(spark, found.ready, done)
    if as_json:
        shown.print_json([asdict(one) for one in results])
    else:
        _print(results, model)
    if any(one.outcome != "passed" for one in results):
        sys.exit(DIFFERENT)


def _found(config: Config, model: str | None) -> FoundTests:
    """The tests that are meant.

    Raises:
        ModelError: one does not fit its model, or there is no such model.
    """
    from mirrorlake.models.contract_models import compile_offline, models_folder
    from mirrorlake.models.testing.run_tests import find_tests

    with compile_offline(config) as (project, catalogue, declarations):
        if model is not None and model.lower() not in declarations:
            project.model(model)  # says what there is
        name = model.lower() if model is not None else None
        found = find_tests(models_folder(config), project, catalogue, declarations, name)
    found.raise_problems()
    return found


def _print(results: Sequence[ModelTestResult], model: str | None) -> None:
    console = shown.console
    if not results:
        of = f"{escape(model)} has" if model is not None else "The models have"
        console.print(f"{of} no tests: nothing was tested.")
        return
    table = shown.table("model", "test", "outcome", "rows", "seconds", "compared…")
    for one in results:
        color = "green" if one.outcome == "passed" else "red"
        table.add_row(
            escape(one.model),
            escape(one.name),
            f"[{color}]{one.outcome}[/]",
            f"{one.rows:,}",
            f"{one.seconds:,.1f}",
            escape(_compared(one)),
        )
    console.print(table)
    for one in results:
        if one.outcome != "passed":
            _print_failed(one)
    passed = sum(one.outcome == "passed" for one in results)
    console.print(f"{passed:,} of {len(results):,} passed.")


def _compared(one: ModelTestResult) -> str:
    if one.outcome == "error":
        return "nothing"
    total = len(one.compared) + len(one.left_out)
    return "all columns" if not one.left_out else f"{', '.join(one.compared)} (of {total})"


def _print_failed(one: ModelTestResult) -> None:
    console = shown.console
    head = f"{one.place}: {one.model} {one.name}"
    if one.outcome == "error":
        console.print(f"{escape(head)}: {escape(one.words)}", highlight=False, soft_wrap=True)
        return
    counts = f"{plural(one.expected_rows, 'row')} expected, {one.rows:,} given"
    words = one.words or f"{len(one.missing):,} missing, {len(one.extra):,} extra"
    console.print(f"{escape(head)}: {counts}: {words}", highlight=False, soft_wrap=True)
    table = shown.table("", *map(escape, one.compared))
    for number, (what, row) in enumerate(_side_by_side(one)):
        if number >= 2 * _MOST_ROWS:
            break
        table.add_row(what, *map(escape, row))
    console.print(table)
    hidden = len(one.missing) + len(one.extra) - 2 * _MOST_ROWS
    if hidden > 0:
        console.print(f"… and {hidden:,} more")


def _side_by_side(one: ModelTestResult) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Missing and extra rows; each missing one before the extra one that is most like it."""
    if one.words:  # the order is what differs
        yield from (("expected", row) for row in one.missing)
        yield from (("given", row) for row in one.extra)
        return
    left = list(one.extra)
    for row in one.missing:
        yield "missing", row
        if left:
            like = max(left, key=lambda other: _alike(row, other))
            if _alike(row, like):
                left.remove(like)
                yield "extra", like
    yield from (("extra", row) for row in left)


def _alike(row: tuple[str, ...], other: tuple[str, ...]) -> int:
    return sum(a == b for a, b in zip(row, other, strict=True))
