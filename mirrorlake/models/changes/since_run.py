"""What the models of the working tree change of those that were run last.

A model is *run* as it was when a run last wrote to its table; the ledger has its columns of then. A
dropped or retyped column breaks every model that reads it, and each place is listed with its file
and line; a new column breaks nothing. A query that changed has its partitions computed again.

What belongs here: the comparison. What doesn't: the state of each partition
(`mirrorlake.models.partition_states.states`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.column_uses import readings
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.partition_states.lake_tables import RECORDED
from mirrorlake.models.spark_sql.columns import broken_columns
from mirrorlake.operations.planning.computed import ModelChange


def record_model(ledger: Ledger, model: Model) -> None:
    """Keep what a model is as it is run now; nothing is written where that is the same."""
    said = {
        "fingerprint": model.fingerprint,
        "columns": [[one.name, one.value.type] for one in model.fields],
        "partition_by": list(model.declaration.partition_by),
        "materialized": model.declaration.materialized,
    }
    if model.declaration.retention is not None:
        said["retention"] = model.declaration.retention.text
    text = json.dumps(said, ensure_ascii=False)
    if ledger.definition(f"{RECORDED}{model.name}") != text:
        ledger.record_definition(f"{RECORDED}{model.name}", text)


def plan_models(project: Project, ledger: Ledger) -> list[ModelChange]:
    """Compare all models that compile with those that were run, by name.

    Raises:
        LedgerError: the ledger can't be read.
    """
    run = {
        name.removeprefix(RECORDED): json.loads(text)
        for name, text in ledger.definitions(RECORDED).items()
    }
    found = [_compared(project, model, run.get(name)) for name, model in project.models.items()]
    there = {*project.models, *project.unfinished}
    found += [
        ModelChange(
            name, "removed", (f"its table {name} stays until `mirrorlake models prune` drops it",)
        )
        for name in run
        if name not in there
    ]
    return sorted(found, key=lambda one: one.model)


def _compared(project: Project, model: Model, before: Mapping[str, object] | None) -> ModelChange:
    if before is None:
        return ModelChange(model.name, "added")
    kept = _retention_words(model, before.get("retention"))
    if before["fingerprint"] == model.fingerprint and before["partition_by"] == list(
        model.declaration.partition_by
    ):
        return ModelChange(model.name, "changed" if kept else "unchanged", kept)
    columns = before["columns"]
    assert isinstance(columns, list)  # noqa: S101
    was = {str(name): str(kind) for name, kind in columns}
    now = {one.name: one.value.type for one in model.fields}
    broken = broken_columns(was, now)
    words = [
        *kept,
        *broken.values(),
        *(f"{name} {kind} is new" for name, kind in now.items() if name not in was),
    ]
    if before["partition_by"] != list(model.declaration.partition_by):
        words.append("its partitions are by other columns")
    elif len(words) == len(kept):
        words.append("the query changed: its partitions are computed again")
    breaking = bool(broken) or before["partition_by"] != list(model.declaration.partition_by)
    readers = tuple(_readers(project, model.name, list(broken)))
    return ModelChange(model.name, "breaking" if breaking else "changed", tuple(words), readers)


def _retention_words(model: Model, before: object) -> tuple[str, ...]:
    """That partitions are kept for another time than before."""
    retention = model.declaration.retention
    now = retention.text if retention is not None else None
    if now == before:
        return ()
    kept, gone = f"kept for {now or 'ever'}", f"{len(model.gone):,} are no longer kept"
    return (f"its partitions were kept for {before or 'ever'}, and are {kept}: {gone}",)


def _readers(project: Project, table: str, columns: Sequence[str]) -> Iterator[str]:
    """The places where models read some columns of a model."""
    wanted = {name.lower() for name in columns}
    there = [one.name for one in project.models[table].fields]
    for name in project.readers.get(table, ()):
        for one in readings(project.models[name], table, there):
            if one.column in wanted:
                yield f"{one.place}: {name} reads {one.column}"
