"""SQLMesh's side of the part ``plan``: load a project once. Runs in an environment of its own."""

import json
import os
import re
import sys
import time
from pathlib import Path

started = time.perf_counter()

from sqlmesh import Context  # noqa: E402 - imports are timed

imported, used = time.perf_counter(), sum(os.times()[:4])
context = Context(paths=[str(Path(sys.argv[1]))])
models = context.models
columns = sum(len(one.columns_to_types or {}) for one in models.values())
ended = time.perf_counter()
# Of what `getrusage` says a part is of the process that started this one.
found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
peak = int(found[1]) if found else 0
answer = {
    "imports": imported - started,
    "seconds": ended - imported,
    "used": sum(os.times()[:4]) - used,
    "peak": peak / 1024,
    "found": {"models": len(models), "columns": columns},
}
sys.stdout.write(json.dumps(answer) + "\n")
