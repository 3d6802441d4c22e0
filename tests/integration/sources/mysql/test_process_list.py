"""What anybody on the machine can read of the processes that we start: no secret."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from mirrorlake.runtime.cache import cache_folder
from mirrorlake.sources.mysql.reading.lock_watch import Guard
from mirrorlake.sources.mysql.reading.route import open_route
from mirrorlake.workspace import Workspace
from tests.integration.conftest import HASH_KEY, PASSWORD, STORE_SECRET, Place


def descendants(pid: int) -> dict[int, str]:
    """The command line of every process that a process started, and of theirs."""
    parents: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            fields = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        parents[int(place.name)] = int(fields[1])
    found: dict[int, str] = {}
    for child in parents:
        line, above = [child], parents.get(child, 0)
        while above not in (0, pid):
            line.append(above)
            above = parents.get(above, 0)
        if above == pid:
            try:
                words = Path(f"/proc/{child}/cmdline").read_bytes()
            except OSError:
                continue
            found[child] = words.decode(errors="replace").replace("\0", " ")
    return found


def helpers(found: dict[int, str]) -> int:
    return sum("helper_program.main" in words for words in found.values())


def _wait_until(reached: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not reached() and time.monotonic() < until:
        time.sleep(0.05)


def test_no_command_line_shows_a_secret(
    place: Place, database: str, engine_for: Callable[..., Workspace]
) -> None:
    """Spark's JVM with its Python workers, the process that carries rows, and the one that watches
    them. Their environment is the user's own to read, as is ours."""
    session = place.spark.get()
    session.range(0, 1, 1, 1).mapInPandas(lambda batches: batches, "id long").collect()
    source = engine_for({}).config.sources["s"]
    # One that an earlier test had may be at its last look: only the program that makes them stays.
    _wait_until(lambda: helpers(descendants(os.getpid())) <= 1)
    with open_route(source, database, near=True), Guard(source, database, "t", "l1"):
        # A watcher is made while we go on.
        _wait_until(lambda: helpers(descendants(os.getpid())) >= 3)
        found = descendants(os.getpid())
    for program in ("java", "pyspark"):
        assert any(program in words for words in found.values()), found
    # The program that makes helpers, the carrier, and the watcher.
    assert helpers(found) == 3, found
    for secret in (PASSWORD, HASH_KEY, STORE_SECRET.strip()):
        assert not [pid for pid, words in found.items() if secret in words]
    # Ours: another process of this user may be starting its Spark at this moment.
    assert not list(cache_folder("tmp").glob(f"spark-settings-{os.getpid()}-*"))


def test_settings_arrive_to_the_letter(place: Place) -> None:
    context = place.spark.get().sparkContext
    assert context._jsc.hadoopConfiguration().get("fs.test.secret.key") == STORE_SECRET
    # As the JVM read it from the file, of which Spark trims the ends.
    found = context._jvm.System.getProperty("spark.hadoop.fs.test.secret.key")
    assert found == STORE_SECRET.strip()
