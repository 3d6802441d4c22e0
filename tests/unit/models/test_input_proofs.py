"""What a model reads that is not proved to be equal is said, in the words of the newest proofs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import load_config
from mirrorlake.ledger import Lease, Ledger, Proof, Window
from mirrorlake.models.compile.dependencies import EVERY_DAY, MirrorInput
from mirrorlake.models.partition_states.input_proofs import InputProofs
from tests.unit.models.test_project import Compiled
from tests.unit.operations.test_invalid import RECEIPT

TODAY = date(2024, 3, 4)
NOW = datetime.now(UTC)


class Proved:
    """A contract whose table `sales` was loaded, and what its partitions read of it."""

    def __init__(self, contract: Path, compiled: Compiled) -> None:
        compiled()
        self.catalogue: Any = compiled.catalogue  # type: ignore[attr-defined]
        self.ledger = Ledger(load_config(contract).ledger.url)
        self.load(Window("initial", None, None, TODAY))
        self.ledger.lower_first_day("s.d.sales", date(2024, 3, 1))

    def load(self, window: Window) -> None:
        load_id = self.ledger.create_load("s.d.sales", window)
        load = self.ledger.start_load(load_id, Lease("s.d.sales", "o", 1), "run", "t_v_1", None)
        self.ledger.finish_load(load, 1, RECEIPT)

    def check(self, verdict: str, *, before: date | None = TODAY, minutes: int = 0) -> None:
        at = NOW + timedelta(minutes=minutes)
        proof = Proof(
            check_id=f"c{minutes}", table="s.d.sales", asked="full", lo=None, hi=None,
            verdict=verdict, source_rows=1, lake_rows=1, source_digest="0", lake_digest="0",
            waiting=0, differences=0 if verdict == "equal" else 3, server="s", position="p",
            source_time=at, snapshot_id=None, through_seq=self.ledger.newest_success("s.d.sales"),
            code="v", started_at=at, seconds=0.1, source_bytes=1, evidence="e", days_before=before,
        )  # fmt: skip
        self.ledger.record_proofs([proof], None)

    def said(self, *days: tuple[int, int] | None, table: str = "s_d.sales") -> list[str]:
        """What is not proved of partitions that read some days of March (None: all)."""
        read = [
            EVERY_DAY if one is None else ((date(2024, 3, one[0]), date(2024, 3, one[1])),)
            for one in days
        ]
        proofs = InputProofs(self.catalogue, self.ledger, TODAY)
        found = proofs.unproved([[MirrorInput(table, "sold_at", one)] for one in read])
        return [f"{one.partitions} read {one.words}" for one in found]


@pytest.fixture
def proved(contract: Path, compiled: Compiled) -> Proved:
    return Proved(contract, compiled)


def test_days_that_were_never_checked(proved: Proved) -> None:
    assert proved.said((1, 2), (2, 2)) == [
        "2 read 2 days of s.d.sales (2024-03-01 to 2024-03-02): never checked"
    ]
    assert proved.said(None) == [
        "1 read 4 days of s.d.sales (2024-03-01 to 2024-03-04): never checked"
    ]


def test_days_that_are_proved_are_not_named(proved: Proved) -> None:
    proved.check("equal")
    assert proved.said((1, 2), (3, 3)) == []
    # The open day is not over: nobody can have proved it.
    assert proved.said((3, 4), (1, 1)) == [
        "1 read 1 day of s.d.sales (2024-03-04): not compared since they were last written"
    ]


def test_what_was_written_since_is_not_proved(proved: Proved) -> None:
    proved.check("equal")
    proved.load(Window("reload", "2024-03-02", "2024-03-03", TODAY))
    # Windows are in UTC and days by the application's clock: the day before counts, too.
    (words,) = proved.said((1, 3))
    assert words.endswith("2024-03-01 to 2024-03-03): not compared since they were last written")


def test_a_check_that_was_not_equal_says_so(proved: Proved) -> None:
    proved.check("equal")
    proved.check("undecided", minutes=1)
    assert proved.said((1, 1)) == [
        "1 read 1 day of s.d.sales (2024-03-01): "
        f"undecided as of {NOW + timedelta(minutes=1):%Y-%m-%d %H:%M}: 3 rows"
    ]


def test_a_table_that_was_marked_is_not_proved_whatever_was(proved: Proved) -> None:
    proved.check("equal")
    proved.ledger.mark_unproved("s.d.sales", "server", "its source became another server")
    assert proved.said((1, 1)) == [
        "1 read 1 day of s.d.sales (2024-03-01): unproved: its source became another server"
    ]


def test_a_table_without_days_is_proved_as_a_whole(proved: Proved) -> None:
    def of_people() -> list[str]:
        proofs = InputProofs(proved.catalogue, proved.ledger, TODAY)
        found = proofs.unproved([[MirrorInput("s_d__clean.people", None, EVERY_DAY)]])
        return [one.words for one in found]

    assert of_people() == ["s.d.people: never checked"]


def test_what_is_proved_is_read_of_all_columns(proved: Proved) -> None:
    proved.check("equal", before=None)  # the cursor told no day
    assert proved.said((1, 2)) == []  # but all keys were compared, and nothing came since
