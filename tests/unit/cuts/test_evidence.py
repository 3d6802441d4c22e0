"""What a cut's proof left, in a ledger; and digests that must stay the same from release to release."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from mirrorlake.cuts.digests import CELLS
from mirrorlake.cuts.evidence import CUT_FORMS, CutEvidence, EvidenceOfCuts
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.ledger import Ledger
from mirrorlake.proof.forms.cells import digests_of, sum_of
from tests.unit.cuts.test_cut_ledger import CUT, TABLE

KEPT = CutEvidence(12, 3 * 2**64 + 7, '{"columns": []}')


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path}/ledger.db")


def forms(ledger: Ledger) -> int:
    with ledger.database.read() as connection:
        return len(connection.execute(CUT_FORMS.select()).all())


def test_evidence_is_kept_with_its_cut_and_goes_with_it(ledger: Ledger) -> None:
    kept, cuts = EvidenceOfCuts(ledger), Cuts(ledger)
    for name in ("first", "second"):
        cuts.begin(replace(CUT, name=name))
        kept.keep(name, TABLE.table, "deduped", replace(KEPT, rows=1))
        kept.keep(name, TABLE.table, "deduped", KEPT)
        kept.keep(name, TABLE.table, "clean", replace(KEPT, form="other"))
    key = (TABLE.table, "deduped")
    assert (kept.of("first")[key], kept.of("none")) == (KEPT, {})
    assert forms(ledger) == 2  # one for all cuts of a table that share it
    cuts.leave_out("first", TABLE.table)
    assert (kept.of("first"), len(kept.of("second"))) == ({}, 2)
    cuts.forget("second")
    assert (kept.of("second"), forms(ledger)) == ({}, 0)


def test_cells_are_digested_as_they_always_were() -> None:
    """What is kept of a clean table is compared by later releases: one that writes cells otherwise
    must have another number, `CELLS`."""
    columns = [pa.array([1, None]), pa.array(["a,b", ""]), pa.array([0.5, -0.0])]
    found = sum_of(digests_of(columns, 2))
    assert (CELLS, found) == (1, 6751454743328238639)
