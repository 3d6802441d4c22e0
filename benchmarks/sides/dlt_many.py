"""dlt's sql_database with its connectorx backend over all tables of a database, to Parquet files:
one run of one pipeline, in a process of its own. Runs in dlt's own environment, by path.

    python dlt_many.py mysql://user:password@host:port database folder
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import dlt
from dlt.destinations import filesystem
from dlt.sources.sql_database import sql_database


def copy(url: str, database: str, folder: Path) -> int:
    """Every table, replaced; how many rows came."""
    rows: Any = sql_database(
        url.replace("mysql://", "mysql+pymysql://") + f"/{database}",
        backend="connectorx",
        reflection_level="full_with_precision",
        backend_kwargs={"conn": f"{url}/{database}"},
    )
    pipeline = dlt.pipeline(
        pipeline_name=database,
        pipelines_dir=str(folder / "state"),
        destination=filesystem(bucket_url=f"file://{folder / 'out'}"),
        dataset_name=database,
    )
    pipeline.run(rows, loader_file_format="parquet", write_disposition="replace")
    counts = pipeline.last_trace.last_normalize_info.row_counts
    return sum(n for name, n in counts.items() if not name.startswith("_dlt"))


if __name__ == "__main__":
    print(copy(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
