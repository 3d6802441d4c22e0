"""MySQL, mirrored exactly in the lake, and proved: the engine, which knows nothing of Dagster.

The names in ``__all__`` are the public Python API; docs/python.md says what is stable. Each is
imported when it is first used: what a command does not need costs it nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from mirrorlake.config import Config, TableContract, load_config
    from mirrorlake.destinations.base import Identifier
    from mirrorlake.errors import (
        ConfigError,
        LakeError,
        LandingError,
        LedgerError,
        MachineError,
        MirrorlakeError,
        ProofError,
        SchemaError,
        SourceError,
    )
    from mirrorlake.operations.checking.check_layers import LayerReport, prove_layers
    from mirrorlake.operations.loading.fold import fold_table
    from mirrorlake.operations.loading.results import SyncResult
    from mirrorlake.operations.loading.sync import load_table, reload_days, sync_table
    from mirrorlake.operations.loading.sync_tables import sync_tables
    from mirrorlake.operations.loading.unchanged import Look, look_at
    from mirrorlake.operations.repairing.recover import Recovered, recover_table
    from mirrorlake.operations.repairing.refold import Refolded, refold_table
    from mirrorlake.operations.repairing.repair import Repaired, repair_table
    from mirrorlake.operations.schema_changes.table_shapes import Shapes, shapes_of
    from mirrorlake.operations.status.status import status_of
    from mirrorlake.operations.status.table_status import TableStatus
    from mirrorlake.operations.upkeep.maintain import Maintained, maintain_table
    from mirrorlake.proof.comparing.counts import Counts, count_rows
    from mirrorlake.proof.comparing.evidence import prove_table
    from mirrorlake.proof.comparing.report import Ask, Report
    from mirrorlake.runtime.outcomes import Outcome
    from mirrorlake.workspace import Workspace

_PLACES = {
    "mirrorlake.config": ("Config", "TableContract", "load_config"),
    "mirrorlake.destinations.base": ("Identifier",),
    "mirrorlake.errors": (
        *("ConfigError", "LakeError", "LandingError", "LedgerError", "MachineError"),
        *("MirrorlakeError", "ProofError", "SchemaError", "SourceError"),
    ),
    "mirrorlake.operations.checking.check_layers": ("LayerReport", "prove_layers"),
    "mirrorlake.operations.loading.fold": ("fold_table",),
    "mirrorlake.operations.upkeep.maintain": ("Maintained", "maintain_table"),
    "mirrorlake.operations.repairing.recover": ("Recovered", "recover_table"),
    "mirrorlake.operations.repairing.refold": ("Refolded", "refold_table"),
    "mirrorlake.operations.repairing.repair": ("Repaired", "repair_table"),
    "mirrorlake.operations.loading.results": ("SyncResult",),
    "mirrorlake.operations.schema_changes.table_shapes": ("Shapes", "shapes_of"),
    "mirrorlake.operations.status.status": ("status_of",),
    "mirrorlake.operations.status.table_status": ("TableStatus",),
    "mirrorlake.operations.loading.sync": ("load_table", "reload_days", "sync_table"),
    "mirrorlake.operations.loading.sync_tables": ("sync_tables",),
    "mirrorlake.operations.loading.unchanged": ("Look", "look_at"),
    "mirrorlake.proof.comparing.counts": ("Counts", "count_rows"),
    "mirrorlake.proof.comparing.evidence": ("prove_table",),
    "mirrorlake.proof.comparing.report": ("Ask", "Report"),
    "mirrorlake.runtime.outcomes": ("Outcome",),
    "mirrorlake.workspace": ("Workspace",),
}
_MODULES = {name: module for module, names in _PLACES.items() for name in names}

__all__ = [
    "Ask",
    "Config",
    "ConfigError",
    "Counts",
    "Identifier",
    "LakeError",
    "LandingError",
    "LayerReport",
    "LedgerError",
    "Look",
    "MachineError",
    "Maintained",
    "MirrorlakeError",
    "Outcome",
    "ProofError",
    "Recovered",
    "Refolded",
    "Repaired",
    "Report",
    "SchemaError",
    "Shapes",
    "SourceError",
    "SyncResult",
    "TableContract",
    "TableStatus",
    "Workspace",
    "count_rows",
    "fold_table",
    "load_config",
    "load_table",
    "look_at",
    "maintain_table",
    "prove_layers",
    "prove_table",
    "recover_table",
    "refold_table",
    "reload_days",
    "repair_table",
    "shapes_of",
    "status_of",
    "sync_table",
    "sync_tables",
]


if not TYPE_CHECKING:  # it would hide misspelt names from type checkers

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_MODULES]
