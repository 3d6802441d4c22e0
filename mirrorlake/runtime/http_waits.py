"""Requests over HTTP: none waits without end for a server that sends nothing.

``requests`` has no limit by default, and Google's client of BigQuery passes none on.
"""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter


class BoundAdapter(HTTPAdapter):
    """Waits at most ``seconds`` for a connection, and for each piece of an answer, where the
    caller sets no limit of its own."""

    def __init__(self, seconds: float, **options: Any) -> None:
        super().__init__(**options)
        self._seconds = seconds

    def send(self, *arguments: Any, **options: Any) -> requests.Response:
        if options.get("timeout") is None:
            options["timeout"] = self._seconds
        return super().send(*arguments, **options)


def bound_session(session: requests.Session, seconds: float) -> None:
    """Have all requests of a session wait no longer than that."""
    for scheme in ("http://", "https://"):
        session.mount(scheme, BoundAdapter(seconds))
