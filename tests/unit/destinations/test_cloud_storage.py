"""A warehouse in Cloud Storage: what may be written of it, and what is said where it can't be used."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import ValidationError

from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.storage import cloud_client
from mirrorlake.destinations.iceberg.storage.cloud_client import spark_settings
from mirrorlake.destinations.iceberg.storage.cloud_storage import check_writable
from mirrorlake.errors import LakeError
from tests.support.gcs import emulator, forbidding

TOKEN = "ya29.a-token"


@pytest.mark.parametrize("place", ["gs://bucket", "gs://b.u-c_k3t/", "gs://bucket/a läke/b=c"])
def test_places_in_cloud_storage(place: str) -> None:
    assert LakeConfig(warehouse=place).warehouse == place


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("gs://", "gs://bucket or"),
        ("gs:bucket", "gs://bucket or"),
        ("gs://Bucket/lake", "gs://bucket or"),
        ("gs://bucket//lake", "gs://bucket or"),
        ("gs://bucket/a/../b", "gs://bucket or"),
        ("gcs://bucket/lake", "is written gs://bucket/folder"),
        ("GS://bucket/lake", "is written gs://bucket/folder"),
        ("https://storage.example/lake", "a REST catalog is catalog.uri"),
        ("gs://bucket/la#ke", "can't have '#' in it"),
        ("gs://bucket/la%20ke", "can't have '%' in it"),
        ("gs://bucket/la?ke", "can't have '\\?' in it"),
    ],
)
def test_a_name_that_a_client_would_read_as_another_is_refused(place: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        LakeConfig(warehouse=place)


def test_a_bucket_holds_no_catalog() -> None:
    with pytest.raises(LakeError, match="not a local folder, so it can't hold the catalog"):
        Lake(LakeConfig(warehouse="gs://bucket/lake"))


def test_spark_is_given_what_pyiceberg_is_given() -> None:
    given = {"gcs.oauth2.token": TOKEN, "gcs.project-id": "p", "py-x": "y"}
    assert spark_settings(given) == {
        "io-impl": "org.apache.iceberg.gcp.gcs.GCSFileIO",
        "gcs.oauth2.token": TOKEN,
        "gcs.project-id": "p",
    }
    given["gcs.service.host"] = "http://127.0.0.1:9"
    assert "gcs.oauth2.token" not in spark_settings(given)
    assert spark_settings(given)["gcs.no-auth"] == "true"


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GCS_TOKEN", TOKEN)


def of(host: str, folder: Path) -> LakeConfig:
    catalog = CatalogConfig(
        uri=f"sqlite:///{folder}/catalog.db",
        properties={"gcs.service.host": host, "gcs.oauth2.token": "${env:GCS_TOKEN}"},
    )
    return LakeConfig(warehouse="gs://company-lake/mirror", catalog=catalog)


def test_a_bucket_that_refuses_is_named(tmp_path: Path) -> None:
    with forbidding() as host, pytest.raises(LakeError) as caught:
        Lake(of(host, tmp_path))
    said = str(caught.value)
    assert "the bucket gs://company-lake refuses this account: robot@example.com does not" in said
    assert "roles/storage.objectUser" in said
    assert TOKEN not in said
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_is_not_there_is_named(tmp_path: Path) -> None:
    with emulator("another") as (host, _), pytest.raises(LakeError) as caught:
        Lake(of(host, tmp_path))
    assert "the bucket gs://company-lake is not there" in str(caught.value)
    assert "gcloud storage buckets create gs://company-lake" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_bucket_that_can_be_written_is_left_as_it_was() -> None:
    with emulator("company-lake") as (host, client):
        check_writable("gs://company-lake/mirror", {"gcs.service.host": host})
        assert list(client.list_blobs("company-lake")) == []


def test_nobody_is_logged_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "not there.json"))
    with pytest.raises(LakeError, match="nobody is logged in: no OAuth2 token: Cannot open"):
        check_writable("gs://company-lake", {"gcs.service.host": "https://127.0.0.1:1"})


def test_a_store_that_is_away_is_no_wrong_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloud_client, "PATIENCE", timedelta(seconds=0))
    with pytest.raises(LakeError, match="gs://company-lake failed, or can't be reached") as caught:
        check_writable("gs://company-lake", {"gcs.service.host": "http://127.0.0.1:2"})
    assert caught.value.retryable
