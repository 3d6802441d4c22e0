"""What assets, checks and sensors are given: a run's workspace, and its parts opened one by one.

What belongs here: opening and closing, and turning the engine's errors into Dagster's. What
doesn't: anything that reads or writes a table.

============ ==================================================================
`mirrorlake` the run's workspace: opened when first used, closed with the run
`mysql`      sessions with the sources
`lake`       the Iceberg catalog, without Spark
`ledger`     windows, loads, folds
`spark`      the workspace's Spark session, for models of your own
`clean_io`   clean as the input of assets of your own
`gcs`        Google's client, only where a landing is in ``gs://``
============ ==================================================================
"""

import os
from typing import Any

from dagster_mirrorlake.inputs import CLEAN_IO
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.resources.clean_io import CleanIOManager
from dagster_mirrorlake.resources.engine_parts import LakeResource, LedgerResource, MySQLResource
from dagster_mirrorlake.resources.spark import SparkResource
from dagster_mirrorlake.resources.workspace import WorkspaceResource
from mirrorlake.config import Config

__all__ = [
    "CleanIOManager",
    "LakeResource",
    "LedgerResource",
    "MySQLResource",
    "SparkResource",
    "WorkspaceResource",
    "build_resources",
]


def build_resources(
    config_path: str | os.PathLike[str],
    config: Config | None = None,
    names: Names | None = None,
) -> dict[str, Any]:
    """All resources over one contract file; nothing is opened here.

    Args:
        config: what the file says: with landings in ``gs://`` there is a resource for them.
        names: what they are called beside those of other mirrors.
    """
    config_path = os.fspath(config_path)
    workspace = WorkspaceResource(config_path=config_path)
    found = {
        "mirrorlake": workspace,
        "mysql": MySQLResource(config_path=config_path),
        "lake": LakeResource(config_path=config_path),
        "ledger": LedgerResource(config_path=config_path),
        "spark": SparkResource(spark_config={}, workspace=workspace),
        CLEAN_IO: CleanIOManager(workspace=workspace),
        **_gcs(config),
    }
    return {(names or Names()).of(name): resource for name, resource in found.items()}


def _gcs(config: Config | None) -> dict[str, Any]:
    landings = config.landings.values() if config is not None else ()
    endpoints = {one.endpoint for one in landings if one.url.startswith("gs://")}
    if not endpoints:
        return {}
    # Imported here: it takes its time, and most locations need it not.
    from dagster_mirrorlake.resources.gcs import LandingGCSResource

    # Landings at several addresses: each is then reached by a client of the engine's own.
    return {"gcs": LandingGCSResource(endpoint=endpoints.pop() if len(endpoints) == 1 else None)}
