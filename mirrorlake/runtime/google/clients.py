"""Google's libraries: imported when a client is opened, patient, and their errors in our words."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from mirrorlake.errors import BigQueryError
from mirrorlake.runtime import extras
from mirrorlake.runtime.google.quotas import PASSING, QUOTA_STEP, USED_UP, reason_of

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud import bigquery, storage

PATIENCE = 60.0
"""How long a request is tried again, in seconds, before it is an error."""
JOB_PATIENCE = 60.0
"""How long a job that Google refuses for a while is begun again, in seconds."""
LOOK_PATIENCE = 10.0
"""The same of a mere look, which sensors repeat anyway."""
ANSWER_SECONDS = 120.0
"""How long nothing may come of an answer: a request for a job's end is answered after 10 s."""
_T = TypeVar("_T")
_BELOW_GOOGLE = ("requests.", "urllib3.")
_OF_GOOGLE = ("google.", *_BELOW_GOOGLE)


def open_warehouse(project: str, location: str | None) -> bigquery.Client:
    """A client of BigQuery, as whoever runs Mirrorlake is logged in; an emulator's where
    ``BIGQUERY_EMULATOR_HOST`` names one.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """
    endpoint = _endpoint("BIGQUERY_EMULATOR_HOST")
    with translated(f"project {project}"):
        client = library("google.cloud.bigquery").Client(
            project=project,
            location=location,
            credentials=_nobody() if endpoint else None,
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )
        _bound(client._http)
    return client


def open_storage(project: str) -> storage.Client:
    """A client of Cloud Storage; an emulator's where ``STORAGE_EMULATOR_HOST`` names one.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """
    endpoint = _endpoint("STORAGE_EMULATOR_HOST")
    with translated(f"project {project}"):
        client = library("google.cloud.storage").Client(
            project=project,
            credentials=_nobody() if endpoint else None,
            client_options={"api_endpoint": endpoint} if endpoint else None,
        )
        _bound(client._http)
    return client


def open_session(variable: str, project: str, scopes: Sequence[str]) -> AuthorizedSession:
    """A session for what Google's clients have no method for, as whoever runs Mirrorlake is logged
    in; nobody is where ``variable`` names an emulator.

    Args:
        project: whose quota the requests count against.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """
    auth = library("google.auth")
    with translated(f"project {project}"):
        if _endpoint(variable):
            credentials = _nobody()
        else:
            credentials, _ = auth.default(scopes=scopes, quota_project_id=project)
        session = library("google.auth.transport.requests").AuthorizedSession(credentials)
        _bound(session)
    return session


def _bound(session: AuthorizedSession) -> None:
    # Every command knows the names of BigQuery's tables, few send a request.
    from mirrorlake.runtime.http_waits import bound_session

    bound_session(session, ANSWER_SECONDS)


def address_of(variable: str, official: str) -> str:
    """Where an API answers: an emulator's address, or Google's."""
    return _endpoint(variable) or official


def _endpoint(variable: str) -> str | None:
    """An emulator's address, where there is one."""
    found = os.environ.get(variable)
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def is_emulated() -> bool:
    """Whether an emulator answers for BigQuery."""
    return _endpoint("BIGQUERY_EMULATOR_HOST") is not None


def _nobody() -> Any:
    return library("google.auth.credentials").AnonymousCredentials()


def library(name: str) -> Any:
    """A module of Google's.

    Raises:
        BigQueryError: it is not installed.
    """
    return extras.library(name, "bigquery", "BigQuery", BigQueryError)


def patience(of: Literal["bigquery", "storage"], seconds: float | None = None) -> Any:
    """How requests are tried again. By Google's own rule for as long as ten minutes."""
    rule = library(f"google.cloud.{of}.retry").DEFAULT_RETRY
    return rule.with_timeout(PATIENCE if seconds is None else seconds)


def again_while(passes: Callable[[Exception], bool], act: Callable[[], _T]) -> _T:
    """What ``act`` gives: with pauses that grow, as long as it fails of what passes by itself, and
    for `JOB_PATIENCE` at most. What it fails of then is raised as it came."""
    retry = library("google.api_core.retry")
    rule = retry.Retry(predicate=passes, initial=2.0, maximum=20.0, timeout=JOB_PATIENCE)
    try:
        return rule(act)()
    except library("google.api_core.exceptions").RetryError as error:
        raise error.cause from None


@contextmanager
def translated(what: str) -> Iterator[None]:
    """An error of Google's libraries within the block is a BigQueryError that says what it was
    about."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(_OF_GOOGLE):
            raise
        raise _as_ours(what, error) from error


def is_missing(error: Exception) -> bool:
    """Whether Google says that something is not there."""
    return getattr(error, "code", None) == 404


def _words_of(error: Exception) -> str:
    """What an error says; of a server that can't be reached, why."""
    said = str(getattr(error, "message", None) or error).split("\n", 1)[0]
    if not type(error).__module__.startswith(_BELOW_GOOGLE):
        return said
    why = re.search(r"\[Errno -?\d+\] ([^'\")]+)", said)
    return why[1] if why else type(error).__name__


def _as_ours(what: str, error: Exception) -> BigQueryError:
    """An error of Google's libraries in our words."""
    last = getattr(error, "cause", None)
    if isinstance(last, Exception):
        # The end of patience: what it was that did not pass says more.
        return _as_ours(f"{what}, tried again and again", last)
    if type(error).__name__ in ("DefaultCredentialsError", "RefreshError"):
        return BigQueryError(
            f"{what}: nobody is logged in to Google Cloud, or the login has expired",
            next_step="Log in: gcloud auth application-default login, or set "
            "GOOGLE_APPLICATION_CREDENTIALS",
        )
    code = getattr(error, "code", None)
    words = _words_of(error)
    reason = reason_of(error)
    if reason == USED_UP:
        return BigQueryError(f"{what}: a quota is used up ({words})", next_step=QUOTA_STEP)
    if code in (401, 403) and reason not in PASSING:
        return BigQueryError(
            f"{what}: Google Cloud refused it ({words})",
            next_step="Give the account that runs Mirrorlake the roles of docs/bigquery.md",
        )
    passing = not isinstance(code, int) or code >= 500 or code == 429 or reason in PASSING
    return BigQueryError(
        f"{what}: Google Cloud could not do it ({words})",
        next_step="Nothing was changed; see that it can be reached, then try again"
        if passing
        else "Nothing was changed; what it says is wrong is to be put right there",
        retryable=passing,
    )
