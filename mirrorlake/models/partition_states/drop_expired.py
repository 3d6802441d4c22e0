"""Partitions that a model's retention keeps no more are dropped: one commit takes their files out
of the table, and writes none.

What belongs here: dropping. What doesn't: which are kept
(`mirrorlake.models.scope_values.retention`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrorlake.destinations.iceberg.commits.partition_drop import drop_before
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.failpoints import failpoint
from mirrorlake.models.compile.model import Model
from mirrorlake.models.compile.partition_times import time_name
from mirrorlake.models.ledger import ModelRecords
from mirrorlake.models.partition_states.dropped_commits import DROPPED, PartitionDrop
from mirrorlake.models.partition_states.lake_tables import model_table
from mirrorlake.models.partition_states.table_history import keys_there
from mirrorlake.models.scope_values.comprehension import text_of
from mirrorlake.models.scope_values.retention import moment_of, values_of
from mirrorlake.models.spark_sql.constants.values import Constant
from mirrorlake.workspace import Workspace


def gone_keys(lake: Lake, model: Model) -> tuple[str, ...]:
    """The partitions in a model's table that its retention keeps no more, in order.

    Where it keeps all of its partitions there are none: rows of days that are under ``for`` no more
    were not asked to go.

    Raises:
        LakeError: the lake can't be read.
    """
    if not model.gone:
        return ()
    table = lake.load(model_table(model))
    if table is None:
        return ()
    drop = _drop(model, "")
    return tuple(sorted(key for key in keys_there(model, table) if drop.takes(key)))


def uncovered_keys(lake: Lake, model: Model) -> tuple[str, ...]:
    """The partitions in a model's table that are none of its partitions any more, and that no
    retention takes: ``for`` was made narrower. Who reads the table sees them.

    Raises:
        LakeError: the lake can't be read.
    """
    table = lake.load(model_table(model)) if not model.declaration.is_view else None
    if table is None:
        return ()
    others = keys_there(model, table) - model.by_key.keys()
    drop = _drop(model, "") if model.gone else None
    return tuple(sorted(key for key in others if drop is None or not drop.takes(key)))


def uncovered_words(keys: Sequence[str]) -> Iterator[str]:
    """The words for such partitions."""
    if keys:
        which = f"{keys[0]} to {keys[-1]}" if len(keys) > 1 else keys[0]
        yield (
            f"has rows of {len(keys):,} partitions that `for` no longer has ({which}): readers "
            "of its table see them until they are under `for` again, or `mirrorlake models prune "
            "--yes` drops them"
        )


def drop_gone(workspace: Workspace, model: Model) -> tuple[str, ...]:
    """Drop the partitions of a model that its retention keeps no more; which these were. Without
    any, nothing is committed.

    Args:
        workspace: with the model's lease.

    Raises:
        CommitConflict: somebody else wrote to the table at this moment.
        LakeError, LedgerError
    """
    if not model.gone:
        return ()
    keys, drop = gone_keys(workspace.lake, model), _drop(model, workspace.run_id)
    if keys:
        # Forgotten first: a record that outlived its rows would be believed if they were kept
        # longer one day. A record whose rows are there still is found again by their commit.
        ModelRecords(workspace.ledger).forget_partitions(model.name, keys)
        failpoint("model.forgotten")
        workspace.check_lease()
        first = moment_of(_first_kept(model))
        identifier = model_table(model)
        drop_before(workspace.lake, identifier, drop.name, first, {DROPPED: drop.text})
        failpoint("model.dropped")
    # Forgotten last: the ledger alone has them, and until then the rows may be kept after all.
    marks = workspace.ledger.dirty_marks(model.name)
    taken = [one.mark_id for one in marks if one.key is not None and drop.takes(one.key)]
    workspace.ledger.forget_marks(taken)
    return keys


def _first_kept(model: Model) -> Constant:
    name = time_name(model.declaration, model.types)
    return values_of(model.scopes, name)[0]


def _drop(model: Model, run: str) -> PartitionDrop:
    name = time_name(model.declaration, model.types)
    return PartitionDrop(name, text_of(_first_kept(model)), run)
