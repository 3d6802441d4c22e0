"""What models left in the lake: partitions that are under ``for`` no more, and the tables and views
of models whose files are gone.

It is planned first, and dropped by those words alone. Nothing goes that no model made.

What belongs here: finding it, and dropping it. What doesn't: partitions that a model's retention
keeps no more (`mirrorlake.models.partition_states.drop_expired`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mirrorlake.destinations.iceberg.commits.heads import ModelTable
from mirrorlake.destinations.iceberg.commits.partition_drop import drop_parts
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import partitions_there
from mirrorlake.destinations.iceberg.tables.views import forget_view
from mirrorlake.errors import ModelError
from mirrorlake.failpoints import failpoint
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.lake_heads import OF_MODELS
from mirrorlake.models.compile.model import Model, Project
from mirrorlake.models.external_sources.tables import OF_MODEL
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.models.partition_states.drop_expired import uncovered_keys
from mirrorlake.models.partition_states.dropped_commits import DROPPED, PartitionDrop
from mirrorlake.models.partition_states.lake_tables import RECORDED, model_table, table_of_model
from mirrorlake.models.partition_states.table_history import key_of_values
from mirrorlake.operations.publishers import PUBLISHERS
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class Leftover:
    """What one model left.

    Attributes:
        what: ``partitions`` that are under ``for`` no more, or a ``table`` or ``view`` whose model
            is gone; ``record``: the ledger alone knows of it any more.
        keys: the partitions.
        rows: of a table, or of partitions, as far as is known.
        kept: why it stays unless it is named; empty of what goes.
        there: what a publisher has of it, and keeps.
    """

    model: str
    what: Literal["partitions", "table", "view", "record"]
    keys: tuple[str, ...] = ()
    rows: int | None = None
    kept: str = ""
    there: str = ""


def find_leftovers(
    lake: Lake, ledger: Ledger, project: Project, names: Collection[str] = ()
) -> list[Leftover]:
    """What could be dropped, by model. Of a model that does not compile nothing is: its file is
    there, and which partitions it has is not known.

    Args:
        names: of models; none: all.

    Raises:
        ModelError: one that is named does not compile, or left nothing; or a file is wrong of which
            it can't be said whose it is.
        LakeError, LedgerError
    """
    named = {id(why) for why in project.unfinished.values()}
    if nameless := [one for one in project.problems if id(one) not in named]:
        raise ModelError.joined(nameless)
    for name in names:
        if name.lower() in project.unfinished:
            project.model(name)
    wanted = {name.lower() for name in names}
    found = [one for one in _found(lake, ledger, project) if not wanted or one.model in wanted]
    missing = wanted - {one.model for one in found}
    if missing:
        raise ModelError(
            f"{sorted(missing)[0]} left nothing: no partition that `for` no longer has, and no "
            "table whose model is gone",
            next_step="`mirrorlake models prune` lists what there is",
        )
    return [replace(one, kept="") if wanted else one for one in found]


def _found(lake: Lake, ledger: Ledger, project: Project) -> Iterator[Leftover]:
    published = {
        name.removeprefix(OF_MODELS): publisher.title
        for publisher in PUBLISHERS
        for name in publisher.loaded(ledger)
    }
    for model in project.models.values():
        keys = uncovered_keys(lake, model)
        if keys:
            records = ModelRecords(ledger).partitions(model.name)
            rows = [records[key].rows if key in records else None for key in keys]
            known = [one for one in rows if one is not None]
            kept = _SNAPSHOT if model.declaration.is_snapshot else ""
            total = sum(known) if len(known) == len(rows) else None
            title = published.get(model.name)
            there = f"the next run takes them out of {title}" if title else ""
            yield Leftover(model.name, "partitions", keys, total, kept, there)
    for name, said in _gone(ledger, project).items():
        title = published.get(name)
        there = f"its copy in {title} stays: drop it there" if title else ""
        kept = _SNAPSHOT if said["materialized"] == "snapshot" else ""
        identifier = table_of_model(name)
        if said["materialized"] in ("view", "stream view"):
            yield Leftover(name, "view", there=there)
            continue
        table = lake.load(identifier)
        if table is None or table.properties.get(OF_MODEL) != name:
            yield Leftover(name, "record", there=there)
            continue
        rows = sum(one.rows for one in ModelRecords(ledger).partitions(name).values())
        yield Leftover(name, "table", rows=rows, kept=kept, there=there)


_SNAPSHOT = "it is a snapshot: what it took can't be taken again. Name it to drop it"


def _gone(ledger: Ledger, project: Project) -> Mapping[str, Mapping[str, str]]:
    """The models that were run, and whose files are gone."""
    unfinished = (name.lower() for name in project.unfinished)
    there = {*project.models, *unfinished, *project.externals}
    return {
        name: json.loads(text)
        for full, text in sorted(ledger.definitions(RECORDED).items())
        if (name := full.removeprefix(RECORDED)) not in there
    }


def drop_leftover(workspace: Workspace, project: Project, one: Leftover) -> None:
    """Drop what was planned, if it is still so.

    Raises:
        LeaseHeld: a run computes the model.
        CommitConflict: somebody else wrote to the table at this moment.
        LakeError, LedgerError
    """
    with workspace.leased(ModelTable(one.model, table_of_model(one.model)), wait=False) as own:
        if one.what == "partitions":
            _drop_partitions(own, project.models[one.model], one.keys)
        else:
            _drop_model(own, one)


def _drop_partitions(workspace: Workspace, model: Model, keys: Sequence[str]) -> None:
    lake, identifier = workspace.lake, model_table(model)
    wanted = set(keys) & set(uncovered_keys(lake, model))
    table = lake.load(identifier)
    if not wanted or table is None:
        return
    parts = [values for values in partitions_there(table) if key_of_values(model, values) in wanted]
    # Forgotten first: a record that outlived its rows would be believed if they came back one day.
    ModelRecords(workspace.ledger).forget_partitions(model.name, wanted)
    failpoint("model.forgotten")
    workspace.check_lease()
    said = PartitionDrop("", "", workspace.run_id, tuple(sorted(wanted)))
    drop_parts(lake, identifier, parts, {DROPPED: said.text})
    failpoint("model.dropped")
    marks = workspace.ledger.dirty_marks(model.name)
    workspace.ledger.forget_marks([mark.mark_id for mark in marks if mark.key in wanted])


def _drop_model(workspace: Workspace, one: Leftover) -> None:
    """Drop the table or view of a model that is gone, then what the ledger has of it: what dies
    between is found again by the next plan."""
    lake, ledger, identifier = workspace.lake, workspace.ledger, table_of_model(one.model)
    if one.what == "view":
        forget_view(lake, identifier)
    elif one.what == "table":
        table = lake.load(identifier)
        if table is not None and table.properties.get(OF_MODEL) == one.model:
            workspace.check_lease()
            lake.drop(identifier)
    records = ModelRecords(ledger)
    records.forget_partitions(one.model, records.partitions(one.model).keys())
    ledger.forget_marks([mark.mark_id for mark in ledger.dirty_marks(one.model)])
    ledger.forget_definition(f"{RECORDED}{one.model}")
