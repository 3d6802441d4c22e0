"""A JVM that lives long has room for all that Spark compiles: hundreds of different plans, in a
Spark Connect server as docs/deploy.md starts one, and in a process that goes on syncing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.daemon import connect_server
from mirrorlake.operations.doctor import diagnose_contract
from mirrorlake.runtime.java import CODE_CACHE
from tests.integration.contract_files import write_contract
from tests.support.many_plans import run_plans

FULL = "CodeCache is full"
ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from mirrorlake.config.settings import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark import LazySpark
from tests.support.many_plans import run_plans

run_plans(LazySpark(SparkConfig(), Lake(LakeConfig(warehouse=sys.argv[1]))).get())
"""
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def config_file(folder: Path, port: int, **spark: str) -> Path:
    databases = {"d": {"tables": {"t": {"mode": "full", "key": ["id"]}}}}
    return write_contract(folder / "mirrorlake.yaml", port, databases, spark=spark)


@pytest.mark.parametrize(
    ("options", "is_full"), [(CODE_CACHE, False), ("-XX:ReservedCodeCacheSize=24m", True)]
)
def test_a_connect_server_compiles_for_as_long_as_it_lives(
    tmp_path: Path, options: str, is_full: bool, place: object
) -> None:
    """A small one says the line: so this would be seen."""
    path = config_file(tmp_path, 1)
    with connect_server(path, options) as url:
        config_file(tmp_path, 1, connect=url)
        (piece,) = [p for p in diagnose_contract(path) if p.name == "Spark Connect"]
        assert piece.state == "ok"
        assert ("for compiled code" in piece.detail) is is_full
        session = SparkSession.builder.remote(url).create()
        log = tmp_path / "connect.log"
        run_plans(session, lambda: FULL in log.read_text(errors="replace"))
        session.stop()
    assert (FULL in log.read_text(errors="replace")) is is_full


def test_a_process_that_goes_on_syncing_compiles_for_as_long_as_it_lives(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "lake")],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert FULL not in ran.stdout + ran.stderr
