"""dlt's sql_table with its connectorx backend, to Parquet files. Runs in dlt's own environment, by
path: nothing of Mirrorlake is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dlt
from dlt.destinations import filesystem
from dlt.sources.sql_database import sql_table
from job import Job, serve


def copy(job: Job) -> int:
    """One pipeline run, with a state and a data set of its own."""
    folder = Path(job.folder)
    url = job.url.replace("mysql://", "mysql+pymysql://") + f"/{job.database}"
    rows: Any = sql_table(
        url,
        table=job.table,
        backend="connectorx",
        reflection_level="full_with_precision",
        backend_kwargs={"conn": f"{job.url}/{job.database}"},
    )
    name = f"run{job.run}_{job.table}"
    pipeline = dlt.pipeline(
        pipeline_name=name,
        pipelines_dir=str(folder / "state"),
        destination=filesystem(bucket_url=f"file://{folder / 'out'}"),
        dataset_name=name,
    )
    pipeline.run(rows, loader_file_format="parquet", write_disposition="replace")
    counts = pipeline.last_trace.last_normalize_info.row_counts
    return int(counts[job.table])


if __name__ == "__main__":
    serve(copy)
