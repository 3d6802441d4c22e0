"""Clean tables of tenants compared with what the rules make of deduped, tenant by tenant.

Nothing is used of what makes them: the rules are those of `mirrorlake.proof.clean.rules`, rows are
read without Spark, and compared by digests of whole rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.proof.clean.shown_rows import CleanRows
from mirrorlake.proof.forms.cells import digests_of, sum_of
from mirrorlake.proof.ranges.ranges import NOTHING, Tally
from mirrorlake.schema.own_columns import DATABASE, SOURCE


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
    rows = CleanRows.of(lake, deduped, clean, columns, rules, key)
    if rows.words:
        return TenantsClean(tuple(sorted(rows.words)))
    expected, found = _tallies(rows.expected()), _tallies(rows.found())
    differing = {
        place: (expected.get(place, NOTHING).rows, found.get(place, NOTHING).rows)
        for place in expected.keys() | found.keys()
        if expected.get(place, NOTHING) != found.get(place, NOTHING)
    }
    return TenantsClean((), differing)


def _tallies(rows: Iterator[tuple[pa.RecordBatch, list[Any]]]) -> dict[tuple[str, str], Tally]:
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
