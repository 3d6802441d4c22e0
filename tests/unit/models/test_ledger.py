"""What is computed is recorded, and the dirty marks that it answers go, in one step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

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


def test_records_of_an_older_ledger_are_of_no_cut(ledger: Ledger, tmp_path: Path) -> None:
    at = datetime(2026, 11, 30, 8, 15, tzinfo=UTC)
    of_cut = replace(computed("day=2026-01-02"), cut="c1", cut_at=at)
    ModelRecords(ledger).record_partitions([computed("day=2026-01-01"), of_cut])
    found = ModelRecords(ledger).partitions("m.daily")
    assert [(one.cut, one.cut_at) for one in found.values()] == [(None, None), ("c1", at)]
    with sa.create_engine(f"sqlite:///{tmp_path / 'ledger.db'}").begin() as connection:
        for name in ("cut", "cut_at"):
            connection.execute(sa.text(f"ALTER TABLE model_partitions DROP COLUMN {name}"))
        older = "UPDATE mirrorlake_meta SET value = '15' WHERE name = 'version'"
        connection.execute(sa.text(older))
    records = ModelRecords(Ledger(f"sqlite:///{tmp_path / 'ledger.db'}"))
    assert {(one.cut, one.cut_at) for one in records.partitions("m.daily").values()} == {
        (None, None)
    }
    records.record_partitions([of_cut])
    assert records.partitions("m.daily")["day=2026-01-02"].cut == "c1"


def test_a_mark_stays_where_the_record_could_not_be_written(ledger: Ledger) -> None:
    ledger.declare_invalid([OF_MODEL])
    broken = computed("day=2026-01-02")
    object.__setattr__(broken, "inputs", object())
    with pytest.raises(TypeError):
        ModelRecords(ledger).record_partitions([computed("day=2026-01-01", "m2"), broken])
    assert [one.mark_id for one in ledger.dirty_marks()] == ["m2"]
    assert ModelRecords(ledger).partitions("m.daily") == {}
