"""How a step or a sensor reaches the landing of a table of mode ``snapshot``."""

from typing import Any

from mirrorlake.config import Config, TableContract


def reach_landing(resources: Any, config: Config, contract: TableContract) -> None:
    """Let this process read a table's landing: one in ``gs://`` by the location's own client.

    Args:
        resources: the mirror's.
    """
    landing = config.landings[contract.source]
    if landing.url.startswith("gs://"):
        # Google's client takes a second to import.
        from dagster_mirrorlake.resources.gcs import reach

        reach(resources, landing)
