"""Clean tables of tenants compared with what the rules make of deduped, tenant by tenant.

Nothing is used of what makes them: the rules are those of `mirrorlake.proof.clean.rules`, rows are
read without Spark, and compared by digests of whole rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.proof.clean.clean import column_types, rows_in_parts, texts_of
from mirrorlake.proof.clean.rules import shown, shown_originals, shown_type
from mirrorlake.proof.forms.cells import digests_of, sum_of
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.schema.own_columns import DATABASE, ORIGINAL, SOURCE

_LIST = pa.list_(pa.struct([("column", pa.string()), ("text", pa.string())]))


@dataclass(frozen=True)
class TenantsClean:
    """What a comparison found.

    Attributes:
        words: what is wrong with clean's columns, or that it is not there: about all tenants.
        differing: source and database → rows that clean must have, and rows that it has, of tenants
            whose rows are others.
    """

    words: tuple[str, ...] = ()
    differing: Mapping[tuple[str, str], tuple[int, int]] | None = None


def compare_tenants_clean(
    lake: Lake,
    deduped: LakeTable,
    clean: LakeTable | None,
    columns: Collection[str],
    rules: Mapping[str, str],
    key: bytes | None,
) -> TenantsClean:
    """Compare every row of clean with deduped's.

    Args:
        columns: those of deduped that some shape has: of one that was renamed, deduped keeps the
            old name too, without values.
        rules: column → what the contract says of it; ``drop`` of those that clean must not have.
        key: ``privacy.hash_key``.

    Raises:
        ProofError: a hash without its key.
        LakeError: a layer can't be read.
    """
    if clean is None:
        return TenantsClean(("the clean table is not there",))
    types = column_types(deduped)
    shown_as = {name: shown_type(rules.get(name), types[name]) for name in types if name in columns}
    wanted = {name: kind for name, kind in shown_as.items() if kind is not None}
    there = column_types(clean)
    words = [f"clean lacks column {name}" for name in wanted if name not in there]
    words += [f"clean has column {name}, which it must not have" for name in there.keys() - wanted]
    words += [
        f"column {name} is {there[name]} in clean, not {kind}"
        for name, kind in wanted.items()
        if there.get(name, kind) != kind
    ]
    if words:
        return TenantsClean(tuple(sorted(words)))
    names = sorted(wanted)
    expected = _tallies(_as_ruled(lake, deduped, names, rules, key))
    found = _tallies(_as_it_is(lake, clean, names))
    differing = {
        place: (expected.get(place, NOTHING).rows, found.get(place, NOTHING).rows)
        for place in expected.keys() | found.keys()
        if expected.get(place, NOTHING) != found.get(place, NOTHING)
    }
    return TenantsClean((), differing)


_Rows = Iterator[tuple[pa.RecordBatch, list[Any]]]


def _as_ruled(
    lake: Lake,
    deduped: LakeTable,
    names: Sequence[str],
    rules: Mapping[str, str],
    key: bytes | None,
) -> _Rows:
    """Deduped's rows, and their cells as clean must show them, originals last."""
    has = ORIGINAL in {field.name for field in deduped.schema().fields}
    for batch in rows_in_parts(lake, deduped):
        none: list[str | None] = [None] * batch.num_rows
        entries = batch.column(ORIGINAL) if has else pa.nulls(batch.num_rows, _LIST)
        texts = texts_of(entries) if has else {}
        cells = [
            shown(rules.get(name), batch.column(name), texts.get(name, none), key) for name in names
        ]
        yield batch, [*cells, pa.array(shown_originals(entries, rules), _LIST)]


def _as_it_is(lake: Lake, clean: LakeTable, names: Sequence[str]) -> _Rows:
    """Clean's rows, and their cells in the same order."""
    has = ORIGINAL in {field.name for field in clean.schema().fields}
    for batch in rows_in_parts(lake, clean):
        entries = batch.column(ORIGINAL).to_pylist() if has else [None] * batch.num_rows
        # An engine may have written "no originals" as an empty list; to readers both are none.
        kept = pa.array([entry or None for entry in entries], _LIST)
        yield batch, [*(batch.column(name) for name in names), kept]


def _tallies(rows: _Rows) -> dict[tuple[str, str], Tally]:
    """Rows and the sum of their digests, by tenant."""
    found: dict[tuple[str, str], Tally] = {}
    for batch, cells in rows:
        digests = digests_of(cells, batch.num_rows)
        places = list(
            zip(batch.column(SOURCE).to_pylist(), batch.column(DATABASE).to_pylist(), strict=True)
        )
        numbers = {place: n for n, place in enumerate(dict.fromkeys(places))}
        of_row = np.fromiter((numbers[place] for place in places), np.int64, len(places))
        for place, number in numbers.items():
            chosen = digests[of_row == number]
            tally = Tally(len(chosen), sum_of(chosen))
            found[str(place[0]), str(place[1])] = found.get(place, NOTHING) + tally
    return found
