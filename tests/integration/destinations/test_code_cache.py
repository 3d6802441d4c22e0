"""A JVM that lives long has room for all that Spark compiles: hundreds of different plans, in a
Spark Connect server as docs/deploy.md starts one, and in a process that goes on syncing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.daemon import connect_server
from mirrorlake.runtime.java import CODE_CACHE
from tests.integration.contract_files import write_contract
from tests.support.command import COMMAND

FULL = "CodeCache is full"
ROOT = Path(__file__).parents[3]
# Processes of their own: a client of Spark Connect changes how its process starts any session.
ATTACHED = f"""
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from tests.support.many_plans import run_plans

log = Path(sys.argv[2])
session = SparkSession.builder.remote(sys.argv[1]).create()
run_plans(session, lambda: "{FULL}" in log.read_text(errors="replace"))
session.stop()
"""
ITS_OWN = """
import sys
from mirrorlake.config.settings import LakeConfig, SparkConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.session import LazySpark
from tests.support.many_plans import run_plans

run_plans(LazySpark(SparkConfig(), Lake(LakeConfig(warehouse=sys.argv[1]))).get())
"""
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


def config_file(folder: Path, **spark: str) -> Path:
    databases = {"d": {"tables": {"t": {"mode": "full", "key": ["id"]}}}}
    return write_contract(folder / "mirrorlake.yaml", 1, databases, spark=spark)


def ran(program: str, *arguments: object) -> str:
    """What a program printed, which ended well."""
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("options", "is_full"), [(CODE_CACHE, False), ("-XX:ReservedCodeCacheSize=24m", True)]
)
def test_a_connect_server_compiles_for_as_long_as_it_lives(
    tmp_path: Path, options: str, is_full: bool, place: object
) -> None:
    """A small one says the line: so this would be seen. `doctor` says which one is small."""
    path, log = config_file(tmp_path), tmp_path / "connect.log"
    with connect_server(path, options) as url:
        config_file(tmp_path, connect=url)
        command = [*COMMAND, "doctor", "--json", "--config", str(path)]
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        pieces = json.loads(said.stdout)
        (piece,) = [one for one in pieces if one["name"] == "Spark Connect"]
        assert piece["state"] == "ok"
        assert ("for compiled code" in piece["detail"]) is is_full
        ran(ATTACHED, url, log)
    assert (FULL in log.read_text(errors="replace")) is is_full


def test_a_process_that_goes_on_syncing_compiles_for_as_long_as_it_lives(tmp_path: Path) -> None:
    assert FULL not in ran(ITS_OWN, tmp_path / "lake")
