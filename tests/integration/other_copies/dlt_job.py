"""Tables copied by dlt to Parquet files, one pipeline each. Runs in dlt's own environment, by path:
nothing of Mirrorlake is there. Prints JSON: table → why it failed, '' where it did not."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import dlt
from dlt.destinations import filesystem
from dlt.sources.sql_database import sql_table

_BACKENDS: dict[str, dict[str, Any]] = {"sqlalchemy": {}, "pyarrow": {}, "connectorx": {}}


def copy(url: str, table: str, folder: Path, backend: str) -> None:
    """One pipeline run, into a data set of the backend's name."""
    options = {"conn": url.replace("mysql+pymysql", "mysql")} if backend == "connectorx" else {}
    rows: Any = sql_table(
        url,
        table=table,
        backend=backend,  # type: ignore[arg-type]
        reflection_level="full_with_precision",
        backend_kwargs=options,
    )
    pipeline = dlt.pipeline(
        pipeline_name=f"{backend}_{table}",
        pipelines_dir=str(folder / "state"),
        destination=filesystem(bucket_url=f"file://{folder / 'out'}"),
        dataset_name=backend,
    )
    pipeline.run(rows, loader_file_format="parquet", write_disposition="replace")


def main() -> None:
    url, folder, backend, *tables = sys.argv[1:]
    logging.disable(logging.CRITICAL)
    failed: dict[str, str] = {}
    for table in tables:
        try:
            copy(url, table, Path(folder), backend)
            failed[table] = ""
        except BaseException as error:  # noqa: BLE001 – connectorx panics
            failed[table] = str(error).strip().splitlines()[-1][:200]
    print(json.dumps(failed))


if __name__ == "__main__":
    main()
