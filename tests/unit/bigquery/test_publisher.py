"""What a sync costs that publishes nothing."""

from __future__ import annotations

import subprocess
import sys

SYNC_OF_NONE = """
import sys
from mirrorlake.bigquery.publisher import BIGQUERY
from mirrorlake.config import Config, TableContract
contract = TableContract.model_construct(publish=())
done = BIGQUERY.publish(Config.model_construct(), [contract])
assert not done.results and not done.failures
sys.exit(" ".join({"google.cloud.bigquery", "pyiceberg", "sqlglot"} & {*sys.modules}) or None)
"""


def test_a_sync_that_publishes_nothing_imports_neither_googles_client_nor_a_parser_of_sql() -> None:
    subprocess.run([sys.executable, "-c", SYNC_OF_NONE], check=True)
