"""What a sync does not import before it needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SYNC = """
import sys
from mirrorlake.runtime.pandas_imports import hide_pandas, use_pandas
hide_pandas()
import mirrorlake.operations.loading.sync_tables
from mirrorlake.ledger import Ledger
Ledger("sqlite://")
"""
FILES = """
import pyarrow as pa, pyarrow.parquet as pq
from mirrorlake.destinations.base import LocalFiles
from mirrorlake.proof.forms.canonical import Form
from mirrorlake.proof.sides.duckdb_forms import FileRows, hashes_in_file, tally_files
from mirrorlake.sources.mysql.tables import Column
column = Column("id", 1, "int", "int", False, *[None] * 6, "", "")
cells, path = [(column, Form("id", "int", "", "", "", ""))], sys.argv[1]
pq.write_table(pa.table({"id": pa.array([7, 8], pa.int32())}), path)
(found,) = hashes_in_file(cells, [0], FileRows(path, 1, None, ["id"]), None)
assert found[1] == [b"8"], found
assert tally_files(cells, LocalFiles((path,), frozenset(["id"])), ["id"], None).rows == 2
"""
NONE = """
for part in ("mirrorlake.sources.mysql.binlog", "pyiceberg.catalog.rest", "requests", "pandas"):
    found = [name for name in sys.modules if name.startswith(part)]
    assert not found, found
"""
PANDAS = """
import pyarrow as pa
early = pa.array([1.0, None])
use_pandas()
import pandas as pd
assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
assert pa.array(pd.Series(["a", None])).equals(pa.array(["a", None]))
assert early.to_pandas().isna().tolist() == [False, True]
"""


def test_a_sync_imports_only_what_it_needs(tmp_path: Path) -> None:
    """No decoder where no table follows a log, no client of a REST server, and no pandas; which
    PyArrow knows again before Spark hands it Series."""
    asked = [sys.executable, "-c", SYNC + FILES + NONE + PANDAS, str(tmp_path / "it's.parquet")]
    subprocess.run(asked, check=True)
