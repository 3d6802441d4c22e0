"""What a sync does not import before it needs it."""

from __future__ import annotations

import subprocess
import sys

SYNC = """
import sys
from mirrorlake.runtime.pandas_imports import import_arrow_alone, use_pandas
import_arrow_alone()
import mirrorlake.operations.loading.sync_tables
from mirrorlake.ledger import Ledger
Ledger("sqlite://")
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


def test_a_sync_imports_only_what_it_needs() -> None:
    """No decoder where no table follows a log, no client of a REST server, and no pandas; which
    PyArrow knows again before Spark hands it Series."""
    subprocess.run([sys.executable, "-c", SYNC + NONE + PANDAS], check=True)
