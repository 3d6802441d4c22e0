"""What a batch says, read from a place of the batch's own name.

Dagster's own readers give each try a new place, or empty the one that is there: one that attaches
to a batch would hear nothing of it.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dagster as dg

from mirrorlake.errors import BigQueryError
from mirrorlake.runtime.google.clients import open_storage, translated

logger = logging.getLogger(__name__)


class FileMessages(dg.PipesBlobStoreMessageReader):
    """Reads the messages of one batch from a file, from the first."""

    def __init__(self, path: Path) -> None:
        super().__init__(interval=0)
        self._path, self._read = path, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    @contextmanager
    def get_params(self) -> Iterator[dict[str, Any]]:
        yield {"path": str(self._path)}

    def messages_are_readable(self, params: Any) -> bool:  # noqa: ARG002 - Dagster's own name
        return True

    def download_messages_chunk(self, index: int, params: Any) -> str | None:  # noqa: ARG002
        with self._path.open("rb") as file:
            file.seek(self._read)
            whole, _, _ = file.read().rpartition(b"\n")
        self._read += len(whole) + 1 if whole else 0
        return whole.decode("utf-8") or None

    def no_messages_debug_text(self) -> str:
        return f"Nothing is in {self._path}"


class BucketMessages(dg.PipesBlobStoreMessageReader):
    """Reads the messages of one batch from a bucket, from the first."""

    def __init__(self, project: str, bucket: str, prefix: str, interval: float) -> None:
        super().__init__(interval=interval)
        self._place = {"project": project, "bucket": bucket, "key_prefix": prefix}
        self._bucket = open_storage(project).bucket(bucket)

    @contextmanager
    def get_params(self) -> Iterator[dict[str, Any]]:
        yield self._place

    def messages_are_readable(self, params: Any) -> bool:  # noqa: ARG002 - Dagster's own name
        return True

    def download_messages_chunk(self, index: int, params: Any) -> str | None:
        place = f"{params['key_prefix']}/{index}.json"
        try:
            with translated(f"message {place}"):
                return self._bucket.blob(place).download_as_bytes().decode("utf-8")
        except BigQueryError as error:
            # Not there yet, most of the time. What never comes is missed when the batch has ended.
            logger.debug("%s", error)
            return None

    def no_messages_debug_text(self) -> str:
        return f"Nothing is in gs://{self._place['bucket']}/{self._place['key_prefix']}/"
