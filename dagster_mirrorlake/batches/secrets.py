"""Secrets of a batch, read where it runs: no argument, property or description of it has one.

Source: Google Cloud, "Secret Manager API: projects.secrets.versions.access".
"""

import base64
from collections.abc import Mapping
from typing import Any

from mirrorlake.errors import ConfigError
from mirrorlake.runtime.google.clients import library

_GOOGLE = "https://secretmanager.googleapis.com"


def read_secrets(names: Mapping[str, str], endpoint: str | None = None) -> dict[str, str]:
    """The values of secrets in Secret Manager.

    Args:
        names: environment variable → ``projects/<project>/secrets/<name>/versions/<version>``.
        endpoint: another server in its place, to which nobody logs in.

    Raises:
        ConfigError: one can't be read.
    """
    if not names:
        return {}
    session = library("requests").Session() if endpoint else _session()
    place = endpoint or _GOOGLE
    return {variable: _read(session, place, variable, name) for variable, name in names.items()}


def _session() -> Any:
    credentials, _ = library("google.auth").default(
        scopes=["https://www.googleapis.com/auth/cloud-platform"]
    )
    return library("google.auth.transport.requests").AuthorizedSession(credentials)


def _read(session: Any, endpoint: str, variable: str, name: str) -> str:
    answer = session.get(f"{endpoint}/v1/{name}:access", timeout=30)
    if answer.status_code != 200:
        raise ConfigError(
            f"the secret {name} of {variable} can't be read: {answer.status_code}",
            next_step="See its name, and that the batch's account may read it "
            "(roles/secretmanager.secretAccessor)",
        )
    return base64.b64decode(answer.json()["payload"]["data"]).decode()
