"""What looks personal in clean is said until the contract speaks: on lake tables, no server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.config import ColumnRule, LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.ledger import Ledger
from mirrorlake.serving import personal_audit
from mirrorlake.serving.personal_audit import find_suspects
from mirrorlake.table.columns.clean_columns import look_name, read_look, undecided

COLUMNS = [("id", "int"), ("memo", "string"), ("blob", "binary"), ("card", "long"), ("n", "int")]
PLAIN = {"id": 1, "memo": "plain", "blob": b"\xff\x00", "card": 17, "n": 3}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(LakeConfig(warehouse=str(tmp_path / "lake")))


def contract(**columns: ColumnRule) -> TableContract:
    spaces = Namespaces(raw="r", deduped="d", clean="c")
    return TableContract(
        source="s",
        database="d",
        table="t",
        mode="full",
        key=("id",),
        columns=columns,
        namespaces=spaces,
    )


def _recorded(ledger: Ledger, found: TableContract) -> dict[str, str]:
    """What `status` and `check` show of the looks so far."""
    return undecided(found, read_look(ledger.definition(look_name(found)))["found"])


def append(lake: Lake, *rows: dict[str, Any]) -> None:
    schema = current_schema(COLUMNS, False)
    table = ensure_current_table(lake, Identifier("c", "t"), schema)
    table.append(pa.Table.from_pylist(list(rows), table.schema().as_arrow()))


def test_only_new_rows_are_sampled_and_what_was_found_stays(lake: Lake, ledger: Ledger) -> None:
    append(lake, *[PLAIN] * 3)
    seen = find_suspects(lake, ledger, contract())
    assert (seen.rows, seen.found) == (3, {})
    append(lake, PLAIN, {**PLAIN, "memo": "to a@example.com", "blob": b"b@example.com"})
    seen = find_suspects(lake, ledger, contract())
    words = "1 of 2 sampled values hold an e-mail address"
    # Bytes that are no text are no value.
    expected = {"blob": "1 of 1 sampled values hold an e-mail address", "memo": words}
    assert (seen.rows, seen.found) == (2, expected)
    append(lake, PLAIN)
    assert find_suspects(lake, ledger, contract()).found == expected
    assert _recorded(ledger, contract()) == expected


def test_a_rule_or_show_ends_it(lake: Lake, ledger: Ledger) -> None:
    append(lake, {**PLAIN, "memo": "to a@example.com"})
    assert set(find_suspects(lake, ledger, contract()).found) == {"memo"}
    shown = contract(MEMO=ColumnRule(pii="show"))
    assert _recorded(ledger, shown) == {}
    assert find_suspects(lake, ledger, shown).found == {}
    # The rule is taken back: the rows that were there before are looked at after all.
    seen = find_suspects(lake, ledger, contract())
    assert (seen.rows, set(seen.found)) == (1, {"memo"})


def test_card_numbers_in_a_column_of_numbers(lake: Lake, ledger: Ledger) -> None:
    cards = [4111111111111111, 5500000000000004, 4012888888881881, 3530111333300000]
    append(lake, *({**PLAIN, "card": card} for card in [*cards, 6011111111111117]))
    assert set(find_suspects(lake, ledger, contract()).found) == {"card"}


def test_a_sample_is_bounded_and_reaches_every_file(
    lake: Lake, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(personal_audit, "SAMPLED", 8)
    for _ in range(3):
        append(lake, *[PLAIN] * 20)
    append(lake, {**PLAIN, "memo": "a@example.com"}, *[PLAIN] * 19)
    seen = find_suspects(lake, ledger, contract())
    assert (seen.rows, set(seen.found)) == (8, {"memo"})
    whole = find_suspects(lake, ledger, contract(), whole=True)
    assert whole.rows == 80


def test_no_clean_is_nothing_to_sample(lake: Lake, ledger: Ledger) -> None:
    assert find_suspects(lake, ledger, contract()).rows == 0
