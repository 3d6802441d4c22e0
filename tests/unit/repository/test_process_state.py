"""What belongs to the whole process is left alone: another thread reads or writes it meanwhile."""

from __future__ import annotations

import re
from pathlib import Path

import mirrorlake

ROOT = Path(mirrorlake.__file__).parent.parent
FOLDERS = ("mirrorlake", "dagster_mirrorlake", "assets", "checks", "resources", "sensors")
STATE = re.compile(
    r"\bos\.(?:dup2|chdir|fchdir|umask|putenv|unsetenv)\b"
    r"|\bos\.environ(?=\[[^]]+\] =|\.(?:update|setdefault|pop|clear)\b)|\bdel os\.environ\b"
    r"|\bwarnings\.(?:catch_warnings|resetwarnings)\b|\bwarnings\.simplefilter\b"
    r"|\bredirect_std(?:out|err)\b|\bsys\.(?:stdin|stdout|stderr) ="
    r"|\bsignal\.(?:signal|setitimer|alarm)\(|\blocale\.setlocale\b"
    r"|\bsocket\.setdefaulttimeout\b|\b(?:setcontext|getcontext)\("
)
ALLOWED = {
    ("mirrorlake/runtime/permissions.py", "os.umask"): "under a lock, counted: see its docstring",
    ("mirrorlake/runtime/launch.py", "os.environ"): "PySpark reads it there alone; under a lock",
    ("mirrorlake/runtime/launch.py", "del os.environ"): "the same",
    ("mirrorlake/destinations/iceberg/spark/session.py", "os.environ"): "set for good, for the JVM",
    ("mirrorlake/sources/mysql/reading/reader.py", "os.environ"): "set for good, for the reader",
    (
        "mirrorlake/destinations/iceberg/spark/gateway.py",
        "signal.signal(",
    ): "in the main thread alone",
    ("mirrorlake/cli/follow.py", "signal.signal("): "a command's own, while it runs",
    ("mirrorlake/metrics/cli.py", "signal.signal("): "the same",
    (
        "mirrorlake/sources/mysql/reading/helper_program.py",
        "signal.signal(",
    ): "a program's first step",
    ("mirrorlake/operations/loading/worker.py", "signal.signal("): "a program's first step",
    ("mirrorlake/runtime/embedded/watch.py", "signal.signal("): "a program's first step",
    ("dagster_mirrorlake/batches/entry.py", "os.environ"): "a program's first step",
}


def test_nothing_of_the_process_is_swapped() -> None:
    found = {
        (str(path.relative_to(ROOT)), use)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        for use in STATE.findall(path.read_text("utf-8"))
    }
    assert found == ALLOWED.keys()
