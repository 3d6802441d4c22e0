"""What a sync does not import before it needs it."""

from __future__ import annotations

import subprocess
import sys

SYNC = """
import sys
import mirrorlake.operations.loading.sync_tables
sys.exit(" ".join(name for name in sys.modules if ".mysql.binlog" in name) or None)
"""


def test_a_sync_whose_tables_follow_no_log_imports_no_decoder() -> None:
    subprocess.run([sys.executable, "-c", SYNC], check=True)
