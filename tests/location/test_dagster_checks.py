"""The run of every check that ends ``make demo ONCE=1``: what counts as green, and for real."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.checks import run_checks, verdicts
from dagster_mirrorlake.location import load_definitions
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.conftest import ROOT, Location
from tools.dagster_checks import FAILED, NOT_RUN, PASSED, WARNED, is_green, outcomes

ASSET = dg.AssetKey(["deduped", "s", "d", "t"])
KEYS = [dg.AssetCheckKey(ASSET, name) for name in ("contract", "unique_key")]
ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


def said(
    name: str, passed: bool, severity: dg.AssetCheckSeverity = ERROR, day: str | None = None
) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=ASSET, check_name=name, passed=passed, severity=severity, partition=day,
        description=None if passed else "words",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("evaluations", "states", "green"),
    [
        ([said("contract", True), said("unique_key", True)], [PASSED, PASSED], True),
        ([said("contract", True), said("unique_key", False, WARN)], [PASSED, WARNED], True),
        ([said("contract", False), said("unique_key", True)], [FAILED, PASSED], False),
        ([said("contract", True)], [PASSED, NOT_RUN], False),
        ([], [NOT_RUN, NOT_RUN], False),
        # A day that is fine does not hide the verdict of the whole check.
        (
            [said("contract", True, day="2026-01-01"), said("contract", False),
             said("unique_key", True)],
            [FAILED, PASSED], False,
        ),
    ],
)  # fmt: skip
def test_a_check_that_is_red_or_did_not_run_is_not_green(
    evaluations: list[dg.AssetCheckEvaluation], states: list[str], green: bool
) -> None:
    found = outcomes(KEYS, evaluations)
    assert [found[key].state for key in KEYS] == states
    assert is_green(found, ()) is green
    assert not is_green(found, ["raw failed: no server"])


def test_no_check_at_all_is_not_green() -> None:
    assert not is_green({}, ())


def test_an_exception_inside_a_check_fails_its_step_and_is_no_verdict(
    contract_file: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of any kind; the layer's other checks are still recorded."""

    def bug(_: verdicts.Look) -> verdicts.CheckVerdict:
        raise ZeroDivisionError

    monkeypatch.setitem(run_checks._VERDICTS, "gaps", bug)
    path = contract_file({"d": {"tables": {"t": {"mode": "full", "key": ["id"]}}}})
    definitions = load_definitions(path)
    asset = dg.AssetKey(["raw", "s", "d", "t"])
    keys = [dg.AssetCheckKey(asset, name) for name in ("gaps", "originals")]
    job = dg.define_asset_job("raw_checks", dg.AssetSelection.checks(*keys)).resolve(
        asset_graph=definitions.get_repository_def().asset_graph
    )
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(
            instance=instance, resources=dict(definitions.resources or {}), raise_on_error=False
        )
    found = outcomes(keys, result.get_asset_check_evaluations())
    assert [found[key].state for key in keys] == [NOT_RUN, PASSED]
    [failed] = [e for e in result.all_events if e.is_step_failure]
    assert "ZeroDivisionError" in str(failed.step_failure_data.error)


@pytest.mark.full
@pytest.mark.timeout(900)
def test_every_check_of_every_table_runs(
    server: MariaDB, location_for: Callable[[dict[str, Any]], Location]
) -> None:
    """Two tables, green; then one is gone, and what was not checked is not green."""
    with server.admin() as admin, admin.cursor() as cursor:
        for statement in (
            "CREATE DATABASE every CHARACTER SET utf8mb4",
            "CREATE TABLE every.big (id BIGINT UNSIGNED PRIMARY KEY, m MEDIUMINT UNSIGNED)",
            "INSERT INTO every.big VALUES (0, 0), (18446744073709551615, 16777215)",
            "CREATE TABLE every.log (word VARCHAR(9))",
            "INSERT INTO every.log VALUES ('a'), ('a'), (NULL)",
        ):
            cursor.execute(statement)
    tables = {"big": {"mode": "full", "key": ["id"]}, "log": {"mode": "full"}}
    location = location_for({"every": {"tables": tables}})
    code, out = _run(location)
    assert code == 0, out
    assert "21 of 21 checks passed" in out
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("DROP TABLE every.log")
    code, out = _run(location)
    assert code == 1
    assert "raw__s__every__log failed" in out
    assert "NOT GREEN" in out


def _run(location: Location) -> tuple[int, str]:
    environment = {**os.environ, "MIRRORLAKE_CONFIG": str(location.path), "COLUMNS": "200"}
    ran = subprocess.run(
        [sys.executable, "-m", "tools.dagster_checks"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr[-3000:]
