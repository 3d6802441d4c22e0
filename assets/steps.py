"""What each asset of a chain does: one call of the engine, its result in Dagster's words."""

import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

import dagster as dg
from pyiceberg.table import Table

from assets.days import refused_days, today
from assets.keys import asset_key
from mirrorlake.config import TableContract
from mirrorlake.observe import clean_of, deduped_of, raw_days, raw_tables
from mirrorlake.sync import Engine, SyncResult
from resources.failures import told

Events = Iterator[dg.MaterializeResult[Any] | dg.AssetMaterialization]


def load_table(context: dg.AssetExecutionContext, contract: TableContract) -> Events:
    """Load the table's next window into raw, for whichever days were asked.

    The ledger decides what there is to read: a day that a load covered already is not read twice.
    Days that can't be loaded fail the step with their reason, after the others were loaded.
    """
    with told(context.retry_number):
        engine: Engine = context.resources.engine.engine
        days = _days_of(context)
        held = raw_days(engine.lake, engine.ledger, contract)
        refused = refused_days(contract, days, held, today())
        if len(refused) == len(days):
            raise _refusal(contract, refused)
        done = engine.load(contract)
        held = raw_days(engine.lake, engine.ledger, contract)
        newest = raw_tables(engine.lake, engine.ledger, contract)[-1]
    metadata = {**_load_metadata(done), **_schema_metadata(newest)}
    if refused:
        # What was loaded is recorded although the step fails: only yielded events outlive a
        # failure.
        yield from _loaded_days(contract, [d for d in days if d not in refused], held, metadata)
        raise _refusal(contract, refused)
    for day in days:
        rows = {"dagster/partition_row_count": held.get(day, 0)}
        context.add_asset_metadata(rows, partition_key=day.isoformat())
    yield dg.MaterializeResult(metadata=metadata)


def fold_table(context: dg.AssetExecutionContext, contract: TableContract) -> Events:
    """Fold every load that deduped and clean don't hold yet."""
    started = time.monotonic()
    with told(context.retry_number):
        engine: Engine = context.resources.engine.engine
        folded = engine.fold(contract)
        seconds = round(time.monotonic() - started, 2)
        identifier = deduped_of(contract)
        rows = engine.count_rows(identifier)
        table = engine.lake.load(identifier)
    metadata: dict[str, Any] = {"loads folded": folded, "seconds": seconds}
    yield dg.MaterializeResult(metadata={**metadata, **_rows(rows), **_schema_metadata(table)})


def clean_table(context: dg.AssetExecutionContext, contract: TableContract) -> Events:
    """Report what the fold made of clean: a view has the rows of deduped."""
    with told(context.retry_number):
        engine: Engine = context.resources.engine.engine
        is_view = contract.clean == "view"
        identifier = deduped_of(contract) if is_view else clean_of(contract)
        rows = engine.count_rows(identifier)
        table = None if is_view else engine.lake.load(identifier)
    metadata = {"clean is a": contract.clean, "rules": _rules(contract)}
    yield dg.MaterializeResult(metadata={**metadata, **_rows(rows), **_schema_metadata(table)})


def _days_of(context: dg.AssetExecutionContext) -> list[date]:
    return [date.fromisoformat(key) for key in context.partition_keys]


def _refusal(contract: TableContract, refused: Mapping[date, str]) -> dg.Failure:
    """One failure that names the days, shortly, by reason."""
    reasons: dict[str, list[date]] = {}
    for day, reason in refused.items():
        reasons.setdefault(reason, []).append(day)
    parts = [f"{_span(days)}: {reason}" for reason, days in reasons.items()]
    return dg.Failure(
        f"table {contract.name}: {'; '.join(parts)}. Ask for the other days alone",
        allow_retries=False,
    )


def _span(days: Sequence[date]) -> str:
    if len(days) == 1:
        return f"day {days[0]}"
    return f"{len(days)} days from {min(days)} to {max(days)}"


def _loaded_days(
    contract: TableContract,
    days: Sequence[date],
    held: Mapping[date, int],
    shown: Mapping[str, Any],
) -> Iterator[dg.AssetMaterialization]:
    for day in days:
        metadata = {**shown, "dagster/partition_row_count": held.get(day, 0)}
        yield dg.AssetMaterialization(
            asset_key("raw", contract), partition=day.isoformat(), metadata=metadata
        )


def _load_metadata(done: SyncResult) -> dict[str, Any]:
    return {
        "load id": done.load_id,
        "window": done.window,
        "rows": done.rows,
        "bytes": done.bytes,
        "files": done.files,
        "seconds": done.seconds,
        "originals kept": done.originals,
        "rows dated in the future": done.future,
        "loads of dead runs settled": done.settled,
    }


def _rows(count: int | None) -> dict[str, Any]:
    return {} if count is None else {"dagster/row_count": count}


def _rules(contract: TableContract) -> str:
    rules = [f"{c}: {rule}" for c, rule in sorted(contract.rules.items())]
    rules += [f"{c}: never read" for c in sorted(contract.excluded)]
    return ", ".join(rules) or "none"


def _schema_metadata(table: Table | None) -> dict[str, Any]:
    if table is None:
        return {}
    columns = [dg.TableColumn(f.name, str(f.field_type)) for f in table.schema().fields]
    return {"dagster/column_schema": dg.TableSchema(columns)}


STEPS = {"raw": load_table, "deduped": fold_table, "clean": clean_table}
"""By layer."""
