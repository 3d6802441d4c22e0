"""What is computed is recorded, and the dirty marks that it answers go, in one step."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.proofs.dirty import DirtyMark
from mirrorlake.models.ledger import ModelPartition, ModelRecords

OF_MODEL = DirtyMark("m2", "d1", "m.daily", "a wrong rate", "ann@host", key="day=2026-01-01")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


def computed(key: str, *answers: str) -> ModelPartition:
    return ModelPartition("m.daily", key, "f", "t", 1, {}, 1, 1.0, "run", answers=answers)


def test_a_mark_goes_with_the_record_of_the_partition_that_answers_it(ledger: Ledger) -> None:
    later = DirtyMark("m3", "d2", "m.daily", "", "ann@host", key="day=2026-01-01")
    ledger.declare_invalid([OF_MODEL, later])
    # The run saw the first one alone.
    ModelRecords(ledger).record_partitions(
        [computed("day=2026-01-01", "m2"), computed("day=2026-01-02")]
    )
    assert [one.mark_id for one in ledger.dirty_marks()] == ["m3"]
    assert set(ModelRecords(ledger).partitions("m.daily")) == {"day=2026-01-01", "day=2026-01-02"}


def test_a_mark_stays_where_the_record_could_not_be_written(ledger: Ledger) -> None:
    ledger.declare_invalid([OF_MODEL])
    broken = computed("day=2026-01-02")
    object.__setattr__(broken, "inputs", object())
    with pytest.raises(TypeError):
        ModelRecords(ledger).record_partitions([computed("day=2026-01-01", "m2"), broken])
    assert [one.mark_id for one in ledger.dirty_marks()] == ["m2"]
    assert ModelRecords(ledger).partitions("m.daily") == {}
