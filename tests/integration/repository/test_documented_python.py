"""The Python that docs/quickstart.md and docs/python.md show is run, over a mirrored shop."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrorlake.config import load_config
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.operations.test_upkeep import (  # noqa: F401 – one JVM for all workspaces
    ORDERS,
    shared_session,
    world,
)

DOCS = Path(__file__).parents[3] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[str]:
    return BLOCK.findall((DOCS / page).read_text("utf-8"))


@pytest.mark.parametrize("page", ["python.md", "quickstart.md"])
def test_what_the_page_shows_runs(
    page: str,
    world: Callable[..., Path],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = world(orders=ORDERS)
    config = load_config(path)
    with Workspace.open(config) as workspace:
        sync_table(workspace, config.tables[0])
    found = blocks(page)
    assert found
    for text in found:
        told = text.replace("shop_shop", config.tables[0].namespaces.deduped)
        told = told.replace('"mirrorlake.yaml"', repr(str(path)))
        # The tests' one session knows one lake: it lies elsewhere than the page's.
        warehouse = config.lake.warehouse.removeprefix("file://")
        told = told.replace(".mirrorlake/lake/", f"{warehouse}/")
        exec(compile(told, page, "exec"), {})  # noqa: S102
    printed = capsys.readouterr().out
    wanted = "rows loaded; equal" if page == "python.md" else "| id|  v|"
    assert wanted in printed, printed
