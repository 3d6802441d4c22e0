"""Repair by key: exactly the keys that differ are read again, by one load, and folded.

The fold trusts nothing of what deduped holds of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.ledger import Load, Window
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.load.protocol.protocol import load_window
from mirrorlake.load.reloads.reread import Reread, unplaced, written
from mirrorlake.operations.loading.fold import fold_layers
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.other_writers.moved_layers import accept_made, put_right
from mirrorlake.operations.repairing.refold import refuse_new_version
from mirrorlake.proof.comparing.resolve import resolve_target
from mirrorlake.proof.forms.differences import Differing
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.mysql_side import SourceSide
from mirrorlake.proof.sides.spark_side import LakeSide, key_view
from mirrorlake.schema.own_columns import KEY, ORIGINAL, SEQ
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.holds import refuse_held
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

KEYS_AT_ONCE = 500
"""Keys that one statement reads again."""


@dataclass(frozen=True)
class RepairRound:
    """What one round brought: load ids, rows that were read again, keys that are no more."""

    loads: tuple[str, ...] = ()
    rows: int = 0
    gone: int = 0


def reread_keys(
    workspace: Workspace, contract: TableContract, keys: Sequence[Differing]
) -> RepairRound:
    """Read these keys again, by one load, and fold it.

    Raises:
        SchemaError: the table's columns changed since the load.
        MirrorlakeError: see loading, folding and `resolve_target`.
    """
    refuse_held(workspace.ledger, contract.source)
    source = workspace.config.sources[contract.source]
    with session(source, contract.database) as connection:
        plan = resolve_table(workspace, contract, connection)
        with workspace.leased(contract) as leased:
            repaired = put_right(leased, contract, plan.key)
            settle_loads(leased, contract)
            refuse_new_version(workspace, plan)
            target = resolve_target(workspace, contract, connection)
            window = Window("repair", None, None, target.position.clock.date())
            terms = LoadTerms(server=target.position.server)
            reread = Reread(_conditions(target, keys), lambda: _held(workspace, plan, target, keys))
            load = load_window(leased, connection, plan, window, terms, reread)
            fold_layers(leased, plan)
            accept_made(leased, contract, repaired)
    return round_of([load])


def round_of(loads: Sequence[Load]) -> RepairRound:
    """What these loads brought."""
    receipts = [load.receipt for load in loads if load.receipt]
    gone = sum(receipt.gone for receipt in receipts)
    rows = sum(receipt.rows for receipt in receipts) - gone
    return RepairRound(tuple(load.load_id for load in loads), rows, gone)


# --- keys -----------------------------------------------------------------------------------------


def _conditions(target: Target, keys: Sequence[Differing]) -> tuple[str, ...]:
    """Conditions of MySQL for these keys; the texts of one key stand in one statement."""
    side = SourceSide(target.table, target.rows, target.key, "")
    found: list[str] = []
    for start in range(0, len(keys), KEYS_AT_ONCE):
        texts = (text for key in keys[start : start + KEYS_AT_ONCE] for text in key.texts)
        found.append(" OR ".join(f"({side.key_condition(text)})" for text in texts))
    return tuple(found)


def _held(
    workspace: Workspace, plan: ResolvedTable, target: Target, keys: Sequence[Differing]
) -> pa.Table:
    """The keys that deduped holds under these texts, as they are stored, in `key_columns`.

    Where raw tells keys apart as the server does, `KEY` is looked up in raw; NULL for a text that
    raw never held.
    """
    columns = [*plan.key, *([ORIGINAL] if unplaced(plan) else [])]
    forms = SourceSide(target.table, target.rows, target.key, "").key_forms
    mirror = target.mirror
    spark = workspace.spark.get()
    texts = [text for key in keys for text in key.texts]
    with spark_errors(plan.name), key_view(spark, texts) as view:
        side = LakeSide(
            mirror.identifier, mirror.snapshot, target.rows, forms, "", flags=target.flags
        )
        held: pa.Table = spark.sql(side.stored_sql(columns, view)).toArrow()
        if not plan.keeps_aliases:
            return held
        known: dict[Any, bytes] = {}
        start = workspace.ledger.history_start(plan.name)
        for version in workspace.ledger.schema_versions(plan.name):
            raw = Identifier(plan.raw.namespace, version.raw_table)
            table = workspace.lake.load(raw)
            there = {field.name for field in table.schema().fields} if table else set[str]()
            if {*columns, KEY} <= there and (ORIGINAL in there or not target.rows.originals):
                # Of this history alone: an earlier one may have told keys apart in another way.
                stored = LakeSide(raw, None, target.rows, forms, f"{SEQ} >= {start}")
                rows: pa.Table = spark.sql(stored.stored_sql([*columns, KEY], view)).toArrow()
                known |= dict(zip(written(plan, rows), rows[KEY].to_pylist(), strict=True))
    digests = [known.get(identity) for identity in written(plan, held)]
    return held.append_column(KEY, pa.array(digests, pa.binary()))
