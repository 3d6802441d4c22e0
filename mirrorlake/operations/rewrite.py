"""Bringing right rows into a mirror that differs: by keys, by days, by a new copy, or from raw.

Where there is a key, exactly the keys that differ are read again. What has none is read again as it
is loaded: day by day, or whole. Every way ends in a fold that trusts nothing of what deduped holds
of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.spark import spark_errors
from mirrorlake.destinations.iceberg.tables import KEY, ORIGINAL, SEQ
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Load, Window
from mirrorlake.load.attempt import LoadTerms
from mirrorlake.load.outcome import settle_loads
from mirrorlake.load.protocol import load_window
from mirrorlake.load.reread import Reread, unplaced, written
from mirrorlake.operations.fold import fold_layers, fold_table
from mirrorlake.operations.refold import refold_table, refuse_new_version
from mirrorlake.operations.resolve import resolve_table
from mirrorlake.operations.sync import load_table, reload_days
from mirrorlake.proof.differences import Difference, Differing
from mirrorlake.proof.mysql_side import SourceSide
from mirrorlake.proof.resolve import resolve_target
from mirrorlake.proof.spark_side import LakeSide, key_view
from mirrorlake.proof.target import Target
from mirrorlake.sources.mysql.connect import session
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
            settle_loads(leased.ledger, leased.lake, plan.name, contract.namespaces.raw)
            refuse_new_version(workspace, plan)
            target = resolve_target(workspace, contract, connection)
            window = Window("repair", None, None, target.position.clock.date())
            terms = LoadTerms(server=target.position.server)
            reread = Reread(_conditions(target, keys), lambda: _held(workspace, plan, target, keys))
            load = load_window(leased, connection, plan, window, terms, reread)
            fold_layers(leased, plan)
    return _round_of([load])


def reread_days(
    workspace: Workspace, contract: TableContract, found: Sequence[Difference]
) -> RepairRound:
    """Read the days of these rows again, whole, and fold: the way of tables without a key.

    Raises:
        ConfigError: no column tells a row's day.
        SourceError: MySQL has fewer rows of a day than raw: they would be lost.
        MirrorlakeError: see loading and folding.
    """
    days = sorted({day for difference in found for day in _days_of(contract, difference)})
    if not days:
        raise ConfigError(
            f"table {contract.name} has no key, and its rows that differ tell no day that could be "
            "read again",
            table=contract.name,
            next_step="Name a key in its contract, or mirror it again in mode full",
        )
    before = workspace.ledger.highest_seq()
    for first, last in _spans(days):
        reload_days(workspace, contract, first, last)
    fold_table(workspace, contract)
    return _round_of(workspace.ledger.successful_loads(contract.name, before))


def copy_again(workspace: Workspace, contract: TableContract) -> RepairRound:
    """A new full copy, and deduped made of it alone.

    Raises:
        MirrorlakeError: see loading and folding.
    """
    before = workspace.ledger.highest_seq()
    load_table(workspace, contract, complete=True)
    refold_table(workspace, contract)
    return _round_of(workspace.ledger.successful_loads(contract.name, before))


def _round_of(loads: Sequence[Load]) -> RepairRound:
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

    Where raw tells keys apart as the server does, raw is asked for that; a text that raw never
    held has none there.
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
                # Of this history alone: an earlier one told keys apart in another way, perhaps.
                stored = LakeSide(raw, None, target.rows, forms, f"{SEQ} >= {start}")
                rows: pa.Table = spark.sql(stored.stored_sql([*columns, KEY], view)).toArrow()
                known |= dict(zip(written(plan, rows), rows[KEY].to_pylist(), strict=True))
    told = [known.get(identity) for identity in written(plan, held)]
    return held.append_column(KEY, pa.array(told, pa.binary()))


# --- days -----------------------------------------------------------------------------------------


def _days_of(contract: TableContract, difference: Difference) -> list[date]:
    """The day of a row without a key, by its cursor; none where that has no place in a calendar."""
    wanted = (contract.cursor or "").casefold()
    shown = [v.shown for v in difference.key if v.column.casefold() == wanted and v.shown]
    found: list[date] = []
    for text in shown:
        try:
            found.append(date.fromisoformat(text[:10]))
        except ValueError:
            continue
    return found


def _spans(days: Sequence[date]) -> list[tuple[date, date]]:
    """Days in a row, as ranges with both ends included."""
    starts = [days[0], *(b for a, b in pairwise(days) if b - a > timedelta(days=1))]
    ends = [*(a for a, b in pairwise(days) if b - a > timedelta(days=1)), days[-1]]
    return list(zip(starts, ends, strict=True))
