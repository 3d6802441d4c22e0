"""A table that another run holds is waited for, longer than an error is retried, by every kind of
step; waiting uses up no retry. And no sensor waits for another."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_mirrorlake.jobs.each import Act, Done, run_each
from dagster_mirrorlake.resources import failures
from dagster_mirrorlake.resources.failures import RETRIES, dagster_errors
from dagster_mirrorlake.table import MirroredTable
from mirrorlake.config import load_config
from mirrorlake.errors import LedgerError, SourceError
from mirrorlake.ledger import Ledger

HELD = RETRIES + 2


class Work:
    """Takes a table's lease, which another run has for some attempts; then two errors of the source
    that pass by themselves."""

    def __init__(self, folder: Path) -> None:
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
        self.attempts = 0

    def __call__(self) -> None:
        self.attempts += 1
        if self.attempts <= HELD:
            with self.ledger.lease("s.d.t", "another"), self.ledger.lease("s.d.t", "this"):
                raise AssertionError("two have it")
        if self.attempts <= HELD + 2:
            raise SourceError("gone away", retryable=True)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    monkeypatch.setattr(failures, "WAIT_SECONDS", 0)
    return Work(tmp_path)


def test_an_asset_waits(work: Work) -> None:
    @dg.asset
    def one(context: dg.AssetExecutionContext) -> None:
        with dagster_errors(context):
            work()

    assert dg.materialize([one]).success
    assert work.attempts == HELD + 3


def test_an_op_waits(work: Work) -> None:
    @dg.op
    def one(context: dg.OpExecutionContext) -> None:
        with dagster_errors(context):
            work()

    @dg.job
    def job() -> None:
        one()

    assert job.execute_in_process().success


def test_a_check_waits_for_the_table_and_repeats_nothing_else(work: Work) -> None:
    @dg.asset
    def one() -> None: ...

    @dg.asset_check(asset=one)
    def equal(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with dagster_errors(context.op_execution_context, only_held=True):
            work()
        return dg.AssetCheckResult(passed=True)

    assert not dg.materialize([one, equal], raise_on_error=False).success
    assert work.attempts == HELD + 1


def test_a_job_over_tables_waits(work: Work, contract_file: Callable[[Any], Path]) -> None:
    contracts = load_config(
        contract_file({"d": {"tables": {"t": {"mode": "full", "key": ["id"]}}}})
    )
    (table,) = (MirroredTable(contract) for contract in contracts.tables)

    def act(table: MirroredTable) -> Act:
        work()
        yield from ()
        return Done(table.contract.name, "done")

    done: list[Done] = []

    @dg.op
    def each(context: dg.OpExecutionContext) -> None:
        found = run_each(context, [table], act)
        try:
            while True:
                next(found)
        except StopIteration as end:
            done.extend(end.value)

    @dg.job
    def job() -> None:
        each()

    assert job.execute_in_process().success
    assert [one.outcome for one in done] == ["done"]


def test_an_error_that_stays_is_tried_three_times_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "WAIT_SECONDS", 0)
    attempts: list[Any] = []

    @dg.asset
    def one(context: dg.AssetExecutionContext) -> None:
        with dagster_errors(context):
            attempts.append(context.retry_number)
            raise LedgerError("locked", retryable=True)

    assert not dg.materialize([one], raise_on_error=False).success
    assert attempts == [0, 1, 2, 3]


def test_each_sensor_and_schedule_has_a_thread(tmp_path: Path) -> None:
    """Dagster's daemon looks at them one after the other by itself."""
    shutil.copy(Path(__file__).parents[2] / "dagster.yaml", tmp_path)
    with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
        for settings in (instance.get_sensor_settings(), instance.get_scheduler_settings()):
            assert settings["use_threads"]
            assert settings["num_workers"] >= 4
