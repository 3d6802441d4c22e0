"""Materialise every chain of a contract file in one run of Dagster, run every check, and say what
each one found: ``MIRRORLAKE_CONFIG=… python -m tools.dagster_checks``.

What ``make demo ONCE=1`` ends with. The run is a real one, of the definitions that the code
location serves: same steps, same blocking checks, one JVM for all tables. Exit code 1 if a check
is red, was not run, or a step failed.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import dagster as dg
from dagster_shared.error import SerializableErrorInfo
from rich import box
from rich.console import Console
from rich.table import Table

from dagster_mirrorlake.checks.series import BY_DAY
from dagster_mirrorlake.location import config_path, load_definitions
from dagster_mirrorlake.sensors.requests import RANGE_END, RANGE_START, open_copies
from dagster_mirrorlake.table import MirroredTable, mirrored_tables
from mirrorlake.config import load_config

LAYERS = ("raw", "deduped", "clean")
PASSED, WARNED, FAILED, NOT_RUN = "passed", "warned", "failed", "not run"
_COLOURS = {PASSED: "green", WARNED: "yellow", FAILED: "red", NOT_RUN: "red"}
_RED = (FAILED, NOT_RUN)


@dataclass(frozen=True)
class Found:
    """What became of one check; ``words`` say why it did not pass."""

    state: str
    words: str = ""


def outcomes(
    expected: Iterable[dg.AssetCheckKey], evaluations: Iterable[dg.AssetCheckEvaluation]
) -> dict[dg.AssetCheckKey, Found]:
    """Every expected check with what it found; one that reported nothing was not run."""
    found = {key: Found(NOT_RUN) for key in expected}
    for one in evaluations:
        # Its days come first, and the verdict of the whole check last.
        found[one.asset_check_key] = _found(one)
    return found


def is_green(found: Mapping[dg.AssetCheckKey, Found], failed_steps: Sequence[str]) -> bool:
    """Whether all checks ran, none is red, and no step failed. Warnings are no red."""
    return bool(found) and not failed_steps and all(f.state not in _RED for f in found.values())


def main() -> int:
    console = Console()
    path = config_path()
    definitions, tables = load_definitions(path), mirrored_tables(load_config(path).tables)
    if not tables:
        console.print(f"{path} names no table: nothing to check")
        return 1
    keys = [key for table in tables for key in table.chain_keys]
    console.print(f"Dagster: {len(tables)} chains and their checks, in one run …")
    started = time.monotonic()
    day = datetime.now(UTC).date()
    with dg.DagsterInstance.ephemeral() as instance:
        open_copies(instance, tables, day)
        result = definitions.resolve_implicit_global_asset_job_def().execute_in_process(
            instance=instance,
            asset_selection=keys,
            tags={RANGE_START: str(day), RANGE_END: str(day)},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            raise_on_error=False,
        )
    found = outcomes(_expected(definitions, keys), result.get_asset_check_evaluations())
    failed = _failed_steps(result)
    console.print(_table(tables, found))
    for check, one in sorted(found.items(), key=lambda item: str(item[0])):
        if one.state != PASSED:
            name = f"{check.asset_key.to_user_string()} {check.name}"
            console.print(f"{name} {one.state}: {one.words}", markup=False, highlight=False)
    for words in failed:
        console.print(words, markup=False, highlight=False)
    green = is_green(found, failed)
    passed = sum(one.state == PASSED for one in found.values())
    console.print(
        f"{passed} of {len(found)} checks passed in {time.monotonic() - started:.1f} s: "
        + ("[green]none is red ✓[/]" if green else "[red]NOT GREEN ✗[/]"),
        highlight=False,
    )
    return 0 if green else 1


def _found(evaluation: dg.AssetCheckEvaluation) -> Found:
    if evaluation.passed:
        return Found(PASSED)
    warned = evaluation.severity == dg.AssetCheckSeverity.WARN
    return Found(WARNED if warned else FAILED, evaluation.description or "")


def _expected(definitions: dg.Definitions, keys: Sequence[dg.AssetKey]) -> set[dg.AssetCheckKey]:
    """Those of whole tables: what is said of days is said of those that there is something to say
    of."""
    checks = definitions.resolve_asset_graph().asset_check_keys
    return {c for c in checks if c.asset_key in set(keys) and not c.name.endswith(BY_DAY)}


def _failed_steps(result: dg.ExecuteInProcessResult) -> list[str]:
    failed: list[str] = []
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            failure = data.user_failure_data
            cause = (failure and failure.description) or _first_cause(data.error)
            failed.append(f"{event.step_key} failed: {cause.strip()}")
    return failed


def _first_cause(error: SerializableErrorInfo | None) -> str:
    """The message of what was raised first: Dagster's own only says that there was an error."""
    while error is not None and error.cause is not None:
        error = error.cause
    return error.message if error is not None else "unknown"


def _table(tables: Sequence[MirroredTable], found: Mapping[dg.AssetCheckKey, Found]) -> Table:
    """A line per chain: how many checks of each layer came to what."""
    table = Table("table", *LAYERS, box=box.SIMPLE_HEAD)
    for one in tables:
        cells: list[str] = []
        for key in one.chain_keys:
            states = Counter(one.state for check, one in found.items() if check.asset_key == key)
            parts = [f"[{_COLOURS[s]}]{states[s]} {s}[/]" for s in _COLOURS if states[s]]
            cells.append(", ".join(parts))
        table.add_row(one.contract.name, *cells)
    return table


if __name__ == "__main__":
    sys.exit(main())
