"""Our side of the part ``plan`` in one process, in which one model changes again and again."""

import json
import sys
import time
from pathlib import Path

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.models.contract_models import compile_project

path, changed, runs = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
text = changed.read_text()
sales = "COUNT(*) AS sales"
texts = {
    "condition": lambda number: text.replace("'cancelled'", f"'cancelled{number}'"),
    "column": lambda number: text.replace(sales, f"{sales}, 1 AS more{number}"),
}


def seconds() -> float:
    """How long one compilation takes, in a lake and a contract that are read again."""
    started = time.perf_counter()
    config = load_config(path)
    project, _ = compile_project(config, Lake(config.lake))
    ended = time.perf_counter()
    project.raise_problems()
    return ended - started


found: dict[str, list[float]] = {"nothing": [], **{name: [] for name in texts}}
seconds()
for number in range(runs):
    for name, changed_text in texts.items():
        changed.write_text(changed_text(number))
        found[name].append(seconds())
        found["nothing"].append(seconds())
changed.write_text(text)
sys.stdout.write(json.dumps(found) + "\n")
