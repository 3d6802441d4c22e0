"""Runs of the benchmark `scale-runs`, as threads of one process: ``runs_at_once CONTRACT TABLE…``.

Each opens ledger, catalog and lake for itself, as a process would, and syncs one table; prints what
became of each as JSON: seconds, and the error's kind and words, both empty where it ended well.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mirrorlake.config import Config, load_config
from mirrorlake.errors import MirrorlakeError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.loading.unchanged import look_at
from mirrorlake.workspace import Workspace


def main(path: str, names: list[str]) -> None:
    config = load_config(Path(path))
    print("ready", flush=True)
    sys.stdin.readline()
    together = threading.Barrier(len(names))
    with ThreadPoolExecutor(len(names)) as pool:
        found = pool.map(lambda name: _run(config, name, together), names)
        print(json.dumps(list(found)))


def _run(config: Config, name: str, together: threading.Barrier) -> tuple[float, str, str]:
    together.wait()
    begun = time.monotonic()
    contract = config.table(name)
    try:
        with Workspace.open(config) as workspace:
            look = look_at(config, workspace.ledger, [contract])
            sync_table(workspace, contract, look=look)
    except MirrorlakeError as error:
        return time.monotonic() - begun, type(error).__name__, str(error)
    return time.monotonic() - begun, "", ""


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
