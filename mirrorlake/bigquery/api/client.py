"""BigQuery and its bucket by Google's own clients: ``pip install 'mirrorlake[bigquery]'``.

Whoever runs Mirrorlake is logged in by Google's means (application default credentials). Over
``BIGQUERY_EMULATOR_HOST`` and ``STORAGE_EMULATOR_HOST``, as Google's clients read them, nobody is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from mirrorlake.bigquery.api.job_costs import JobCost, cost_from
from mirrorlake.bigquery.api.statements import count_sql
from mirrorlake.bigquery.api.types import FieldJson, canonical
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.errors import BigQueryError
from mirrorlake.runtime.google.clients import (
    is_emulated,
    is_missing,
    library,
    open_storage,
    open_warehouse,
    patience,
    translated,
)
from mirrorlake.runtime.google.quotas import with_reason
from mirrorlake.runtime.google.tables import BigQueryTable

if TYPE_CHECKING:
    from google.cloud import bigquery, storage

JobState: TypeAlias = Literal["running", "done", "failed"]


@dataclass(frozen=True)
class JobLook:
    """What became of a job so far.

    Attributes:
        error: why it failed, in BigQuery's words.
        cost: what it took; of a job that has ended.
    """

    state: JobState
    error: str = ""
    cost: JobCost | None = None


@dataclass(frozen=True)
class TableLayout:
    """How BigQuery keeps a table's rows.

    Attributes:
        column: by whose days or months it is partitioned; '' where it is not.
        per: ``DAY`` or ``MONTH``; '' where it is not.
        clustered: the columns by which it is clustered.
    """

    column: str = ""
    per: str = ""
    clustered: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableDescription:
    """A table, or a view, as BigQuery has it.

    Attributes:
        sql: the view's text; '' of a table.
        words: its description; '' where it has none.
    """

    fields: list[FieldJson]
    sql: str
    words: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns, in order."""
        return tuple(field["name"] for field in self.fields)


@dataclass(frozen=True)
class BigQuery:
    """One project's datasets in one location, and the bucket that rows go through.

    Every method raises BigQueryError where Google refuses, or can't be reached.
    """

    config: BigQueryConfig
    _warehouse: bigquery.Client
    _store: storage.Client

    @classmethod
    def open(cls, config: BigQueryConfig) -> Self:
        """The clients of a project.

        Raises:
            BigQueryError: Google's libraries are not installed, or nobody is logged in.
        """
        warehouse = open_warehouse(config.project, config.location)
        return cls(config, warehouse, open_storage(config.project))

    def _unless_missing(self, read: Any, name: str) -> Any:
        """What a request for something gives; None where Google says that it is not there."""
        try:
            return read(name, retry=patience("bigquery"))
        except Exception as error:
            if not is_missing(error):
                raise
            return None

    # --- places -----------------------------------------------------------------------------------

    def refuse_missing(self, datasets: Iterable[str]) -> None:
        """See that datasets and the bucket are there, and the datasets in their location.

        Raises:
            BigQueryError: they are not; with the command that makes them.
        """
        for dataset in datasets:
            self.refuse_missing_dataset(dataset)
        with translated(f"bucket gs://{self.config.bucket}"):
            bucket = self._store.lookup_bucket(self.config.bucket, retry=patience("storage"))
        if bucket is None:
            raise BigQueryError(
                f"there is no bucket gs://{self.config.bucket}",
                next_step="Make it: gcloud storage buckets create "
                f"gs://{self.config.bucket} --location={self.config.location}",
            )

    def refuse_missing_dataset(self, dataset: str) -> None:
        """See that a dataset is there, in its location.

        Raises:
            BigQueryError: it is not; with the command that makes it.
        """
        place = f"{self.config.project}.{dataset}"
        with translated(f"dataset {place}"):
            found = self._unless_missing(self._warehouse.get_dataset, place)
        if found is None:
            raise BigQueryError(
                f"there is no dataset {place} in BigQuery",
                next_step="Make it: bq mk --dataset --location="
                f"{self.config.location} {self.config.project}:{dataset}",
            )
        where = str(found.location or "")
        if where and where.lower() != self.config.location.lower():
            raise BigQueryError(
                f"dataset {place} is in {where}, and bigquery.location is {self.config.location}",
                next_step="Write the dataset's location, or make the dataset there",
            )

    def fields_of(self, table: BigQueryTable) -> list[FieldJson] | None:
        """A table's columns; None where there is no such table."""
        found = self.find(table)
        return None if found is None else found.fields

    def layout_of(self, table: BigQueryTable) -> TableLayout | None:
        """How a table is partitioned and clustered; None where there is no such table."""
        with translated(f"table {table}"):
            found = self._unless_missing(self._warehouse.get_table, str(table))
        if found is None:
            return None
        parted, clustered = found.time_partitioning, tuple(found.clustering_fields or ())
        if parted is None:
            return TableLayout(clustered=clustered)
        return TableLayout(str(parted.field or ""), str(parted.type_ or ""), clustered)

    def find(self, table: BigQueryTable) -> TableDescription | None:
        """A table, or a view; None where there is nothing of this name."""
        with translated(f"table {table}"):
            found = self._unless_missing(self._warehouse.get_table, str(table))
        if found is None:
            return None
        fields = canonical(field.to_api_repr() for field in found.schema)
        words = str(found.description or "")
        return TableDescription(fields, str(found.view_query or ""), words)

    def describe(self, table: BigQueryTable, words: str) -> None:
        """Give a table, or a snapshot of one, a description."""
        with translated(f"table {table}"):
            found = self._warehouse.get_table(str(table), retry=patience("bigquery"))
            found.description = words
            self._warehouse.update_table(found, ["description"], retry=patience("bigquery"))

    def write_view(self, view: BigQueryTable, sql: str) -> None:
        """Make a view, or replace it in one step."""
        # By DDL: a view's text that is changed through the API keeps the columns of before.
        self.run(f"view {view}", f"CREATE OR REPLACE VIEW `{view}` AS {sql}")

    def run(self, what: str, sql: str) -> None:
        """Run a statement of DDL, which may be run twice.

        Args:
            what: it is about, in errors.
        """
        with translated(what):
            self._warehouse.query_and_wait(
                sql,
                location=self.config.location,
                retry=patience("bigquery"),
                project=self.config.project,
            )

    def drop(self, table: BigQueryTable) -> None:
        """Take a table or a view away, if it is there."""
        with translated(f"table {table}"):
            retry = patience("bigquery")
            self._warehouse.delete_table(str(table), retry=retry, not_found_ok=True)

    # --- files ------------------------------------------------------------------------------------

    def upload(self, publication: str, name: str, path: Path) -> str:
        """Put a file beside a publication's others; its address. One of this name is replaced."""
        key = f"{self.config.prefix}/{publication}/{name}"
        address = f"gs://{self.config.bucket}/{key}"
        with translated(address):
            blob = self._store.bucket(self.config.bucket).blob(key)
            blob.upload_from_filename(str(path), retry=patience("storage"), checksum="md5")
        return address

    def remove_files(self, publication: str) -> None:
        """Remove a publication's files, as many as there are."""
        prefix = f"{self.config.prefix}/{publication}/"
        with translated(f"gs://{self.config.bucket}/{prefix}"):
            retry = patience("storage")
            for blob in self._store.list_blobs(self.config.bucket, prefix=prefix, retry=retry):
                blob.delete(retry=retry)

    # --- jobs -------------------------------------------------------------------------------------

    def look(self, job: str) -> JobLook | None:
        """What became of a job; None: none of this id was ever submitted."""
        with translated(f"job {job}"):
            found = self._unless_missing(self._get_job, job)
        if found is None:
            return None
        if found.state != "DONE":
            return JobLook("running")
        cost = _cost_of(found)
        if found.error_result is None:
            return JobLook("done", cost=cost)
        words = [str(one.get("message", "")) for one in (found.error_result, *(found.errors or ()))]
        said = "; ".join(dict.fromkeys(word for word in words if word))
        return JobLook("failed", with_reason(said, found.error_result.get("reason", "")), cost)

    def submit_load(
        self,
        job: str,
        addresses: Sequence[str],
        table: BigQueryTable,
        fields: Sequence[FieldJson],
        layout: TableLayout,
    ) -> None:
        """Load Parquet files into a table that is empty or made by this, with a layout.

        No bad record is tolerated. A job of this id that is there already is left as it is.
        """
        google = library("google.cloud.bigquery")
        options = google.ParquetOptions()
        options.enable_list_inference = True
        config = google.LoadJobConfig(
            schema=[google.SchemaField.from_api_repr(dict(field)) for field in fields],
            source_format="PARQUET",
            write_disposition="WRITE_TRUNCATE",
            max_bad_records=0,
        )
        config.parquet_options = options
        if layout.clustered:
            config.clustering_fields = list(layout.clustered)
        if layout.column:
            config.time_partitioning = google.TimePartitioning(layout.per, field=layout.column)
        with self._submitting(job):
            self._warehouse.load_table_from_uri(
                list(addresses), str(table), job_config=config, **self._how(job)
            )

    def submit_copy(self, job: str, source: BigQueryTable, target: BigQueryTable) -> None:
        """Replace a table by another one's columns and rows, in one step."""
        config = library("google.cloud.bigquery").CopyJobConfig(write_disposition="WRITE_TRUNCATE")
        with self._submitting(job):
            self._warehouse.copy_table(
                str(source), str(target), job_config=config, **self._how(job)
            )

    def submit_statement(self, job: str, sql: str) -> None:
        """Run a statement that changes rows."""
        with self._submitting(job):
            self._warehouse.query(sql, job_retry=None, **self._how(job))

    # --- reading ----------------------------------------------------------------------------------

    def count(self, table: BigQueryTable) -> int | None:
        """How many rows a table has, counted now; None where there is no such table."""
        if self.fields_of(table) is None:
            return None
        return self.read_one(count_sql(str(table)))[0]

    def read_one(self, sql: str) -> tuple[int, ...]:
        """The one row of numbers that a query gives; NULL is 0."""
        with translated("a query"):
            retry = patience("bigquery")
            rows = self._warehouse.query_and_wait(
                sql, location=self.config.location, retry=retry, project=self.config.project
            )
            [row] = rows
        return tuple(int(value or 0) for value in row.values())

    def read_counted(self, job: str, sql: str) -> tuple[tuple[int, ...], JobCost]:
        """The same by a job of its own, and what that took."""
        with translated(f"job {job}"):
            submitted = self._warehouse.query(sql, job_retry=None, **self._how(job))
            [row] = submitted.result(retry=patience("bigquery"))
        return tuple(int(value or 0) for value in row.values()), _cost_of(submitted)

    def estimate(self, sql: str) -> int | None:
        """The bytes that a query would read, which costs nothing to ask; None where nobody says
        it."""
        config = library("google.cloud.bigquery").QueryJobConfig(dry_run=True)
        with translated("a query"):
            found = self._warehouse.query(
                sql,
                job_config=config,
                location=self.config.location,
                project=self.config.project,
                retry=patience("bigquery"),
            )
        return _cost_of(found).bytes_processed

    def _get_job(self, job: str, retry: Any) -> Any:
        return self._warehouse.get_job(
            job, project=self.config.project, location=self.config.location, retry=retry
        )

    def _how(self, job: str) -> dict[str, Any]:
        return {
            "job_id": job,
            "project": self.config.project,
            "location": self.config.location,
            "retry": patience("bigquery"),
        }

    @contextmanager
    def _submitting(self, job: str) -> Iterator[None]:
        """A job that is submitted, or was before: its id says that it is the same one."""
        with translated(f"job {job}"):
            try:
                yield
            except Exception as error:
                if getattr(error, "code", None) != 409:
                    raise


def _cost_of(job: Any) -> JobCost:
    """What a job took. Google's client shows statistics of queries alone."""
    statistics = job._properties.get("statistics", {})
    return cost_from(str(job.job_id), str(job.job_type), statistics, emulated=is_emulated())
