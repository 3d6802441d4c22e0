"""PySpark's packages import one another in circles: threads that need it first need it one by one."""

from __future__ import annotations

import subprocess
import sys

import pytest

AT_ONCE = """
import sys, threading
from mirrorlake.destinations.iceberg.spark.session import import_pyspark, spark_errors
sys.setswitchinterval(1e-5)
start, failed = threading.Barrier(4), []

def translated():
    with spark_errors("t"):
        pass

def errors():
    import_pyspark()
    from pyspark.errors import PySparkException

def session():
    import_pyspark()
    from pyspark.sql import SparkSession

def functions():
    import_pyspark()
    from pyspark.sql import functions

def run(needs):
    start.wait()
    try:
        needs()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=run, args=(needs,)) for needs in (translated, errors, session, functions)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(failed) if failed else 0)
"""


@pytest.mark.parametrize("number", [0, *(pytest.param(n, marks=pytest.mark.full) for n in (1, 2))])
def test_threads_that_need_pyspark_first_all_get_the_whole_of_it(number: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", AT_ONCE], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
