"""Mirrorlake in a Dagster project: every source table as a chain of partitioned assets, with
checks, sensors and schedules.

What belongs here: assets, checks, resources, sensors, jobs, and the functions that put them
together. What doesn't: how a table is loaded, folded or proved (`mirrorlake`).

A whole code location is `build_definitions`; a part of one, `build_assets` and its neighbours, or
`MirrorlakeComponent` in YAML. Each name is imported when it is first used.
"""

import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

# One per asset otherwise. What we use of Dagster in beta or preview, we mean to use; other people's
# code is still told.
warnings.filterwarnings(
    "ignore", message=r".*is currently in (?:beta|preview)", module=rf"{__name__}(?:\.|$)"
)
# Dagster names itself as the one that uses it.
warnings.filterwarnings(
    "ignore", message="Parameter `backfill_policy` of function `asset`", module=r"dagster\."
)

if TYPE_CHECKING:
    from dagster_mirrorlake.build import (
        build_asset_checks,
        build_assets,
        build_definitions,
        build_jobs,
        build_schedules,
        build_sensors,
    )
    from dagster_mirrorlake.component import MirrorlakeComponent
    from dagster_mirrorlake.executor import threads_executor
    from dagster_mirrorlake.inputs import clean_input, clean_of
    from dagster_mirrorlake.location import load_definitions
    from dagster_mirrorlake.resources import (
        CleanIOManager,
        LakeResource,
        LedgerResource,
        MySQLResource,
        SparkResource,
        WorkspaceResource,
        build_resources,
    )
    from dagster_mirrorlake.selection import select_tables
    from dagster_mirrorlake.table import MirroredTable
    from dagster_mirrorlake.translator import LayerData, MirrorlakeTranslator, TenantLayerData

_PLACES = {
    "build": (
        *("build_asset_checks", "build_assets", "build_definitions", "build_jobs"),
        *("build_schedules", "build_sensors"),
    ),
    "component": ("MirrorlakeComponent",),
    "executor": ("threads_executor",),
    "inputs": ("clean_input", "clean_of"),
    "location": ("load_definitions",),
    "resources": (
        *("LakeResource", "LedgerResource", "MySQLResource", "SparkResource"),
        *("CleanIOManager", "WorkspaceResource", "build_resources"),
    ),
    "selection": ("select_tables",),
    "table": ("MirroredTable",),
    "translator": ("LayerData", "MirrorlakeTranslator", "TenantLayerData"),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _PLACES.items() for name in names}

__all__ = [
    "CleanIOManager",
    "LakeResource",
    "LayerData",
    "LedgerResource",
    "MirroredTable",
    "MirrorlakeComponent",
    "MirrorlakeTranslator",
    "MySQLResource",
    "SparkResource",
    "TenantLayerData",
    "WorkspaceResource",
    "build_asset_checks",
    "build_assets",
    "build_definitions",
    "build_jobs",
    "build_resources",
    "build_schedules",
    "build_sensors",
    "clean_input",
    "clean_of",
    "load_definitions",
    "select_tables",
    "threads_executor",
]


if not TYPE_CHECKING:  # it would hide misspelt names from type checkers

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    # Where Dagster's command line looks for components.
    return sorted({*globals(), *__all__})
