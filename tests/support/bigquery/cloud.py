"""What tests ask of BigQuery and Cloud Storage, be they emulators or Google's."""

from __future__ import annotations

from typing import Protocol

from google.cloud import bigquery


class Cloud(Protocol):
    """Both services, with a bucket; datasets are the tests' own."""

    def environment(self) -> dict[str, str]:
        """The variables by which Google's clients find them."""
        ...

    def section(self) -> dict[str, str]:
        """What a contract file says under ``bigquery``."""
        ...

    def client(self) -> bigquery.Client:
        """Google's own client, as a reader has it."""
        ...

    def objects(self) -> list[str]:
        """The names of all objects in the bucket."""
        ...

    def make_dataset(self, name: str) -> None:
        """An empty dataset."""
        ...
