"""The code location, as Dagster's server loads it.

``MIRRORLAKE_CONFIG`` names the contract file; without it, ``mirrorlake.yaml`` in the working
folder or beside this file. Only that file is read when the location loads: nothing is opened.
``MIRRORLAKE_SENSORS=on`` has sensors and the schedule on from the start; else a person turns them
on.
"""

import logging
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterUserCodeProcessError
from dagster_shared.error import SerializableErrorInfo

from assets import build_chain, build_cleanup, build_days, build_maintenance, build_snapshot_chain
from checks import build_checks, build_snapshot_checks
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError
from resources import build_resources
from resources.contracts import read_config
from sensors import (
    build_alerts_sensor,
    build_cleanup_schedule,
    build_landed_sensor,
    build_maintenance_schedule,
    build_moved_sensor,
    build_proof_schedule,
    build_schedule,
    build_unfolded_sensor,
    failed_runs,
)

logger = logging.getLogger("mirrorlake.location")
# One per asset otherwise: single-run backfills are in beta, and we mean to use them.
warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*backfill_policy.*")


def config_path() -> Path:
    """Where the contract file is, or would be."""
    if named := os.environ.get("MIRRORLAKE_CONFIG"):
        return Path(named).absolute()
    here = Path.cwd() / "mirrorlake.yaml"
    return here if here.exists() else Path(__file__).absolute().parent / "mirrorlake.yaml"


def build_definitions(
    config: Config, resources: Mapping[str, Any] | None = None, *, running: bool = False
) -> dg.Definitions:
    """Everything that Dagster is told of a config.

    Args:
        config: the contracts.
        resources: replaces resources by name; tests give their own.
        running: whether sensors and the schedule are on until someone turns them off.
    """
    days = build_days(config.tables)
    by_source = {s: [c for c in config.tables if c.source == s] for s in config.sources}
    watched = {source: tables for source, tables in by_source.items() if tables}
    return dg.Definitions(
        assets=[
            *(asset for c in config.tables for asset in build_chain(c, days)),
            *(
                asset
                for c in config.snapshots
                for asset in build_snapshot_chain(c, _needs(config, c))
            ),
            *(build_cleanup(source) for source in watched),
            *([build_maintenance()] if config.tables or config.snapshots else []),
        ],
        asset_checks=[
            *(check for c in config.tables for check in build_checks(c)),
            *(
                check
                for c in config.snapshots
                for check in build_snapshot_checks(c, _needs(config, c))
            ),
        ],
        sensors=[
            failed_runs,
            *(
                build_moved_sensor(s, tables, config.sources[s].every, running=running)
                for s, tables in watched.items()
            ),
            *(build_landed_sensor(c, _needs(config, c), running=running) for c in config.snapshots),
            *([build_alerts_sensor(config, running=running)] if config.alerts.hooks else []),
            *([build_unfolded_sensor(config.tables, running=running)] if config.tables else []),
        ],
        schedules=[
            *(
                [build_maintenance_schedule(running=running)]
                if config.tables or config.snapshots
                else []
            ),
            *_schedules(config, running=running),
        ],
        resources={**build_resources(str(config.path), config), **(resources or {})},
        # All steps of a run share one process, and so one JVM.
        executor=dg.in_process_executor,
    )


def _schedules(config: Config, *, running: bool) -> list[dg.ScheduleDefinition]:
    """Those of the tables that a server has."""
    builds = (build_schedule, build_cleanup_schedule, build_proof_schedule)
    return [build(config.tables, running=running) for build in builds if config.tables]


def _needs(config: Config, contract: TableContract) -> frozenset[str]:
    """What must be given to whatever reads a table's landing."""
    return frozenset({"gcs"} if config.landings[contract.source].url.startswith("gs://") else ())


def load_definitions(path: Path) -> dg.Definitions:
    """The definitions of the file at ``path``; none if it isn't there.

    Raises:
        DagsterUserCodeProcessError: the file says something that can't be kept. The location then
        shows
            that message alone.
    """
    if not path.exists():
        logger.warning(
            "There is no contract file %s: the location is empty. Write one with "
            "`mirrorlake init`, or name yours in MIRRORLAKE_CONFIG, and reload",
            path,
        )
        return dg.Definitions()
    try:
        running = os.environ.get("MIRRORLAKE_SENSORS") == "on"
        return build_definitions(read_config(str(path)), running=running)
    except ConfigError as error:
        raise without_trace(error) from None


def without_trace(error: ConfigError) -> DagsterUserCodeProcessError:
    """The error as Dagster shows it without a stack: the message is all there is to know."""
    info = SerializableErrorInfo(f"{error}\n", [], "ConfigError")
    return DagsterUserCodeProcessError(str(error), user_code_process_error_infos=[info])


defs = load_definitions(config_path())
