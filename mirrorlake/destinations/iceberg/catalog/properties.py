"""Properties by which PyIceberg and Spark open a catalog, without importing either.

What belongs here: what a REST catalog's client need not be imported for; it takes a tenth of a
second, and most lakes have none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

WAIT = "mirrorlake.wait-seconds"
"""How long a catalog of ours waits for an answer."""
SCOPE = "https://www.googleapis.com/auth/cloud-platform"
DELEGATION = "header.X-Iceberg-Access-Delegation"
"""Asks a server to lend logins for files. PyIceberg asks always, Spark never."""
_LOGIN = "mirrorlake.destinations.iceberg.catalog.google_login.GoogleLogin"
_OF_SPARK = "org.apache.iceberg.gcp.auth.GoogleAuthManager"
_PROJECT = "header.x-goog-user-project"


@dataclass(frozen=True)
class GoogleCatalog:
    """A catalog of Google's.

    Attributes:
        project: that has it, and that its requests are billed to.
        name: its own; '' where it has that of its bucket.
    """

    project: str
    name: str
    bucket: str

    def shared(self) -> dict[str, str]:
        """The properties that both clients call alike."""
        named = f"bl://projects/{self.project}/catalogs/{self.name}"
        return {"warehouse": named if self.name else f"gs://{self.bucket}", _PROJECT: self.project}


def google_properties(catalog: GoogleCatalog) -> dict[str, Any]:
    """PyIceberg's properties of a catalog of Google's."""
    login = {"type": "custom", "impl": _LOGIN}
    return {**catalog.shared(), "auth": login}


def google_settings(catalog: GoogleCatalog) -> dict[str, str]:
    """The same for Spark's catalog."""
    login = {"rest.auth.type": _OF_SPARK, "rest-metrics-reporting-enabled": "false"}
    return {**catalog.shared(), **login, "gcp.auth.scopes": SCOPE}
