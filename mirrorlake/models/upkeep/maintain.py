"""Maintenance of the lake tables of models: what is kept no more goes, small files are taken
together, old versions expire, orphans are removed.

What belongs here: one model's table. What doesn't: what is done to a lake table
(`mirrorlake.operations.upkeep.maintain`).
"""

from __future__ import annotations

from mirrorlake.destinations.iceberg.commits.heads import ModelTable
from mirrorlake.models.compile.model import Project
from mirrorlake.models.external_sources.tables import OF_MODEL
from mirrorlake.models.partition_states.drop_expired import drop_gone
from mirrorlake.models.partition_states.lake_tables import table_of_model
from mirrorlake.models.partition_states.table_history import settle_records
from mirrorlake.operations.other_writers.moved_layers import refuse_removal
from mirrorlake.operations.upkeep.maintain import Ages, Maintained, maintain_lake_table
from mirrorlake.operations.upkeep.orphans import refuse_short_grace
from mirrorlake.workspace import Workspace


def stored_models(workspace: Workspace, project: Project) -> list[str]:
    """The models that have tables, by name: those that do not compile now, too. A table that no
    model made is nobody's here.

    Raises:
        LakeError: the lake can't be read.
    """
    names = sorted({*project.models, *project.unfinished})
    tables = {name: workspace.lake.load(table_of_model(name)) for name in names}
    return [
        name
        for name, table in tables.items()
        if table is not None and table.properties.get(OF_MODEL) == name
    ]


def maintain_model(
    workspace: Workspace, project: Project, name: str, ages: Ages | None = None
) -> list[Maintained]:
    """Drop what a model keeps no more, and compact, expire and clean up its table. A step that
    fails is reported in ``error``.

    Partitions stay computed as far as the ledger has their records: with the commits that expire
    goes what could find them again, were it lost.

    Raises:
        ConfigError: the grace is too short for a lake that a Connect server writes.
        LeaseHeld: a run computes the model.
        LakeError, LedgerError
    """
    ages = ages or Ages()
    refuse_short_grace(workspace.config, ages.grace)
    held = ModelTable(name, table_of_model(name))
    with workspace.leased(held, wait=False) as own:
        refuse_removal(own, held)
        model = project.models.get(name)
        if model is not None and not model.declaration.is_view and not ages.dry_run:
            if not project.problems:  # a reader that does not compile may be one that needs them
                drop_gone(own, model)
            settle_records(own.lake, own.ledger, model)
        if own.lake.load(table_of_model(name)) is None:
            return []
        return [maintain_lake_table(own, table_of_model(name), "model", ages)]
