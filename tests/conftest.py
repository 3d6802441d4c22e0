"""What every kind of test shares: a JVM for short lives, and workers that start the longest
first."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.mariadb_files import LAYOUT
from tests.support.brought_servers import MARIADB, MYSQL, brought_files, version_of
from tests.support.mysql8 import MySQL8
from tests.support.quick_spark import plan_once
from tests.support.unflushed import JAVA, write_unflushed

# How fast examples are made says how busy the machine is, not whether the code is right. Tests'
# own settings begin from this profile; `make test` tries fewer examples than `make test-full`.
settings.register_profile("mirrorlake", deadline=None, suppress_health_check=[HealthCheck.too_slow])
QUICK_EXAMPLES = 40
settings.register_profile("quick", settings.get_profile("mirrorlake"), max_examples=QUICK_EXAMPLES)
settings.load_profile("mirrorlake")

# A test's JVM ends before the optimising compiler has paid for itself, and so do Spark's compiled
# plans: together half of the suite's CPU time went there. A tenth went into collecting garbage, of a
# young generation of 120 MB. `make demo` and users' runs have Java's own choice, and compiled plans;
# `make test-full` has the plans.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmn384m"
INTERPRETED = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"

# Files that one worker takes one after the other, so that what they share is started once: a process
# with a JVM beside the tests and Dagster's UI, emulators of Google's services, runs that are killed.
TOGETHER = (
    ("tests/location/", "tests/ui/"),
    ("load/test_crashes.py", "load/test_resume.py", "operations/test_two_runs.py"),
    ("integration/bigquery/", "integration/permissions/"),
)
# They take longest and come first, in this order; then these, all others as they come, units last.
# One that starts late would leave the other workers idle.
LONGEST = (
    *("integration/operations/test_mirror.py", "integration/load/test_clusters.py"),  # in full runs
    *("integration/cuts/", "integration/operations/test_tenants.py"),
)

SETTINGS = "_hypothesis_internal_use_settings"  # where `@settings` leaves a test's own

# A table of MariaDB's took 20 ms to make, 1 without flushes.
MariaDB.tuning = (*MariaDB.tuning, "--debug-no-sync")
if brought := brought_files(MARIADB, LAYOUT):
    MariaDB.find_files = staticmethod(lambda: brought)  # type: ignore[method-assign]
write_unflushed()

# By what a test is given one of the two servers, and who may bring another in its place.
BROUGHT = (((MariaDB, "mariadb"), MARIADB), ((MySQL8, "mysql8"), MYSQL))


class FilesTogether(LoadFileScheduling):
    """A worker takes a file at a time, or those of `TOGETHER` as if they were one."""

    def _split_scope(self, nodeid: str) -> str:
        rank = _rank(nodeid)[0]
        return TOGETHER[rank][0] if rank < len(TOGETHER) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether | None:
    return FilesTogether(config, log) if config.getoption("dist") == "loadfile" else None


def pytest_configure(config: pytest.Config) -> None:
    """Before any JVM starts; a worker has its own call, with the same options."""
    # A shell has those that it begins in the background ignore Ctrl-C, and all that they start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    quick = config.getoption("-m") == "not full"
    options = f"{SHORT_LIVED} {JAVA} {INTERPRETED}" if quick else f"{SHORT_LIVED} {JAVA}"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
    if quick:
        settings.load_profile("quick")
        plan_once()
    gc.disable()


def pytest_make_parametrize_id(config: pytest.Config, val: Any, argname: str) -> str | None:
    """A test's name has the version of a server that was brought."""
    for values, variable in BROUGHT:
        if any(val is value or (isinstance(val, str) and val == value) for value in values):
            version = version_of(variable)
            return version and f"{values[1].rstrip('8')}-{version}"
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files; the tests of one file keep their own order."""
    items.sort(key=lambda item: _rank(item.nodeid))
    if config.getoption("-m") == "not full":
        for item in items:
            _limit_examples(item)


def _limit_examples(item: pytest.Item) -> None:
    """A test that asks for many examples has them in `make test-full`."""
    test = getattr(getattr(item, "obj", None), "hypothesis", None) and item.function  # type: ignore[attr-defined]
    own = getattr(test, SETTINGS, None)
    if own is not None and own.max_examples > QUICK_EXAMPLES:
        setattr(test, SETTINGS, settings(own, max_examples=QUICK_EXAMPLES))


def pytest_collection_finish() -> None:
    """Thousands of tests and all imports stay: no later collection looks at them."""
    gc.collect()
    gc.freeze()
    gc.enable()


def _rank(node: str) -> tuple[int, bool]:
    order = (*TOGETHER, *((name,) for name in LONGEST))
    for rank, names in enumerate(order):
        if any(name in node for name in names):
            return rank, False
    return len(order), "/unit/" in node
