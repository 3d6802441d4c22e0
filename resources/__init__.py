"""What assets, checks and sensors are given: the engine, and its parts opened one by one.

What belongs here: opening and closing, and turning the engine's errors into Dagster's. What
doesn't: anything that reads or writes a table.

========== ===================================================================
`engine`   the whole engine, for one run: opened when first used, closed with it
`mysql`    sessions with the sources
`lake`     the Iceberg catalog, without Spark
`ledger`   windows, loads, folds
`spark`    the engine's Spark session, for models of your own
========== ===================================================================
"""

from typing import Any

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


def build_resources(config_path: str) -> dict[str, Any]:
    """All resources over one contract file; nothing is opened here."""
    engine = EngineResource(config_path=config_path)
    return {
        "engine": engine,
        "mysql": MySQLResource(config_path=config_path),
        "lake": LakeResource(config_path=config_path),
        "ledger": LedgerResource(config_path=config_path),
        "spark": SparkResource(spark_config={}, engine=engine),
    }
