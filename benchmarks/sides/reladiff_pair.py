"""reladiff over one table: MySQL beside DuckDB, which holds the mirror's rows. Runs in an
environment of its own, on its standard input's JSON; prints seconds and how many rows differ."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main() -> None:
    """Fill DuckDB from a Parquet file once, then compare."""
    import duckdb
    import reladiff

    job: dict[str, Any] = json.loads(sys.stdin.read())
    file = Path(job["folder"]) / "mirror.duckdb"
    file.unlink(missing_ok=True)
    with duckdb.connect(str(file)) as mirror:
        mirror.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{job['parquet']}')")
    started = time.perf_counter()
    sides = (
        (job["mysql"], job["table"]),
        ({"driver": "duckdb", "filepath": str(file)}, "t"),
    )
    segments = [
        reladiff.connect_to_table(
            database, table, tuple(job["key"]), extra_columns=tuple(job["columns"])
        )
        for database, table in sides
    ]
    differing = list(reladiff.diff_tables(*segments, max_threadpool_size=2))
    result = {"seconds": time.perf_counter() - started, "differing": len(differing)}
    print(json.dumps(result))


if __name__ == "__main__":
    main()
