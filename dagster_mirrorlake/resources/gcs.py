"""Google Cloud Storage: the client by which this process looks at landings in ``gs://``."""

from typing import Any

from dagster_gcp.gcs import GCSResource
from pydantic import Field

from mirrorlake.config import LandingConfig
from mirrorlake.sources.files.gcs_store import gcs_client, use_client


class LandingGCSResource(GCSResource):
    """Dagster's GCS resource, with the address of the API.

    Give the location your own ``GCSResource`` under the name ``gcs`` to log in otherwise. Spark's
    workers make their own clients, by what their machines are logged in with.
    """

    endpoint: str | None = Field(
        default=None, description="Another address of the API; over http:// nobody logs in."
    )

    def get_client(self) -> Any:
        """Google's client.

        Raises:
            LandingError: nobody is logged in.
        """
        return gcs_client(self.endpoint, self.project)


def reach(resources: Any, landing: LandingConfig) -> None:
    """Let this process read a landing by the location's own client; nothing elsewhere."""
    if landing.url.startswith("gs://"):
        # Dagster hands out the client of a GCSResource in its place.
        found = resources.gcs
        client = found.get_client() if isinstance(found, GCSResource) else found
        if landing.endpoint in (None, client.api_endpoint):  # else it is another landing's
            use_client(landing.endpoint, client)
