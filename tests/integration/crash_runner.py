"""A process that forks one child per order, to be killed: imports and the JVM are paid for once.

Reads one JSON object a line from standard input: ``config``, ``table``, ``failpoint``, ``spark``
(whether the child will need Spark), ``reload`` (a day to load again, '' for a sync, ``refold``) and
perhaps ``rows_per_chunk``; answers with the child's exit code, negative for a signal. A child
is killed between two of its commands to the JVM, so the next child finds the JVM idle. In the real
command line the JVM dies with its Python process; `test_crashes` kills that one too.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from datetime import date
from pathlib import Path
from typing import Any

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark import LazySpark
from mirrorlake.load import protocol
from mirrorlake.operations.fold import fold_table
from mirrorlake.operations.refold import refold_table
from mirrorlake.operations.sync import reload_days, sync_table
from mirrorlake.proof import loaded
from mirrorlake.workspace import Workspace

REFOLD = "refold"


def run(order: dict[str, Any], spark: LazySpark | None) -> None:
    os.environ["MIRRORLAKE_FAILPOINT"] = order["failpoint"]
    if order["failpoint"].startswith("branch."):
        loaded.LOCAL_ROWS = 0  # a small load needs no branch
    protocol.ROWS_PER_CHUNK = order.get("rows_per_chunk", protocol.ROWS_PER_CHUNK)
    protocol.CHUNK_ROWS = order.get("rows_per_chunk", protocol.CHUNK_ROWS)
    config = load_config(Path(order["config"]))
    workspace, contract = Workspace.open(config, spark=spark), config.table(order["table"])
    if order["reload"] == REFOLD:
        refold_table(workspace, contract)
    elif order["reload"]:
        day = date.fromisoformat(order["reload"])
        reload_days(workspace, contract, day, day)
        fold_table(workspace, contract)
    else:
        sync_table(workspace, contract)


def main() -> None:
    spark: LazySpark | None = None
    # Java warns on standard output, too: there the codes alone are expected.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    for line in sys.stdin:
        order = json.loads(line)
        if order["spark"] and spark is None:
            config = load_config(Path(order["config"]))
            spark = LazySpark(config.spark, Lake(config.lake))
            spark.get()
        pid = os.fork()
        if pid == 0:
            try:
                run(order, spark)
            except BaseException:  # noqa: BLE001 - nothing of the parent's may run in the child
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)
    if spark is not None:
        spark.stop()


if __name__ == "__main__":
    main()
