"""A catalog of Google's in the contract file: what has to be said, and what may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.config import load_config
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.catalog.properties import (
    GoogleCatalog,
    google_properties,
    google_settings,
)
from mirrorlake.errors import ConfigError

URI = "https://biglake.googleapis.com/iceberg/v1/restcatalog"
GOOGLE = {"uri": URI, "auth": "google", "project": "my-project"}


def lake_of(
    tmp_path: Path, catalog: dict[str, Any], warehouse: str = "gs://company-lake/m"
) -> LakeConfig:
    path = tmp_path / "mirrorlake.yaml"
    text = {
        "version": 1,
        "lake": {"warehouse": warehouse, "catalog": catalog},
        "sources": {"shop": {"host": "127.0.0.1", "user": "mirror"}},
    }
    path.write_text(yaml.safe_dump(text), encoding="utf-8")
    return load_config(path, environ={"TOKEN": "x"}).lake


def of(lake: LakeConfig) -> GoogleCatalog:
    catalog = lake.catalog
    return GoogleCatalog(catalog.project or "", catalog.name or "", "company-lake")


def test_it_has_the_buckets_name_unless_it_is_said(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, GOOGLE)
    assert lake.runtime_catalog == "company-lake"
    assert google_properties(of(lake))["warehouse"] == "gs://company-lake"
    named = lake_of(tmp_path, {**GOOGLE, "name": "mirror"})
    assert named.runtime_catalog == "mirror"
    assert google_settings(of(named))["warehouse"] == "bl://projects/my-project/catalogs/mirror"
    assert lake_of(tmp_path, {"uri": URI}).runtime_catalog is None


@pytest.mark.parametrize(
    ("catalog", "warehouse", "said"),
    [
        ({**GOOGLE, "project": None}, "gs://b1c", "lake.catalog.project: auth: google needs the"),
        ({"uri": URI, "project": "my-project"}, "gs://b1c", "write auth: google beside it"),
        ({"uri": URI, "name": "c"}, "gs://b1c", "write auth: google beside it"),
        ({**GOOGLE, "uri": "sqlite:///c.db"}, "gs://b1c", "auth: google is for a REST server"),
        ({**GOOGLE, "uri": "http://10.0.0.1/c"}, "gs://b1c", "goes over https:// alone"),
        ({**GOOGLE, "uri": "http://127.0.0.1.evil/c"}, "gs://b1c", "goes over https:// alone"),
        (GOOGLE, "lake", "in no bucket that the catalog could have its name of: write name"),
        (
            {**GOOGLE, "properties": {"token": "${env:TOKEN}"}},
            "gs://b1c",
            "auth: google logs in by itself: remove token",
        ),
        ({**GOOGLE, "properties": {"rest.auth.type": "none"}}, "gs://b1c", "remove rest.auth.type"),
    ],
)
def test_what_does_not_fit_is_refused(
    tmp_path: Path, catalog: dict[str, Any], warehouse: str, said: str
) -> None:
    given = {name: value for name, value in catalog.items() if value is not None}
    with pytest.raises(ConfigError) as caught:
        lake_of(tmp_path, given, warehouse)
    assert said in str(caught.value)
    assert "mirrorlake.yaml:" in str(caught.value)
