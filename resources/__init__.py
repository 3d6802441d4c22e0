"""What assets, checks and sensors are given: the engine, and its parts opened one by one.

What belongs here: opening and closing, and turning the engine's errors into Dagster's. What
doesn't: anything that reads or writes a table.

========== ===================================================================
`engine`   the whole engine, for one run: opened when first used, closed with it
`mysql`    sessions with the sources
`lake`     the Iceberg catalog, without Spark
`ledger`   windows, loads, folds
`spark`    the engine's Spark session, for models of your own
`gcs`      Google's client, only where a landing is in ``gs://``
========== ===================================================================
"""

from typing import Any

from mirrorlake.config import Config
from resources.engine import EngineResource
from resources.parts import LakeResource, LedgerResource, MySQLResource
from resources.spark import SparkResource

__all__ = [
    "EngineResource",
    "LakeResource",
    "LedgerResource",
    "MySQLResource",
    "SparkResource",
    "build_resources",
]


def build_resources(config_path: str, config: Config | None = None) -> dict[str, Any]:
    """All resources over one contract file; nothing is opened here.

    Args:
        config: what the file says: with landings in ``gs://`` there is a resource for them.
    """
    engine = EngineResource(config_path=config_path)
    return {
        "engine": engine,
        "mysql": MySQLResource(config_path=config_path),
        "lake": LakeResource(config_path=config_path),
        "ledger": LedgerResource(config_path=config_path),
        "spark": SparkResource(spark_config={}, engine=engine),
        **_gcs(config),
    }


def _gcs(config: Config | None) -> dict[str, Any]:
    landings = config.landings.values() if config is not None else ()
    endpoints = {one.endpoint for one in landings if one.url.startswith("gs://")}
    if not endpoints:
        return {}
    # Imported here: it takes its time, and most locations need it not.
    from resources.gcs import LandingGCSResource

    # Landings at several addresses: each is then reached by a client of the engine's own.
    return {"gcs": LandingGCSResource(endpoint=endpoints.pop() if len(endpoints) == 1 else None)}
