"""This repository's own deployment, as Dagster's server loads it: one contract file, and what is
made of it. Teams with a Dagster project of their own use `dagster_mirrorlake` instead.
"""

from pathlib import Path

import dagster as dg

from assets import all_assets
from checks import all_checks
from dagster_mirrorlake.build import Mirror, build_jobs
from dagster_mirrorlake.executor import threads_executor
from dagster_mirrorlake.location import config_path, few_collections, find_config, sensors_run
from resources import all_resources
from sensors import all_schedules, all_sensors


def load(path: Path) -> dg.Definitions:
    """The definitions of the contract file at ``path``; none if it isn't there."""
    config = find_config(path)
    if config is None:
        return dg.Definitions()
    mirror = Mirror(config, running=sensors_run())
    return dg.Definitions(
        assets=all_assets(mirror),
        asset_checks=all_checks(mirror),
        jobs=build_jobs(mirror),
        sensors=all_sensors(mirror),
        schedules=all_schedules(mirror),
        resources=all_resources(mirror),
        # Steps of a run are threads of one process, and so share one JVM.
        executor=threads_executor,
    )


with few_collections():
    defs = load(config_path(Path(__file__).parent))
