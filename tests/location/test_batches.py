"""Batches: one for a run however often it is tried, cancelled with it, no secret in what is sent."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from dagster._core.errors import DagsterExecutionInterruptedError

from dagster_mirrorlake.batches import (
    BatchState,
    BatchWork,
    DataprocBatches,
    build_batch_job,
)
from dagster_mirrorlake.batches import job as batch_job
from dagster_mirrorlake.batches.messages import FileMessages
from dagster_mirrorlake.batches.secrets import read_secrets
from dagster_mirrorlake.batches.service import batch_of
from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError, MachineError
from tests.integration.contract_files import write_contract
from tests.support.dataproc_server import Dataproc, dataproc_server

NAME = "mirrorlake-r-1"
SECRETS = {"SHOP_PASSWORD": "projects/p-1/secrets/shop/versions/latest"}


@pytest.fixture
def dataproc(monkeypatch: pytest.MonkeyPatch) -> Iterator[Dataproc]:
    monkeypatch.setattr("googleapiclient.http._sleep", lambda *_: None, raising=False)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with dataproc_server() as there:
        yield there


@pytest.fixture
def batches(dataproc: Dataproc) -> DataprocBatches:
    return DataprocBatches(
        project="p-1",
        region="europe-west3",
        config="/opt/mirrorlake/mirrorlake.yaml",
        image="europe-docker.pkg.dev/p-1/images/mirrorlake:1",
        bucket="batches",
        runtime="3.0",
        service_account="batches@p-1.iam.gserviceaccount.com",
        secrets=SECRETS,
        jars=("file:///opt/mirrorlake/jars/iceberg.jar",),
        properties={"spark.executor.instances": "2"},
        endpoint=dataproc.url,
    )


# --- what is requested of Dataproc ------------------------------------------------------------------


def test_what_is_requested(batches: DataprocBatches, dataproc: Dataproc) -> None:
    batches.start(NAME, ["--dagster-pipes-context", "x"])
    assert dataproc.bodies == [
        {
            "pysparkBatch": {
                "mainPythonFileUri": "file:///opt/mirrorlake/batch.py",
                "args": ["--dagster-pipes-context", "x"],
                "jarFileUris": ["file:///opt/mirrorlake/jars/iceberg.jar"],
            },
            "runtimeConfig": {
                "version": "3.0",
                "containerImage": "europe-docker.pkg.dev/p-1/images/mirrorlake:1",
                "properties": {"spark.executor.instances": "2"},
            },
            "environmentConfig": {
                "executionConfig": {
                    "serviceAccount": "batches@p-1.iam.gserviceaccount.com",
                    "ttl": "86400s",
                }
            },
            "labels": {"made-by": "mirrorlake"},
        }
    ]
    # There already, or asked again after an answer that was lost: one batch.
    batches.start(NAME, [])
    dataproc.broken = 1
    batches.start("mirrorlake-r-2", [])
    assert len(dataproc.bodies) == 2


def test_states(batches: DataprocBatches, dataproc: Dataproc) -> None:
    assert batches.look(NAME) is None
    batches.start(NAME, [])
    for there, state in [
        ("PENDING", "open"),
        ("RUNNING", "open"),
        ("CANCELLING", "open"),
        ("STATE_UNSPECIFIED", "open"),
        ("CANCELLED", "failed"),
        ("FAILED", "failed"),
        ("SUCCEEDED", "succeeded"),
    ]:
        dataproc.batches[NAME]["state"] = there
        assert batches.look(NAME) == state
    batches.cancel(NAME)
    assert dataproc.cancelled == [f"projects/p-1/regions/europe-west3/operations/{NAME}"]


def test_an_answer_that_says_nothing_is_an_error(
    batches: DataprocBatches, dataproc: Dataproc
) -> None:
    dataproc.broken = 99
    with pytest.raises(MachineError, match="Dataproc refused it \\(503\\)") as caught:
        batches.look(NAME)
    assert caught.value.retryable
    with pytest.raises(MachineError, match="can't be reached") as lost:
        replace(batches, endpoint="http://127.0.0.1:9").look(NAME)
    assert lost.value.retryable


def test_a_retry_finds_its_batch(batches: DataprocBatches, dataproc: Dataproc) -> None:
    assert batch_of(batches, "r") == ("mirrorlake-r-1", None)
    batches.start("mirrorlake-r-1", [])
    assert batch_of(batches, "r") == ("mirrorlake-r-1", "open")
    dataproc.batches["mirrorlake-r-1"]["state"] = "FAILED"
    assert batch_of(batches, "r") == ("mirrorlake-r-2", None)
    dataproc.batches["mirrorlake-r-1"]["state"] = "SUCCEEDED"
    assert batch_of(batches, "r") == ("mirrorlake-r-1", "succeeded")


# --- a run -----------------------------------------------------------------------------------------


@dataclass
class Scripted:
    """Batches of which it is written what each look shows, over real messages."""

    folder: Path
    states: list[Any]
    says: tuple[dict[str, Any], ...] = ()
    config: str = "mirrorlake.yaml"
    secrets: dict[str, str] = field(default_factory=lambda: dict(SECRETS))
    poll_seconds: float = 0
    started: list[tuple[str, list[str]]] = field(default_factory=list[Any])
    cancelled: list[str] = field(default_factory=list[str])

    def look(self, name: str) -> BatchState | None:
        assert name
        state = self.states.pop(0)
        if isinstance(state, BaseException):
            raise state
        if state == "succeeded":
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            lines = [self._line("opened", {"extras": {}})]
            lines += [self._line("report_custom_message", {"payload": one}) for one in self.says]
            lines += [self._line("closed", {})]
            (self.folder / name).write_text("".join(lines), "utf-8")
        return state

    def _line(self, method: str, params: dict[str, Any]) -> str:
        said = {"__dagster_pipes_version": "0.1", "method": method, "params": params}
        return json.dumps(said) + "\n"

    def start(self, name: str, arguments: list[str]) -> None:
        self.started.append((name, arguments))

    def why(self, name: str) -> str:
        return f"{name} ran out of memory"

    def cancel(self, name: str) -> None:
        self.cancelled.append(name)

    def messages(self, name: str) -> dg.PipesMessageReader:
        return FileMessages(self.folder / name)


@pytest.fixture
def contracts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    for name in ("TEST_HASH_KEY", "TEST_PASSWORD"):
        monkeypatch.setenv(name, "x" * 32)
    # Dagster waits so long for what a batch that died may have said.
    monkeypatch.setattr("dagster._core.pipes.utils.WAIT_FOR_LOGS_AFTER_EXECUTION_INTERVAL", 0)
    tables = {name: {"mode": "full", "key": ["id"]} for name in ("orders", "kinds")}
    return load_config(write_contract(tmp_path / "mirrorlake.yaml", 1, {"db": {"tables": tables}}))


def outcome(table: str, **more: Any) -> dict[str, Any]:
    return {"table": table, "outcome": "synced", "words": "3 rows", "metadata": {}, **more}


def run(contracts: Config, batches: Any, **config: Any) -> Any:
    job = build_batch_job(contracts, batches)
    return job.execute_in_process(
        run_config={"ops": {"in_a_batch_step": {"config": config}}}, raise_on_error=False
    )


def test_a_run_reports_what_its_batch_says(contracts: Config, tmp_path: Path) -> None:
    names = [one.name for one in contracts.tables]
    says = tuple(outcome(name, failed=False) for name in names)
    there = Scripted(tmp_path / "said", [None, "open", "open", "succeeded"], says)
    found = run(contracts, there)
    assert found.success
    ((name, arguments),) = there.started
    assert name == f"mirrorlake-{found.run_id}-1"
    # What a batch is started with names secrets, and has none.
    sent = zlib.decompress(base64.b64decode(arguments[1])).decode()
    context = json.loads(sent)["data"]
    assert context["extras"]["secrets"] == SECRETS
    assert context["extras"]["work"]["tables"] == names
    (output,) = [one for one in found.all_events if one.is_successful_output]
    assert output.step_output_data.metadata["tables in all"].value == len(names)


@pytest.mark.full
def test_a_table_of_which_nothing_is_said_is_no_success(contracts: Config, tmp_path: Path) -> None:
    there = Scripted(tmp_path / "said", [None, "succeeded"])
    there.says = (outcome("other", failed=False),)
    assert "nothing says what became of" in message(run(contracts, there))
    (one, *_) = contracts.tables
    there = Scripted(tmp_path / "more", [None, "succeeded"])
    there.says = tuple(outcome(t.name, failed=t is one) for t in contracts.tables)
    assert f"table {one.name}: synced: 3 rows" in message(run(contracts, there))


def message(found: Any) -> str:
    assert not found.success
    (failure,) = [one for one in found.all_events if one.is_step_failure]
    return str(failure.step_failure_data.user_failure_data.description)


@pytest.mark.full
def test_a_batch_that_is_there_is_not_started_again(contracts: Config, tmp_path: Path) -> None:
    says = tuple(outcome(one.name, failed=False) for one in contracts.tables)
    there = Scripted(tmp_path / "said", ["open", "succeeded"], says)
    assert run(contracts, there).success
    assert there.started == []
    # After one that failed in this run, the next is another batch.
    there = Scripted(tmp_path / "more", ["failed", None, "succeeded"], says)
    found = run(contracts, there)
    assert [name for name, _ in there.started] == [f"mirrorlake-{found.run_id}-2"]


@pytest.mark.full
def test_looks_that_fail_leave_the_batch_alone(
    contracts: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = MachineError("Dataproc can't be reached", retryable=True)
    says = tuple(outcome(one.name, failed=False) for one in contracts.tables)
    there = Scripted(tmp_path / "said", [None, lost, lost, "open", lost, "succeeded"], says)
    assert run(contracts, there).success
    monkeypatch.setattr(batch_job, "LOOKS", 2)
    monkeypatch.setattr("dagster_mirrorlake.resources.failures.RETRIES", 0)
    there = Scripted(tmp_path / "more", [None, lost, lost], says)
    assert not run(contracts, there).success
    assert there.cancelled == []


@pytest.mark.full
def test_a_run_that_is_cancelled_cancels_its_batch(contracts: Config, tmp_path: Path) -> None:
    there = Scripted(tmp_path / "said", [None, "open", DagsterExecutionInterruptedError()])
    assert not run(contracts, there).success
    assert there.cancelled == [there.started[0][0]]


@pytest.mark.full
def test_a_batch_that_failed_says_why(contracts: Config, tmp_path: Path) -> None:
    found = run(contracts, Scripted(tmp_path / "said", [None, "failed"]))
    assert message(found).endswith(f"mirrorlake-{found.run_id}-1 ran out of memory")
    assert "is not one of sync" in message(run(contracts, Scripted(tmp_path, []), task="x"))


# --- secrets ---------------------------------------------------------------------------------------


def test_secrets_are_read_where_the_batch_runs() -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == f"/v1/{SECRETS['SHOP_PASSWORD']}:access"
            said = {"payload": {"data": base64.b64encode("pä ss".encode()).decode()}}
            self.send_response(200 if known else 403)
            self.end_headers()
            self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    place = f"http://127.0.0.1:{server.server_port}"
    assert read_secrets({}, place) == {}
    assert read_secrets(SECRETS, place) == {"SHOP_PASSWORD": "pä ss"}
    with pytest.raises(
        ConfigError, match="the secret projects/p/secrets/x of X can't be read: 403"
    ):
        read_secrets({"X": "projects/p/secrets/x"}, place)
    server.shutdown()
    server.server_close()


def test_extras_are_a_work_again() -> None:
    work = BatchWork("backfill", ("s.d.t",), "2024-01-01", missing_too=True)
    said = json.loads(json.dumps(work.extras("c", {})))
    assert replace(BatchWork(**said["work"]), tables=("s.d.t",)) == work
