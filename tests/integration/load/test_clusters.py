"""Chunk tasks on a real standalone cluster and through Spark Connect, and workers that are killed.

Master, Worker and the Connect server are processes of pip's pyspark; they share nothing with the
driver but storage. Each load is compared with MySQL by the oracle.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.runtime.embedded.server import free_port
from mirrorlake.workspace import Workspace
from tests.integration.contract_files import write_contract
from tests.integration.lakes import open_to_others
from tests.support.gcs_process import emulator_process
from tests.support.spark_cluster import spark_class, standalone_cluster, stop, wait_for

ROWS = 60_000
CONTRACT = {"mode": "append", "key": ["id"], "cursor": "id"}


@pytest.fixture
def rows(sql: Callable[..., Any]) -> None:
    sql(
        "CREATE TABLE big (id BIGINT PRIMARY KEY, name VARCHAR(60), price DECIMAL(12,2), d DATE)",
        "INSERT INTO big SELECT seq, CONCAT('name ', seq), seq / 7, "
        f"DATE '2024-01-01' + INTERVAL seq % 900 DAY FROM seq_1_to_{ROWS}",
        "ANALYZE TABLE big",
    )


def assert_exact(config: Path, server: Any, database: str) -> None:
    """Raw holds every row once: what was read twice or not at all would be told."""
    workspace = Workspace.open(load_config(config))
    contract = workspace.config.tables[0]
    (path,) = workspace.lake.catalog.list_tables(contract.namespaces.raw)
    table = workspace.lake.load(Identifier(*path))
    assert table is not None
    found = table.scan(selected_fields=("id", "name", "price", "d")).to_arrow()
    with server.admin(database) as admin, admin.cursor() as cursor:
        cursor.execute("SELECT id, name, price, d FROM big ORDER BY id")
        expected = list(cursor.fetchall())
    rows = found.sort_by("id").to_pydict()
    assert list(zip(*(rows[c] for c in ("id", "name", "price", "d")), strict=True)) == expected
    local = [path for name in ("lake", "ledger.db") if (path := config.parent / name).exists()]
    assert open_to_others(*local) == {}


def job_of(config: Path) -> str:
    """The job that the ledger names for the load."""
    workspace = Workspace.open(load_config(config))
    (load,) = workspace.ledger.successful_loads(workspace.config.tables[0].name)
    return str(load.job_id)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A standalone cluster on loopback: its address."""
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster.address


@pytest.fixture(scope="module")
def connect(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Spark Connect server of its own: its URL."""
    folder = tmp_path_factory.mktemp("connect")
    port, log = free_port(), folder / "connect.log"
    service = "org.apache.spark.sql.connect.service.SparkConnectServer"
    server = spark_class(
        "org.apache.spark.deploy.SparkSubmit",
        *("--class", service, "--master", "local[2]", "--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.connect.grpc.binding.port={port}", "spark-internal"),
        log=log,
    )
    wait_for(port, log)
    yield f"sc://127.0.0.1:{port}"
    stop(server)


Loader = Callable[..., tuple[Path, "subprocess.Popen[str]"]]


@pytest.fixture
def load(server: Any, place: Any, database: str, rows: None, tmp_path: Path) -> Iterator[Loader]:
    """Begin a load in chunks of 6,000 rows by a process of its own, with these Spark settings."""
    begun: list[subprocess.Popen[str]] = []

    def begin(spark: dict[str, Any], **sections: Any) -> tuple[Path, subprocess.Popen[str]]:
        config = write_contract(
            tmp_path / "mirrorlake.yaml",
            server.port,
            {database: {"tables": {"big": CONTRACT}}},
            spark=spark,
            **sections,
        )
        command = [sys.executable, "-m", "tests.integration.cluster_runner", str(config), "6000"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        begun.append(process)
        return config, process

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.mark.full
def test_spark_connect(load: Loader, connect: str, server: Any, database: str) -> None:
    config, process = load({"connect": connect})
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert "chunks on Spark: 1" in said
    assert "writes files that are open wider than lake.permissions: private" in said
    assert_exact(config, server, database)
    assert re.fullmatch(r"local-\d+", job_of(config))


@pytest.mark.full
@pytest.mark.parametrize("kills", [1, 10])
def test_a_standalone_cluster_whose_workers_are_killed(
    load: Loader, master: str, server: Any, database: str, kills: int
) -> None:
    """Each kill hits a Python worker of an executor; what others read is not read again."""
    config, process = load({"master": master})
    killed: set[int] = set()
    while len(killed) < kills and process.poll() is None:
        for pid in busy_workers() - killed:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            break
        time.sleep(0.2)
    said, _ = process.communicate(timeout=280)
    assert process.returncode == 0, said
    assert len(killed) == kills, (killed, said)
    assert "chunks on Spark: 1" in said
    assert "open wider" not in said
    assert_exact(config, server, database)
    assert re.fullmatch(r"app-\d+-\d+", job_of(config))


@pytest.mark.full
def test_workers_write_into_a_bucket(load: Loader, master: str, server: Any, database: str) -> None:
    with emulator_process("company-lake") as host:
        catalog = {"uri": "sqlite:///catalog.db", "properties": {"gcs.service.host": host}}
        config, process = load(
            {"master": master}, lake={"warehouse": "gs://company-lake/mirror", "catalog": catalog}
        )
        said, _ = process.communicate(timeout=280)
        assert process.returncode == 0, said
        assert "chunks on Spark: 1" in said
        assert_exact(config, server, database)
        assert not list(config.parent.rglob("*.parquet"))


def busy_workers() -> set[int]:
    """Python workers of a cluster's executors: children of a `pyspark.daemon`."""
    parents: dict[int, int] = {}
    daemons: set[int] = set()
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with suppress(OSError, IndexError):
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ")
            folder_of = (folder / "cwd").readlink()
            # Only our own cluster's: others run Spark on this machine too.
            if b"pyspark.daemon" in command and "cluster" in str(folder_of):
                daemons.add(int(folder.name))
                parents[int(folder.name)] = int(
                    (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
                )
    return {pid for pid in daemons if parents[pid] in daemons}
