"""Who may do what with a dataset, read and written by Google's client."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.errors import BigQueryError
from mirrorlake.permissions.access_entries import entry_of, grant_of
from mirrorlake.permissions.grants import Grant, account_of
from mirrorlake.runtime.google.clients import library, patience, translated


@dataclass(frozen=True)
class DatasetAccess:
    """Who may do what with a dataset, and the etag of the dataset in which that was read."""

    dataset: str
    grants: frozenset[Grant]
    etag: str


class AccessRequests(BigQuery):
    """BigQuery, and requests about a dataset's access."""

    def runner(self) -> str:
        """The principal as which Google authenticates this process."""
        with translated("a query"):
            [row] = self._warehouse.query_and_wait(
                "SELECT SESSION_USER()",
                location=self.config.location,
                retry=patience("bigquery"),
                project=self.config.project,
            )
        return account_of(str(row[0]))

    def access(self, dataset: str) -> DatasetAccess | None:
        """Who may do what with a dataset now; None where there is no such dataset.

        Raises:
            BigQueryError: besides: it has entries that can't be declared, or doesn't show them.
        """
        place = f"{self.config.project}.{dataset}"
        with translated(f"dataset {place}"):
            found = self._unless_missing(self._warehouse.get_dataset, place)
        if found is None:
            return None
        entries = [entry.to_api_repr() for entry in found.access_entries]
        if not entries or not found.etag:
            # A dataset always has an owner: one without entries is one that is not shown.
            raise BigQueryError(
                f"dataset {place}: Google Cloud does not show who has access to it",
                next_step="Give the account that runs Mirrorlake roles/bigquery.dataOwner on it",
            )
        try:
            grants = frozenset(grant_of(entry) for entry in entries)
        except BigQueryError as error:
            raise error.located(f"dataset {place}") from error
        return DatasetAccess(dataset, grants, str(found.etag))

    def write_access(self, read: DatasetAccess, grants: Iterable[Grant]) -> bool:
        """Replace who may do what with a dataset, in one request; False: somebody changed the
        dataset since it was read, and nothing was changed."""
        google = library("google.cloud.bigquery")
        place = {"projectId": self.config.project, "datasetId": read.dataset}
        # Google refuses the request where the dataset's etag is another one by then.
        changed = google.Dataset.from_api_repr({"datasetReference": place, "etag": read.etag})
        changed.access_entries = [
            google.AccessEntry.from_api_repr(entry_of(grant)) for grant in sorted(grants)
        ]
        mode = library("google.cloud.bigquery.enums").UpdateMode.UPDATE_ACL
        with translated(f"dataset {self.config.project}.{read.dataset}"):
            try:
                self._warehouse.update_dataset(
                    changed, ["access_entries"], retry=patience("bigquery"), update_mode=mode
                )
            except Exception as error:
                if getattr(error, "code", None) != 412:
                    raise
                return False
        return True
