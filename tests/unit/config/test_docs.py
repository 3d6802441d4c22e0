"""The reference and the JSON schema say what the code says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import config_schema, load_config

DOCS = Path(__file__).parents[3] / "docs"
TABLE = "sources.<name>.databases.<db>.tables.<table>"
# Heading in docs/configuration.md → definition in the JSON schema.
SECTIONS = {
    "The file": None,
    "lake": "LakeConfig",
    "lake.catalog": "CatalogConfig",
    "ledger": "LedgerConfig",
    "spark": "SparkConfig",
    "privacy": "PrivacyConfig",
    "bigquery": "BigQueryConfig",
    "readers": "ReadersConfig",
    "readers.trino": "TrinoConfig",
    "alerts": "AlertsConfig",
    "alerts.email": "EmailConfig",
    "defaults": "DefaultsConfig",
    "freshness": "Freshness",
    "sources.<name>": "SourceSection",
    "sources.<name>.landing": "LandingConfig",
    "sources.<name>.back_off": "BackOff",
    "sources.<name>.tls": "TlsConfig",
    "sources.<name>.databases.<db>": "DatabaseSection",
    "sources.<name>.databases.<db>.namespaces": "NamespacesSection",
    TABLE: "TableSection",
    f"{TABLE}.snapshot": "SnapshotConfig",
    f"{TABLE}.bigquery": "BigQueryLayout",
    f"{TABLE}.columns.<column>": "ColumnRule",
    f"{TABLE}.entity": "EntitySection",
    "tenants.<name>": "TenantsSection",
    "tenants.<name>.tables.<table>": "TenantTableSection",
}


def section(heading: str) -> str:
    text = (DOCS / "configuration.md").read_text(encoding="utf-8")
    parts = re.split(r"^## `?(.+?)`?$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))[heading]


def fields(definition: str | None) -> dict[str, Any]:
    schema = config_schema()
    return (schema if definition is None else schema["$defs"][definition])["properties"]


def test_every_section_has_a_heading() -> None:
    assert set(SECTIONS.values()) - {None} == set(config_schema()["$defs"])


@pytest.mark.parametrize("heading", SECTIONS)
def test_every_field_is_documented_and_nothing_else(heading: str) -> None:
    first_table = section(heading).partition("| field |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `(\w+)` \|", first_table, flags=re.MULTILINE)
    assert documented == list(fields(SECTIONS[heading]))


@pytest.mark.parametrize("definition", SECTIONS.values())
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
