"""Queries call the functions of the project, in a run and in a test; what one gives is of its type,
or an error."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Place
from tests.integration.models.test_models import (  # noqa: F401 – fixtures
    computed,
    config,
    rows_of,
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM
from tests.support.command import COMMAND

Sql = Callable[..., Any]
FUNCTIONS = '''"""---
functions:
  loud: {takes: [string], gives: string}
  half: {takes: ["decimal(10,2)"], gives: "decimal(12,3)"}
---"""

MARK = "!"

def _marked(text):
    return text.upper() + MARK

def loud(text):
    return None if text is None else _marked(text)

def half(amount):
    return amount / 2
'''
QUERY = """---
tests:
  one:
    inputs:
      {deduped}.sales: [{{id: 1, product: tea, amount: 1.01}}, {{id: 2, product: ~, amount: ~}}]
    expected: [{{id: 1, product: TEA!, half: 0.505}}]
---
SELECT id, loud(product) AS product, half(amount) AS half FROM {deduped}.sales
WHERE id < 4 AND amount IS NOT NULL
"""


@pytest.mark.full
def test_a_query_calls_them(config: Path, place: Place) -> None:  # noqa: F811
    path = config.parent / "models" / "functions.py"
    path.write_text(FUNCTIONS)
    write_models(config, called=QUERY)
    assert computed(config, "called") == {"called": [""]}
    assert [(row[0], row[1], str(row[2])) for row in rows_of(place, config, "called")] == [
        (1, "TEA!", "0.550"),
        (2, "TEA!", "1.100"),
        (3, "CUP!", "1.500"),
    ]
    model = f"m_{config.parent.name}.called"
    # In a process of its own, as its Spark is another one.
    tested = subprocess.run(
        [*COMMAND, "test", model, "--config", str(config)], capture_output=True, check=False
    )
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert computed(config, "called") == {"called": []}
    # What they say changed: their models are computed again, with what they say now.
    path.write_text(FUNCTIONS.replace('"!"', '"?"'))
    assert computed(config, "called") == {"called": [""]}
    assert rows_of(place, config, "called")[0][1] == "TEA?"
    before = rows_of(place, config, "called")
    for broken, words in (
        ("return amount / 3", "half gave a Decimal that is no decimal(12,3)"),
        ("raise ValueError(amount)", f"{path}:16:1: half failed: ValueError"),
    ):
        path.write_text(FUNCTIONS.replace("return amount / 2", broken))
        code, said = run(config, "run", model)
        assert code != 0
        assert words in said, said
        assert "1.10" not in said
        assert rows_of(place, config, "called") == before
    # A process of its own prints what its JVM logs, too.
    command = [*COMMAND, "run", model, "--config", str(config)]
    failed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert failed.returncode != 0
    assert "half failed: ValueError" in failed.stderr
    assert "1.10" not in failed.stderr + failed.stdout
    assert "Traceback" not in failed.stderr
