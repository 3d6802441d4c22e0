"""Which tables have processes of their own, decided before anything of a sync is imported."""

from __future__ import annotations

import subprocess
import sys

from mirrorlake.merge.small_fold import SMALL_COPY
from mirrorlake.operations.loading.workers import SMALL_ROWS

_HEAVY = """
import sys
import mirrorlake.operations.loading.workers
for name in ("pyiceberg", "pyarrow", "duckdb", "mirrorlake.operations.loading.sync"):
    assert name not in sys.modules, name
"""


def test_a_table_for_a_worker_is_one_that_needs_no_spark() -> None:
    """The fold's number is beside what is imported later."""
    assert SMALL_ROWS == SMALL_COPY


def test_the_decision_imports_nothing_of_a_sync() -> None:
    subprocess.run([sys.executable, "-c", _HEAVY], check=True)
