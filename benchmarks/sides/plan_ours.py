"""Our side of the part ``plan``: compile the models beside a contract file once."""

import json
import os
import re
import sys
import time
from pathlib import Path

started = time.perf_counter()

from mirrorlake.config import load_config  # noqa: E402 - imports are timed
from mirrorlake.destinations.iceberg.lake import Lake  # noqa: E402
from mirrorlake.models.compile.dependencies import unbounded  # noqa: E402
from mirrorlake.models.contract_models import compile_project  # noqa: E402

imported, used = time.perf_counter(), sum(os.times()[:4])
config = load_config(Path(sys.argv[1]))
project, catalogue = compile_project(config, Lake(config.lake))
models = project.models.values()
warnings = [words for one in models for words in unbounded(project, catalogue, one)]
ended = time.perf_counter()
project.raise_problems()
# Of what `getrusage` says a part is of the process that started this one.
found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
peak = int(found[1]) if found else 0
answer = {
    "imports": imported - started,
    "seconds": ended - imported,
    "used": sum(os.times()[:4]) - used,
    "peak": peak / 1024,
    "found": {
        "models": len(project.models),
        "tables": len(catalogue.names()) // 2,
        "partitions": sum(len(one.scopes) for one in models),
        "rules": sum(len(some) for one in models for some in one.rules.rules.values()),
        "warnings": len(warnings),
    },
}
sys.stdout.write(json.dumps(answer) + "\n")
