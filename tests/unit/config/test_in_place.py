"""`bigquery: {load: none}`: what it needs, and what can't be read in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError
from mirrorlake.operations.bigquery.in_place import name_in_catalog

GOOGLE = {
    "warehouse": "gs://company-lake",
    "catalog": {
        "uri": "https://biglake.googleapis.com/iceberg/v1/restcatalog",
        "auth": "google",
        "project": "lake-project",
    },
}
SECTION = {"project": "my-project", "bucket": "my-bucket"}
NONE = {"load": "none"}


def loaded(
    tmp_path: Path,
    table: dict[str, Any],
    lake: dict[str, Any] | None = None,
    **sections: Any,
) -> Config:
    text = {
        "version": 1,
        "lake": GOOGLE if lake is None else lake,
        "bigquery": SECTION,
        "privacy": {"hash_key": "${env:KEY}"},
        "defaults": {"publish": ["lake", "bigquery"], "clean": "table"},
        **sections,
        "sources": {
            "shop": {
                "host": "127.0.0.1",
                "user": "mirror",
                "databases": {"shop": {"tables": {"t": {"mode": "full", "key": ["id"], **table}}}},
            }
        },
    }
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return load_config(path, environ={"KEY": "k" * 20})


def test_a_table_is_read_by_its_name_in_the_catalog(tmp_path: Path) -> None:
    config = loaded(tmp_path, {"bigquery": NONE})
    table = config.table("t")
    assert table.in_place
    assert str(name_in_catalog(config, table)) == "lake-project.company-lake.shop_shop.t"
    assert not config.datasets_of_tables
    assert config.namespaces_in_place == {"shop_shop"}


def test_a_default_holds_where_a_table_says_nothing(tmp_path: Path) -> None:
    everywhere = {"publish": ["lake", "bigquery"], "bigquery": NONE}
    assert loaded(tmp_path, {}, defaults=everywhere).table("t").in_place
    deduped = {"bigquery": {"load": "deduped"}}
    assert not loaded(tmp_path, deduped, defaults=everywhere).table("t").in_place
    assert not loaded(tmp_path, {"publish": ["lake"]}, defaults=everywhere).table("t").in_place


def test_a_layout_needs_no_word_on_what_is_loaded(tmp_path: Path) -> None:
    layout = loaded(tmp_path, {"bigquery": {"partition_by": "day"}}).table("t").bigquery
    assert layout is not None
    assert layout.partition_by == "day"


@pytest.mark.parametrize(
    ("table", "lake", "said"),
    [
        ({"bigquery": NONE}, {"warehouse": "lake"}, "bigquery.load: load: none is read by Google"),
        ({"bigquery": NONE}, {"warehouse": "lake"}, "lake.catalog says no auth: google"),
        (
            {"bigquery": NONE},
            {**GOOGLE, "warehouse": "lake", "catalog": {**GOOGLE["catalog"], "name": "c"}},  # type: ignore[dict-item]
            "lake.warehouse is not in Cloud Storage",
        ),
        (
            {"bigquery": NONE, "columns": {"mail": {"pii": "hash"}}},
            None,
            "hashes are loaded beside their columns, and load: none loads nothing",
        ),
        (
            {"bigquery": {**NONE, "partition_by": "day"}},
            None,
            "loads nothing that has partitions",
        ),
        ({"bigquery": {"partition": "month"}}, None, "name it under partition_by"),
        ({"bigquery": NONE, "publish": ["lake"]}, None, "published in the lake alone"),
    ],
)
def test_what_can_not_be_is_refused_at_its_line(
    tmp_path: Path, table: dict[str, Any], lake: dict[str, Any] | None, said: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, table, lake)
    assert said in str(caught.value)
    assert "mirrorlake.yaml:" in str(caught.value)


def test_tenants_are_refused_alike(tmp_path: Path) -> None:
    tenants = {
        "shops": {
            "sources": ["shop"],
            "databases": ["shop_%"],
            "tables": {"o": {"key": ["id"], "bigquery": NONE, "columns": {"m": {"pii": "hash"}}}},
        }
    }
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, {"publish": ["lake"]}, {"warehouse": "lake"}, tenants=tenants)
    text = str(caught.value)
    assert "tenants.shops.tables.o.bigquery.load: load: none is read by Google" in text
    assert "hashes are loaded beside their columns" in text
