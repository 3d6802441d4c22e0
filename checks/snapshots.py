"""The checks of a table of mode ``snapshot``: they ask the lake and the ledger, and no Spark."""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg

from assets.keys import asset_key
from assets.snapshots import CHECKS, UNIQUE
from mirrorlake.config import TableContract

_IN, _OUT = {"asset": dg.In(dg.Nothing)}, dg.Out(dg.Nothing, is_required=False)


def build_snapshot_checks(contract: TableContract) -> list[dg.AssetChecksDefinition]:
    """Checks of deduped; the unique key blocks what is downstream."""
    key = asset_key("deduped", contract)
    specs = [
        dg.AssetCheckSpec(name, asset=key, description=text, blocking=name == UNIQUE)
        for name, text in CHECKS.items()
    ]
    outputs = {spec.get_python_identifier(): spec for spec in specs}
    step = dg.OpDefinition(
        compute_fn=_step(contract, key),
        name=f"{key.to_python_identifier()}__checks",
        ins=_IN,
        outs=dict.fromkeys(outputs, _OUT),
        required_resource_keys={"engine"},
    )
    return [
        dg.AssetChecksDefinition(
            node_def=step,
            keys_by_input_name={"asset": key},
            keys_by_output_name={},
            check_specs_by_output_name=outputs,
            can_subset=True,
        )
    ]


def snapshot_check_keys(contract: TableContract) -> list[dg.AssetCheckKey]:
    """The checks that run with every snapshot."""
    return [dg.AssetCheckKey(asset_key("deduped", contract), name) for name in CHECKS]


def _step(
    contract: TableContract, key: dg.AssetKey
) -> Callable[[dg.AssetCheckExecutionContext, Any], Iterator[dg.AssetCheckResult]]:
    def step(context: dg.AssetCheckExecutionContext, _: Any) -> Iterator[dg.AssetCheckResult]:
        from mirrorlake.observe import deduped_table, duplicate_keys
        from resources.failures import told

        selected = context.op_execution_context.selected_asset_check_keys
        names = {k.name for k in selected if k.asset_key == key}
        with told(0, again=False):
            engine = context.resources.engine.engine
            if "published" in names:
                ids = [int(k) for k in context.op_execution_context.partition_keys]
                yield _published(engine, contract, key, ids, deduped_table(engine.lake, contract))
            if UNIQUE in names:
                twice = duplicate_keys(engine.lake, contract)
                metadata = {"keys held twice": twice}
                yield dg.AssetCheckResult(
                    passed=twice == 0, check_name=UNIQUE, asset_key=key, metadata=metadata
                )

    return step


def _published(
    engine: Any, contract: TableContract, key: dg.AssetKey, ids: list[int], table: Any
) -> dg.AssetCheckResult:
    """Whether the published version knows the run's snapshots, as the ledger numbers them."""
    from mirrorlake.snapshots.state import read_state

    state = read_state(table)
    rows: dict[str, int] = {}
    absent: list[str] = []
    for one in ids:
        record = engine.ledger.snapshot(contract.name, one)
        found = state.find(record.number) if record and record.number is not None else None
        if found is None:
            absent.append(f"{one:014d}")
        else:
            rows[f"rows of {one:014d}"] = found.totals.n
    metadata: dict[str, Any] = {**rows, **({"absent": ", ".join(absent)} if absent else {})}
    return dg.AssetCheckResult(
        passed=not absent, check_name="published", asset_key=key, metadata=metadata
    )
