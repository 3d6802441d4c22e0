"""``python -m tests.soak --rounds N --seed S``: the soak from the command line."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import HASH_KEY, PASSWORD, USER
from tests.integration.contract_files import write_contract
from tests.soak import report
from tests.soak.kills import deal
from tests.soak.runs import Runner
from tests.soak.soak import Soak, Source

PER_EPISODE = 25


def run(rounds: int, seed: int, folder: Path) -> Soak:
    """So many rounds in episodes, on a server, a lake and a JVM of their own."""
    # A JVM that is to be killed soon is better off without the optimising compiler.
    os.environ.setdefault(
        "SPARK_SUBMIT_OPTS",
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    )
    os.environ["TEST_PASSWORD"], os.environ["TEST_HASH_KEY"] = PASSWORD, HASH_KEY
    source = Source(MariaDB.start(folder / "mysql"))
    runner = Runner(folder / "runner")
    try:
        source.server.create_user(USER, PASSWORD)
        lake = Lake(load_config(write_contract(folder / "none.yaml", 1, {})).lake)
        soak = Soak(folder, lake, source, runner, HASH_KEY.encode())
        kills = deal(rounds, seed)
        for first in range(0, rounds, PER_EPISODE):
            soak.episode(kills[first : first + PER_EPISODE], seed + first, _say)
        return soak
    finally:
        runner.stop()
        source.stop()


def soak_result(rounds: int, seed: int, folder: Path) -> dict[str, Any]:
    """A soak from start to end, as its report has it."""
    started = time.monotonic()
    soak = run(rounds, seed, folder)
    return report.result_of(soak, rounds, seed, time.monotonic() - started)


def _say(line: str) -> None:
    print(line, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="write docs/reliability.md again")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ml-soak-"))
    result = soak_result(options.rounds, options.seed, folder)
    print(report.text_of(result))
    if options.record:
        report.record(result)
    if report.is_good(result):
        shutil.rmtree(folder)
        return 0
    print(f"What was killed is in {folder}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
