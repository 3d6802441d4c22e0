"""Personal data in clean that no rule covers: a sample of its new rows, looked at as `init` does.

A contract can't know what an application will write into a text tomorrow. So each look samples the
rows of files that came since the last one, in every column that the contract gives no rule (`pii:
show` is one: somebody decided). What was found of a column stays until the contract speaks. Counts
are kept, values never.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from mirrorlake.config.contract import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeSchema, LakeTable
from mirrorlake.destinations.iceberg.reading.stream import sample_batches
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.ledger import Ledger
from mirrorlake.schema.detectors import find_personal, texts_of
from mirrorlake.table.columns.clean_columns import look_name, read_look

SAMPLED: Final = 5_000
"""How many rows a look samples, at most; one that looks at all rows again, ten times as many."""
NEXT_STEP: Final = "give the column a rule in the contract, or `pii: show` if it may be seen"


@dataclass(frozen=True)
class Suspects:
    """What looks personal in clean: column → how many of how many sampled values look like what;
    ``rows`` were sampled now."""

    found: dict[str, str]
    rows: int


def find_suspects(
    lake: Lake, ledger: Ledger, contract: TableContract, *, whole: bool = False
) -> Suspects:
    """Sample what came into clean since the last look, and remember what looks personal in it.

    Args:
        whole: sample all rows, whether they were looked at before or not.

    Raises:
        LakeError: clean can't be read.
    """
    table, schema = _shown_rows(lake, contract)
    if table is None or schema is None:
        return Suspects({}, 0)
    columns = _columns(schema, contract)
    last = read_look(ledger.definition(look_name(contract)))
    # A column that had a rule until now was never looked at.
    since = None if whole or not set(columns) <= set(last["columns"]) else last["snapshot"]
    samples: dict[str, list[str]] = {name: [] for name in columns}
    rows = 0
    most = SAMPLED * 10 if whole else SAMPLED
    for batch in sample_batches(lake, table, tuple(columns), since, most) if columns else ():
        rows += batch.num_rows
        for name in columns:
            samples[name] += texts_of(batch.column(name).to_pylist())
    numbers = {name for name, kind in columns.items() if kind == "number"}
    now = {n: find_personal(texts, numbers=n in numbers) for n, texts in samples.items()}
    found = {**last["found"], **{name: str(one) for name, one in now.items() if one is not None}}
    head = table.current_snapshot()
    look: dict[str, Any] = {
        "snapshot": head.snapshot_id if head else None,
        "columns": sorted(columns),
        "found": {name: words for name, words in found.items() if name in columns},
    }
    if look != last:
        ledger.record_definition(look_name(contract), json.dumps(look, ensure_ascii=False))
    return Suspects(dict(sorted(look["found"].items())), rows)


def suspect_words(found: dict[str, str]) -> Iterable[str]:
    """One line a column."""
    return (f"{column}: {words}: {NEXT_STEP}" for column, words in found.items())


def _shown_rows(lake: Lake, contract: TableContract) -> tuple[LakeTable | None, LakeSchema | None]:
    """The lake table whose rows clean shows, and clean's columns."""
    clean = Identifier(contract.namespaces.clean, contract.table)
    table = lake.load(clean)
    if table is not None:
        return table, table.schema()
    view = read_view(lake, clean)
    deduped = Identifier(contract.namespaces.deduped, contract.table)
    return (lake.load(deduped), view.schema) if view is not None else (None, None)


def _columns(schema: LakeSchema, contract: TableContract) -> dict[str, str]:
    """Clean's columns without a rule that can hold such data: name → text, bytes or number."""
    spoken = {name.lower() for name in contract.columns}
    return {
        field.name: kind
        for field in schema.fields
        if field.name.lower() not in spoken and (kind := _kind(field.field_type)) is not None
    }


def _kind(type_: Any) -> str | None:
    words = str(type_).replace(" ", "")
    if words.startswith("decimal("):
        return "number" if words.endswith(",0)") else None
    return {"string": "text", "binary": "bytes", "long": "number"}.get(words)
