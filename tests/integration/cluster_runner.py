"""One load in small chunks, in a process whose Spark is its own: ``cluster_runner CONFIG ROWS``."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

from mirrorlake.config import load_config
from mirrorlake.load.chunks import runner
from mirrorlake.load.protocol import protocol
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.workspace import Workspace


def main(config: Path, rows_per_chunk: int) -> None:
    logging.basicConfig(level=logging.INFO)
    protocol.ROWS_PER_CHUNK = 4 * rows_per_chunk  # of tasks of Spark a quarter
    seen: list[Any] = []
    run = runner._run_on_spark

    def counted(*arguments: Any) -> Any:
        seen.append(arguments)
        return run(*arguments)

    runner._run_on_spark = counted
    loaded = load_config(config)
    with Workspace.open(loaded) as workspace:
        result = load_table(workspace, loaded.tables[0])
    print(f"{result.rows} rows; chunks on Spark: {len(seen)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
