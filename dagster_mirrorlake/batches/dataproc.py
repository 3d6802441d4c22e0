"""Serverless batches of Dataproc, by Google's API client.

dagster-gcp's resource and its Pipes client know clusters and their jobs, and no batch; the API
client that it installs knows them.

Source: Google Cloud, "Dataproc REST reference: projects.locations.batches".
"""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import dagster as dg

from dagster_mirrorlake.batches.messages import BucketMessages
from dagster_mirrorlake.batches.service import BatchState
from mirrorlake.errors import MachineError
from mirrorlake.runtime.google.clients import library

_REQUESTS: Final = uuid.UUID("6f0f6d5e-52a8-4d59-9d06-0f0f5c4f2a11")
"""Names of batches → ids of the requests that create them."""
TRIES = 3
"""How often the client asks again after an answer that says nothing."""
_STATES: Mapping[str, BatchState] = {
    "SUCCEEDED": "succeeded",
    "FAILED": "failed",
    "CANCELLED": "failed",
}


@dataclass(frozen=True)
class DataprocBatches:
    """Batches on Dataproc.

    Attributes:
        config: where the contract file is in the image.
        image: the container image, `europe-docker.pkg.dev/…`.
        bucket: where batches say what they did, without ``gs://``.
        runtime: the version of Dataproc's runtime, which brings Spark.
        service_account: as whom it runs; the project's default one without it.
        subnetwork: from which it reaches MySQL and Postgres.
        main: the Python file in the image that is run.
        jars: of Iceberg and the catalog's driver, in the image.
        properties: of Spark. Everybody who may see a batch sees them.
        secrets: environment variable → the secret's version in Secret Manager.
        longest: after which Dataproc ends it.
        endpoint: another address of Dataproc's API, to which nobody logs in.
    """

    project: str
    region: str
    config: str
    image: str
    bucket: str
    runtime: str
    service_account: str | None = None
    subnetwork: str | None = None
    main: str = "file:///opt/mirrorlake/batch.py"
    jars: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict[str, str])
    secrets: dict[str, str] = field(default_factory=dict[str, str])
    longest: str = "86400s"
    poll_seconds: float = 10
    endpoint: str | None = None

    def body(self, arguments: list[str]) -> dict[str, Any]:
        """What is requested of Dataproc."""
        execution = {
            "serviceAccount": self.service_account,
            "subnetworkUri": self.subnetwork,
            "ttl": self.longest,
        }
        return {
            "pysparkBatch": {
                "mainPythonFileUri": self.main,
                "args": arguments,
                "jarFileUris": list(self.jars),
            },
            "runtimeConfig": {
                "version": self.runtime,
                "containerImage": self.image,
                "properties": dict(self.properties),
            },
            "environmentConfig": {
                "executionConfig": {name: value for name, value in execution.items() if value}
            },
            "labels": {"made-by": "mirrorlake"},
        }

    def look(self, name: str) -> BatchState | None:
        found = self._found(name)
        return None if found is None else _STATES.get(found.get("state", ""), "open")

    def start(self, name: str, arguments: list[str]) -> None:
        # The same request again is ignored, so an answer that is lost starts nothing twice.
        request = self._batches.create(
            parent=f"projects/{self.project}/locations/{self.region}",
            batchId=name,
            requestId=str(uuid.uuid5(_REQUESTS, name)),
            body=self.body(arguments),
        )
        with _errors(f"batch {name}"):
            try:
                request.execute(num_retries=TRIES)
            except library("googleapiclient.errors").HttpError as error:
                if error.status_code != 409:
                    raise

    def why(self, name: str) -> str:
        found = self._found(name) or {}
        return str(found.get("stateMessage") or found.get("state") or "it is gone")

    def cancel(self, name: str) -> None:
        operation = (self._found(name) or {}).get("operation")
        if operation:
            operations = self._dataproc.projects().regions().operations()
            with _errors(f"batch {name}"):
                operations.cancel(name=operation).execute(num_retries=TRIES)

    def messages(self, name: str) -> dg.PipesMessageReader:
        return BucketMessages(self.project, self.bucket, f"batches/{name}", self.poll_seconds)

    def _found(self, name: str) -> dict[str, Any] | None:
        place = f"projects/{self.project}/locations/{self.region}/batches/{name}"
        with _errors(f"batch {name}"):
            try:
                return self._batches.get(name=place).execute(num_retries=TRIES)
            except library("googleapiclient.errors").HttpError as error:
                if error.status_code != 404:
                    raise
                return None

    @cached_property
    def _dataproc(self) -> Any:
        nobody = library("google.auth.credentials").AnonymousCredentials()
        with _errors(f"project {self.project}"):
            return library("googleapiclient.discovery").build(
                "dataproc",
                "v1",
                credentials=nobody if self.endpoint else None,
                client_options={"api_endpoint": self.endpoint} if self.endpoint else None,
                cache_discovery=False,
            )

    @property
    def _batches(self) -> Any:
        return self._dataproc.projects().locations().batches()


@contextmanager
def _errors(what: str) -> Iterator[None]:
    """An error of Google's client, or of the way to it, as one of ours."""
    google = library("googleapiclient.errors").HttpError
    lost = library("httplib2").HttpLib2Error
    login = library("google.auth.exceptions").GoogleAuthError
    try:
        yield
    except google as error:
        again = error.status_code in (408, 429) or error.status_code >= 500
        raise MachineError(
            f"{what}: Dataproc refused it ({error.status_code}): {error.reason}",
            next_step="See docs/dataproc.md for what its accounts need",
            retryable=again,
        ) from error
    except login as error:
        raise MachineError(
            f"{what}: nobody is logged in to Google Cloud",
            next_step="Run it as a service account, or gcloud auth application-default login",
        ) from error
    except (lost, OSError) as error:
        raise MachineError(f"{what}: Dataproc can't be reached: {error}", retryable=True) from error
