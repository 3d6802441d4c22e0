"""Google Cloud itself, for the tests marked ``live``: it is asked only where somebody names a
project of theirs, and it costs money.

``MIRRORLAKE_LIVE_GCP`` names the project; ``MIRRORLAKE_LIVE_GCP_LOCATION`` where its datasets are
(``EU``), ``MIRRORLAKE_LIVE_GCP_GB`` how much the run's queries may bill (10). Datasets carry a
label and the bucket a name by which they are known; they go at the end, and those of a run that
died when the next one begins, so that one run at a time has a project. Nothing else is touched.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from google.cloud import bigquery

from mirrorlake.runtime.google.clients import open_storage, open_warehouse

PROJECT_VARIABLE: Final = "MIRRORLAKE_LIVE_GCP"
LABEL: Final = "mirrorlake-live"
_BUCKETS: Final = "mirrorlake-live-"
_GB: Final = 10**9
_DAY_MS: Final = 24 * 60 * 60 * 1000


@dataclass(frozen=True)
class LiveCloud:
    """A project of Google's, with a bucket of this run's own.

    Attributes:
        most_billed: bytes that all queries of this run together may bill.
        began: when it began, UTC.
    """

    project: str
    location: str
    bucket: str
    most_billed: int
    began: datetime

    def environment(self) -> dict[str, str]:
        """Google's clients find Google by themselves."""
        return {}

    def section(self) -> dict[str, str]:
        """What a contract file says under ``bigquery``."""
        return {"project": self.project, "location": self.location, "bucket": self.bucket}

    def client(self) -> bigquery.Client:
        """Google's own client, as a reader has it."""
        return open_warehouse(self.project, self.location)

    def objects(self) -> list[str]:
        """The names of all objects in the bucket."""
        return [str(blob.name) for blob in open_storage(self.project).list_blobs(self.bucket)]

    def make_dataset(self, name: str) -> None:
        """An empty dataset, which goes with the run; its tables go after a day, whatever happens."""
        client = self.client()
        dataset = bigquery.Dataset(f"{self.project}.{name}")
        dataset.location = self.location
        dataset.labels = {LABEL: "yes"}
        dataset.default_table_expiration_ms = _DAY_MS
        client.create_dataset(dataset)

    def billed(self) -> int:
        """Bytes that this account's queries of this run have billed until now."""
        jobs = self.client().list_jobs(min_creation_time=self.began)
        return sum(getattr(job, "total_bytes_billed", None) or 0 for job in jobs)


@contextmanager
def live_cloud(project: str) -> Iterator[LiveCloud]:
    """The project, with a bucket; what was made in it is gone when the block ends."""
    location = os.environ.get("MIRRORLAKE_LIVE_GCP_LOCATION", "EU")
    most = float(os.environ.get("MIRRORLAKE_LIVE_GCP_GB", "10"))
    bucket = f"{_BUCKETS}{secrets.token_hex(8)}"
    cloud = LiveCloud(project, location, bucket, int(most * _GB), datetime.now(UTC))
    _clean(cloud)
    open_storage(project).create_bucket(bucket, location=location)
    try:
        yield cloud
    finally:
        _clean(cloud)


def _clean(cloud: LiveCloud) -> None:
    """Delete every dataset and bucket of the project that a run made."""
    client, store = cloud.client(), open_storage(cloud.project)
    for dataset in [*client.list_datasets()]:
        if LABEL in dataset.labels:
            client.delete_dataset(dataset, delete_contents=True, not_found_ok=True)
    # By name, here: the emulator takes no heed of a prefix and lists all.
    for bucket in [one for one in store.list_buckets() if one.name.startswith(_BUCKETS)]:
        bucket.delete_blobs([*bucket.list_blobs()])
        bucket.delete()
