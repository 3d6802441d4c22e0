"""A landing in Google Cloud Storage under Dagster: looked at and read by GCSResource's client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster_gcp.gcs import GCSResource

from dagster_mirrorlake.location import load_definitions
from mirrorlake.config import load_config
from tests.location.test_snapshots import IDS, SCHEMA, Feed
from tests.support import gcs


class BucketFeed(Feed):
    """A code location whose one table lands in a bucket."""

    def __init__(self, folder: Path, endpoint: str, client: Any) -> None:
        self.folder, self.bucket = folder, client.bucket("landed")
        (folder / "dagster").mkdir()
        text = {
            "version": 1,
            "sources": {"feed": {
                "landing": {"url": "gs://landed", "endpoint": endpoint},
                "databases": {"d": {"tables": {
                    "t": {"mode": "snapshot", "key": ["id"], "snapshot": {"complete": "marker"}}}}}}},
        }  # fmt: skip
        path = folder / "mirrorlake.yaml"
        path.write_text(json.dumps(text))
        self.bucket.blob("schemas/feed/d/t.json").upload_from_string(SCHEMA)
        self.contract = load_config(path).snapshot_table("t")
        self.definitions = load_definitions(path)

    def land(self, snapshot: str, *rows: tuple[int, int]) -> None:
        folder = f"json/feed/d/t/dq/{snapshot[:8]}"
        lines = [json.dumps({"id": a, "n": b, "memo": "plain"}) for a, b in rows]
        self.bucket.blob(f"{folder}/{snapshot}_0.json").upload_from_string("\n".join(lines))
        self.bucket.blob(f"{folder}/{snapshot}_SUCCESS").upload_from_string("")


def test_the_sensor_asks_the_bucket_by_the_resource(tmp_path: Path) -> None:
    with gcs.emulator("landed") as (endpoint, client):
        feed = BucketFeed(tmp_path, endpoint, client)
        resource = (feed.definitions.resources or {})["gcs"]
        assert isinstance(resource, GCSResource)
        assert resource.get_client().api_endpoint == endpoint
        with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
            feed.land(IDS[1], (1, 2))
            feed.land(IDS[0], (1, 1))
            (request,) = feed.tick(instance).run_requests
            assert request.partition_key == IDS[0]


@pytest.mark.full
@pytest.mark.alone
def test_what_lands_in_a_bucket_is_published(tmp_path: Path) -> None:
    with gcs.emulator("landed") as (endpoint, client):
        feed = BucketFeed(tmp_path, endpoint, client)
        with dg.DagsterInstance.local_temp(str(tmp_path / "dagster")) as instance:
            feed.land(IDS[0], (1, 1), (2, 2))
            feed.land(IDS[1], (1, 2), (3, 3))
            instance.add_dynamic_partitions("snapshots/feed.d.t", IDS)
            done = feed.run(instance, *IDS)
            assert done.success
            checks = {e.check_name: e.passed for e in done.get_asset_check_evaluations()}
            names = (
                "published",
                "unique_key",
                "fresh",
                "row_count",
                "exact_match",
                "suspected_pii",
            )
            assert checks == dict.fromkeys(names, True)
