"""What Cloud Storage answers, as errors of ours; and whether a warehouse there can be written."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from mirrorlake.config.fields import bucket_of
from mirrorlake.destinations.iceberg.storage.cloud_client import SCHEME, open_store
from mirrorlake.errors import LakeError

_SAID = re.compile(r'"message":\s*"([^"]*)"')
_GIVEN_UP = re.compile(r"with a last message of (.*?)( error_info=|$)", re.DOTALL)


def check_writable(warehouse: str, properties: Mapping[str, str]) -> None:
    """See that the warehouse can be written, by an object that is made and removed: rights can be
    given on a bucket, or on a folder in it, and only an attempt shows what they come to.

    Raises:
        LakeError: the bucket is not there, refuses this account, or can't be reached.
    """
    # A name of its own: Cloud Storage takes one write a second of an object.
    name = f"{warehouse.removeprefix(SCHEME)}/.mirrorlake-can-write-{uuid.uuid4().hex}"
    with _storage_errors(warehouse):
        store = open_store(properties)
        with store.open_output_stream(name) as stream:
            stream.write(b"")
        store.delete_file(name)


@contextmanager
def _storage_errors(warehouse: str, what: object = "") -> Iterator[None]:
    """Turn what PyArrow's client raises into LakeErrors that name the bucket."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise storage_error(warehouse, error, what) from error


def storage_error(warehouse: str, error: Exception, what: object = "") -> LakeError:
    """What PyArrow's client raised of a warehouse, as a LakeError."""
    bucket, words = f"the bucket {SCHEME}{bucket_of(warehouse)}", _words(error)
    table = str(what)
    if isinstance(error, FileNotFoundError):
        return LakeError(
            f"{bucket} is not there, or is not this account's to see: {words}",
            next_step=f"Make it: gcloud storage buckets create {SCHEME}{bucket_of(warehouse)}; or "
            "set lake.warehouse to another place",
            table=table,
        )
    if isinstance(error, PermissionError):
        return LakeError(
            f"{bucket} refuses this account: {words}",
            next_step="Give it roles/storage.objectUser on the bucket; if its login has expired, "
            "log in again: gcloud auth application-default login",
            table=table,
        )
    if "OAuth2" in words or "credentials" in words:
        return LakeError(
            f"{bucket} can't be opened, since nobody is logged in: {words}",
            next_step="Log in: a service account of the machine, gcloud auth "
            "application-default login, or GOOGLE_APPLICATION_CREDENTIALS",
            table=table,
        )
    return LakeError(
        f"{bucket} failed, or can't be reached: {words}",
        next_step="Look at the network and at Google's status page, then try again",
        table=table,
        retryable=True,
    )


def _words(error: Exception) -> str:
    """What was answered, without the library's own frame around it."""
    text = str(error)
    if found := _SAID.search(text):
        return found[1][:300]
    found = _GIVEN_UP.search(text)
    whole = " ".join((found[1] if found else text).split())
    # Long sentences of the library begin with what to read about logins; the reason comes last.
    _, said, reason = whole.partition("The underlying error message was: ")
    return f"no OAuth2 token: {reason}"[:300] if said else whole[:300]
