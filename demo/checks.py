"""Dagster's checks over the demo's lake: a run of its own, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from mirrorlake.config import Config

_SHORT_LIVED = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.sql.codegen.wholeStage=false"
    " -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
)


CLONE = Path(__file__).resolve().parents[1]
"""The clone that this package runs from: it is in no wheel."""


def run_checks(config: Config, console: Console) -> bool:
    """Materialise all chains under Dagster and run all their checks; whether none is red.

    Without Dagster nothing is run, and that is said.
    """
    if find_spec("dagster") is None:
        console.print("Dagster's checks were not run: they need what `make setup` installs.")
        return True
    environment = {**os.environ, "MIRRORLAKE_CONFIG": str(config.path)}
    # One short run: compiling its plans would cost more than they save.
    environment.setdefault("SPARK_SUBMIT_OPTS", _SHORT_LIVED)
    # Dagster would write its instance into the folder that a shell happened to name.
    environment.pop("DAGSTER_HOME", None)
    command = [sys.executable, "-m", "tools.dagster_checks"]
    return subprocess.run(command, cwd=CLONE, env=environment, check=False).returncode == 0
