"""Requests to APIs of Google's that its clients have no method for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mirrorlake.runtime.google.clients import address_of, library, open_session, patience

if TYPE_CHECKING:
    from google.auth.transport.requests import AuthorizedSession

Json: TypeAlias = Mapping[str, Any]
_TIMEOUT: Final = 60


@dataclass(frozen=True)
class JsonApi:
    """One API, spoken to in JSON."""

    _session: AuthorizedSession
    _address: str

    def answer(
        self, verb: str, path: str, body: Json | None = None, query: Json | None = None
    ) -> Json:
        """What a request gives; what Google refuses for a while is requested again.

        Raises:
            GoogleAPICallError, RetryError: as Google's own clients raise them.
        """

        def send() -> Json:
            answer = self._session.request(
                verb, f"{self._address}/{path}", json=body, params=query, timeout=_TIMEOUT
            )
            if answer.status_code >= 400:
                raise library("google.api_core.exceptions").from_http_response(answer)
            return answer.json() if answer.content else {}

        return patience("bigquery")(send)()

    def pages(self, path: str, query: Json) -> Sequence[Json]:
        """All pages of a list.

        Raises:
            GoogleAPICallError, RetryError: as of `answer`.
        """
        found: list[Json] = []
        token = ""
        while token or not found:
            found.append(self.answer("GET", path, query={**query, "pageToken": token}))
            token = str(found[-1].get("nextPageToken") or "")
        return found


def open_api(variable: str, address: str, project: str, scopes: Sequence[str]) -> JsonApi:
    """An API at Google's ``address``, or at that of the emulator which ``variable`` names.

    Args:
        project: whose quota the requests count against.

    Raises:
        BigQueryError: Google's library is not installed, or nobody is logged in.
    """
    return JsonApi(open_session(variable, project, scopes), address_of(variable, address))
