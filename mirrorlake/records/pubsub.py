"""A topic of Google Pub/Sub as a queue. Its library is imported when a topic is opened.

Messages of one ordering key go in one request after the other, those of several beside each other:
the service takes one ordering key a request. Each request has a bound, which the library's own
publisher has not where messages are ordered.

Source: Google Cloud Pub/Sub, `google.pubsub.v1.Publisher.Publish` and "Quotas and limits".
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from mirrorlake.errors import RecordsError
from mirrorlake.records.queue import Message
from mirrorlake.runtime.extras import library

_AT_ONCE: Final = 16
"""Requests."""
_PATIENCE: Final = 60.0
"""How long a request is tried again, in seconds, before it is an error."""
_MOST_BYTES: Final = 9_500_000
"""Of a message; the service takes 10 MB a request, in which its attributes count."""
_EMULATOR: Final = "PUBSUB_EMULATOR_HOST"


class Topic:
    """One topic.

    Args:
        topic: ``projects/<project>/topics/<topic>``.
        table: of whose records errors speak.
        endpoint: another address of the API.

    Raises:
        RecordsError: Google's library is not installed, or nobody is logged in.
    """

    def __init__(self, topic: str, table: str, endpoint: str | None = None) -> None:
        self._topic, self._table = topic, table
        self._api = _library("google.pubsub_v1")
        retries, errors = _library("google.api_core.retry"), _library("google.api_core.exceptions")
        passing = (
            *(errors.ServiceUnavailable, errors.Aborted, errors.InternalServerError),
            *(errors.DeadlineExceeded, errors.ResourceExhausted, errors.Cancelled),
        )
        self._retry = retries.Retry(retries.if_exception_type(*passing), timeout=_PATIENCE)
        self._client = self._open(endpoint)
        self._senders = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="pubsub")

    def _open(self, endpoint: str | None) -> Any:
        if emulator := os.environ.get(_EMULATOR):
            channel = _library("grpc").insecure_channel(emulator)
            transport = self._api.PublisherClient.get_transport_class("grpc")(channel=channel)
            return self._api.PublisherClient(transport=transport)
        options = {"api_endpoint": endpoint} if endpoint else None
        with self._translated():
            return self._api.PublisherClient(client_options=options)

    def send(self, messages: Sequence[Message]) -> None:
        """See `Queue.send`."""
        by_key: dict[str, list[Any]] = {}
        for one in messages:
            if len(one.body) > _MOST_BYTES:
                raise RecordsError(
                    f"table {self._table}: a record of {len(one.body) / 1e6:.1f} MB "
                    f"(id {one.id}) is larger than Pub/Sub takes (10 MB)",
                    table=self._table,
                    next_step="Leave the large column out (`pii: drop`), or publish the table to "
                    "files",
                )
            fields = {"data": one.body, "attributes": one.attributes}
            made = self._api.PubsubMessage(**fields, ordering_key=one.ordering_key)
            by_key.setdefault(one.ordering_key, []).append(made)
        with self._translated():
            for _ in self._senders.map(self._publish, by_key.values()):
                pass

    def _publish(self, messages: list[Any]) -> None:
        some: list[Any] = []
        size = 0
        for one in messages:
            if some and size + len(one.data) > _MOST_BYTES:
                self._request(some)
                some, size = [], 0
            some.append(one)
            size += len(one.data)
        self._request(some)

    def _request(self, messages: list[Any]) -> None:
        request = {"topic": self._topic, "messages": messages}
        self._client.publish(request=request, retry=self._retry, timeout=_PATIENCE)

    def close(self) -> None:
        """End what is under way, and the connection."""
        self._senders.shutdown(cancel_futures=True)
        self._client.transport.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """What Google says, in our words."""
        errors, auth = _library("google.api_core.exceptions"), _library("google.auth.exceptions")
        try:
            yield
        except auth.GoogleAuthError as error:
            step = "`gcloud auth application-default login` logs you in; a service has an account"
            raise self._refused(f"nobody is logged in: {error}", step) from error
        except errors.NotFound as error:
            step = f"Make the topic, or correct its name: {self._topic}"
            raise self._refused("there is no such topic", step) from error
        except (errors.Forbidden, errors.Unauthenticated) as error:
            step = "Give whoever runs Mirrorlake the role roles/pubsub.publisher on the topic"
            raise self._refused(str(error.message), step) from error
        except errors.RetryError as error:
            words = str(error.cause or error).splitlines()[0]
            raise self._refused(words, "The next run goes on with it", passing=True) from error
        except errors.GoogleAPICallError as error:
            words = str(error.message).splitlines()[0] if error.message else str(error)
            step = "Correct it; the next run goes on with it"
            passing = isinstance(error, errors.ServerError | errors.TooManyRequests)
            raise self._refused(words, step, passing=passing) from error

    def _refused(self, words: str, step: str, *, passing: bool = False) -> RecordsError:
        return RecordsError(
            f"table {self._table}: its records can't be published to {self._topic}: {words}",
            table=self._table,
            next_step=step,
            retryable=passing,
        )


def _library(name: str) -> Any:
    return library(name, "pubsub", "a queue of Pub/Sub", RecordsError)
