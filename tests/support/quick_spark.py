"""Spark as `make test` has it: a statement is planned once and is one job.

By itself Spark plans a statement again behind each of its shuffles, each of them a job, and puts the
few rows that tests have into one partition: a quarter of the JVM's CPU time went there. `make
test-full` has Spark's own way, as users do.
"""

from __future__ import annotations

import os

from mirrorlake.destinations.iceberg.spark.settings import LOCAL

MARK = "TESTS_PLAN_ONCE"
SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "1"}


def plan_once() -> None:
    """For the rest of this process's life, and of those that look for `MARK` in its environment."""
    os.environ[MARK] = "yes"
    LOCAL.update(SETTINGS)
