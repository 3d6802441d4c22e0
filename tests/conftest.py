"""What every kind of test shares: a JVM for short lives, and two workers that start the longest
first."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from demo.mariadb import MariaDB

# How fast examples are made says how busy the machine is, not whether the code is right. Tests'
# own settings begin from this profile; `make test` tries fewer examples than `make test-full`.
settings.register_profile("mirrorlake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", settings.get_profile("mirrorlake"), max_examples=40)
settings.load_profile("mirrorlake")

# A test's JVM ends before the optimising compiler has paid for itself, and so do Spark's compiled
# plans: together half of the suite's CPU time went there. `make demo` and users' runs have Java's
# own choice, and compiled plans; `make test-full` has the plans.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"

# Files that take longest, in this order; all others follow as they come, units last. A worker takes
# a file at a time: one that starts late would leave the other idle.
LONGEST = (
    "location/test_chain.py",
    "integration/operations/test_mirror.py",
    "ui/test_browser.py",
    "integration/load/test_crashes.py",
    "integration/load/test_clusters.py",
    "integration/operations/test_bad_input.py",
)


# What is written here need not outlive the machine: no test cuts its power, and one that kills a
# process finds what that wrote. With all flushes a worker waited for the disk a tenth of its time (a
# table of MariaDB's took 20 ms to make, 1 without).
MariaDB.tuning = (*MariaDB.tuning, "--debug-no-sync")


@sa.event.listens_for(sa.Engine, "connect")
def _write_without_flushing(connection: Any, _: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


class FilesTogether(LoadFileScheduling):
    """A worker takes a file at a time; those of `tests/ui` are one file to it, as they look at one
    UI, which takes a minute to start."""

    def _split_scope(self, nodeid: str) -> str:
        return "tests/ui" if nodeid.startswith("tests/ui/") else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether | None:
    return FilesTogether(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Before any JVM starts; a worker has its own call, with the same options."""
    quick = config.getoption("-m") == "not full"
    options = f"{SHORT_LIVED} {INTERPRETED}" if quick else SHORT_LIVED
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
    if quick:
        settings.load_profile("quick")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the files; the tests of one file keep their own order."""
    items.sort(key=lambda item: _rank(item.nodeid))


def _rank(node: str) -> tuple[int, bool]:
    for rank, name in enumerate(LONGEST):
        if name in node:
            return rank, False
    return len(LONGEST), "/unit/" in node
