"""The reference and the JSON schema say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import config_schema, load_config

DOCS = Path(__file__).parents[3] / "docs"


def section(heading: str) -> str:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    parts = re.split(r"^## `?(.+?)`?$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def fields(definition: str | None) -> dict[str, Any]:
    schema = config_schema()
    return (schema if definition is None else schema["$defs"][definition])["properties"]


@pytest.mark.parametrize("definition", [None, *config_schema()["$defs"]])
def test_every_field_has_a_description(definition: str | None) -> None:
    sections = config_schema()["$defs"]
    for name, field in fields(definition).items():
        described = sections[field["$ref"].rpartition("/")[2]] if "$ref" in field else field
        assert described.get("description"), name


def test_the_schema_in_docs_is_current() -> None:
    written = json.loads((DOCS / "mirrorlake.schema.json").read_text(encoding="utf-8"))
    assert written == config_schema(), "run: mirrorlake config schema > docs/mirrorlake.schema.json"


def test_the_example_loads(tmp_path: Path) -> None:
    (example,) = re.findall(r"```yaml\n(.+?)```", section("An example"), flags=re.DOTALL)
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(example, encoding="utf-8")
    environ = {"SHOP_PASSWORD": "x", "MIRRORLAKE_HASH_KEY": "k" * 32}
    assert len(load_config(path, environ=environ).tables) == 4
