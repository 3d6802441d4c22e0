"""PyIceberg's client of a REST catalog, which waits for no answer for ever, and what such servers
answer, as errors of ours.

A read is asked again where the server is busy or away for a moment. A commit never is: it may have
been made though no answer came, and a second one would be refused, or be made as well.

Source: Iceberg REST catalog specification, "Response codes of updateTable": after 500, 502, 503 and
504 the state of a commit is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pydantic
import requests
from pyiceberg.catalog.rest import API_PREFIX, Endpoint, HttpMethod, RestCatalog
from pyiceberg.exceptions import (
    AuthorizationExpiredError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    OAuthError,
    RESTError,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    UnauthorizedError,
)
from pyiceberg.table import CommitTableRequest
from urllib3.util import Retry

from mirrorlake.config.fields import hide_url
from mirrorlake.destinations.iceberg.catalog.properties import DELEGATION, WAIT
from mirrorlake.errors import CatalogFailed, LakeError
from mirrorlake.runtime.http_waits import BoundAdapter

_OF_PROPERTIES = "Look at what lake.catalog.properties says of it (token, credential, scope)"
_OF_GOOGLE = (
    "See that the account is the one that you mean; give it roles/biglake.editor and "
    "roles/serviceusage.serviceUsageConsumer on the project {}"
)
_BUSY = (429, 502, 503, 504)
_TOGETHER = "transactions/commit"
_UNKNOWN = (500, 502, 503, 504)
_REFUSED = (UnauthorizedError, ForbiddenError, OAuthError, AuthorizationExpiredError)
_FAILED = (
    CommitStateUnknownException,
    ServerError,
    ServiceUnavailableError,
    TooManyRequestsError,
    requests.RequestException,
)


class RestLakeCatalog(RestCatalog):
    """The lake's catalog, where a REST server keeps it."""

    @property
    def commits_together(self) -> bool:
        """Whether the server says that it commits to several tables at once."""
        path = f"{API_PREFIX}/{_TOGETHER}"
        return Endpoint(http_method=HttpMethod.POST, path=path) in self._supported_endpoints

    def commit_together(self, changes: Sequence[CommitTableRequest]) -> None:
        """Commit to several tables at once: to all of them, or to none.

        Raises:
            CommitFailedException: a requirement of one is not met; nothing was changed.
            CommitStateUnknownException: the server failed, before or after.

        Source: Iceberg REST catalog specification, "commitTransaction".
        """
        sent = {"table-changes": [json.loads(one.model_dump_json()) for one in changes]}
        url = self.url(_TOGETHER, prefixed=True)
        answer = self._session.post(url, data=json.dumps(sent).encode())
        if answer.status_code == 409:
            raise CommitFailedException(answer.text)
        if answer.status_code in _UNKNOWN:
            raise CommitStateUnknownException(answer.text)
        answer.raise_for_status()

    def _create_session(self) -> requests.Session:
        session = super()._create_session()
        patient = _Patient(float(self.properties[WAIT]))
        for scheme in ("http://", "https://"):
            session.mount(scheme, patient)
        if "auth" in self.properties and DELEGATION not in self.properties:
            # A login that is lent for an hour is not renewed here: files are opened by our own.
            session.headers.pop(DELEGATION.removeprefix("header."), None)
        return session


class _Patient(BoundAdapter):
    """Waits that many seconds for each answer, and repeats requests that only read."""

    def __init__(self, seconds: float) -> None:
        again = Retry(
            total=2,
            backoff_factor=0.2,
            status_forcelist=_BUSY,
            allowed_methods=("GET", "HEAD"),
            raise_on_status=False,
        )
        super().__init__(seconds, max_retries=again)


@contextmanager
def rest_errors(uri: str, what: object, project: str | None = None) -> Iterator[None]:
    """Turn what a REST catalog answers, or that it does not, into LakeErrors.

    Args:
        project: of a catalog of Google's.
    """
    try:
        yield
    except _REFUSED as error:
        raise LakeError(
            f"the catalog {hide_url(uri)} refuses this account: {_words(error)}",
            next_step=_OF_GOOGLE.format(project) if project else _OF_PROPERTIES,
            table=str(what),
        ) from error
    except _FAILED as error:
        raise CatalogFailed(
            f"the catalog {hide_url(uri)} failed, or can't be reached: {_words(error)}",
            next_step="See that it runs, and try again",
            table=str(what),
            retryable=True,
        ) from error
    except (RESTError, NotImplementedError, pydantic.ValidationError) as error:
        raise LakeError(
            f"the catalog {hide_url(uri)} can't do what was requested: {_words(error)}",
            next_step="See its log; and that lake.catalog.uri is a REST catalog's address",
            table=str(what),
        ) from error


def _words(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
