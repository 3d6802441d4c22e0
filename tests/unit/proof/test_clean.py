"""A clean table beside deduped, both made by hand: no server, no Spark."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from mirrorlake.config import ColumnRule, LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.commit import FOLDED
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import current_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger, Load, Window
from mirrorlake.proof.clean.clean import prove_clean
from mirrorlake.proof.clean.findings import CleanLook
from mirrorlake.proof.clean.rules import shown
from mirrorlake.proof.forms.differences import Formatter
from mirrorlake.schema.masking import keyed_hash
from mirrorlake.schema.own_columns import ORIGINAL

KEY = b"a key of sixteen bytes or more"
COLUMNS = [
    *(("id", "int"), ("mail", "string"), ("phone", "string"), ("born", "date")),
    *(("x", "double"), ("at", "timestamp"), ("cash", "decimal(12,2)"), ("photo", "binary")),
]
CLEAN = [(n, "string" if n in ("mail", "phone", "cash") else t) for n, t in COLUMNS if n != "photo"]
RULES = {
    "mail": ColumnRule(pii="hash"),
    "Phone": ColumnRule(pii="mask"),
    "born": ColumnRule(pii="null"),
    "photo": ColumnRule(pii="drop"),
    "cash": ColumnRule(pii="hash"),
    "card": ColumnRule(pci="never"),
}
ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "mail": None if n == 3 else f"m{n}@example.com",
        "phone": None if n == 3 else f"+49 12{n}" if n % 2 else "1234",
        "born": date(1990, 1, 1),
        "x": -0.0 if n == 1 else float(n),
        "at": datetime(2026, 1, 1, 0, 0, n),
        "cash": Decimal(f"-{n}.50"),
        "photo": b"\x00" * n,
        ORIGINAL: [{"column": "at", "text": "0000-00-00"}] if n == 2 else None,
    }
    for n in range(1, 6)
]


def hashed(text: str | None) -> str | None:
    return None if text is None else hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest()


def as_clean(row: dict[str, Any]) -> dict[str, Any]:
    phone = row["phone"]
    stars = None if phone is None else "********" + (phone[-2:] if len(phone) >= 6 else "")
    made = {**row, "mail": hashed(row["mail"]), "phone": stars, "born": None}
    made["cash"] = hashed(str(row["cash"]))
    del made["photo"]
    return made


class World:
    def __init__(self, folder: Path, **contract: Any) -> None:
        self.lake = Lake(LakeConfig(warehouse=str(folder / "lake")))
        self.ledger = Ledger(f"sqlite:///{folder / 'ledger.db'}")
        self.contract = TableContract(
            source="s",
            database="d",
            table="people",
            mode="full",
            clean="table",
            namespaces=Namespaces(raw="r", deduped="d", clean="c"),
            **{"key": ("id",), "columns": RULES, **contract},
        )
        self.fold(7, "deduped", "clean")

    def fold(self, seq: int, *layers: str) -> None:
        """A load that the ledger calls a success, and the layers that hold it."""
        now = datetime.now(UTC)
        window = Window("full", None, None, now.date())
        load = Load(
            *(seq, f"load {seq}", 1, self.contract.name, "success", "raw", window),
            *(None, 1, now, now, None, None),
        )
        self.ledger.adopt(load)
        for layer in layers:
            self.ledger.record_folds(self.contract.name, layer, [seq])

    def write(self, namespace: str, columns: Any, rows: list[dict[str, Any]], **more: str) -> None:
        table = ensure_current_table(
            self.lake, Identifier(namespace, "people"), current_schema(columns, True)
        )
        table.append(pa.Table.from_pylist(rows, table.schema().as_arrow()), more)

    def fill(self, clean: list[dict[str, Any]], rows: list[dict[str, Any]] = ROWS) -> None:
        self.write("d", COLUMNS, rows)
        self.write("c", CLEAN, clean)

    def look(self) -> CleanLook:
        return prove_clean(self.lake, self.ledger, self.contract, KEY)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_clean_table_by_the_rules_is_equal_whatever_its_files(world: World) -> None:
    world.write("d", COLUMNS, ROWS[:2])
    world.write("d", COLUMNS, ROWS[2:])
    world.write("c", CLEAN, [as_clean(row) for row in reversed(ROWS)])
    look = world.look()
    assert (look.verdict, look.words, look.expected.rows) == ("equal", (), 5)
    assert look.expected == look.found
    assert look.expected.digest != 0


def replaced(**cells: Any) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    return lambda row: [{**row, **cells}]


OTHER = hashlib.sha256(b"m2@example.com").hexdigest()
# A fault of a row: the rows that stand in its place, what it is called, in which columns.
FAULTS: dict[str, tuple[Callable[[dict[str, Any]], list[Any]], str, tuple[str, ...]]] = {
    "none": (lambda row: [row], "", ()),
    "doubled": (lambda row: [row, dict(row)], "extra", ()),
    "lost": (lambda _: [], "missing", ()),
    "unmasked": (replaced(phone="1234"), "changed", ("phone",)),
    "masked for good": (replaced(phone="********34"), "changed", ("phone",)),
    "unhashed": (replaced(mail="m2@example.com"), "changed", ("mail",)),
    "hashed without the key": (replaced(mail=OTHER), "changed", ("mail",)),
    "not nulled": (replaced(born=date(1990, 1, 1)), "changed", ("born",)),
    "wrong": (replaced(at=None), "changed", ("at",)),
    "wrong zero": (replaced(x=0.0), "changed", ("x",)),
    "lost original": (replaced(**{ORIGINAL: None}), "changed", (ORIGINAL,)),
    "swapped cells": (
        lambda row: [{**row, "mail": row["phone"], "phone": row["mail"]}], "changed", ("mail", "phone")
    ),
}  # fmt: skip


def test_every_fault_of_a_row_is_found_and_named(world: World) -> None:
    rows = [
        {**ROWS[1], "id": number, "mail": f"m{number}@example.com", "x": -0.0}
        for number, _ in enumerate(FAULTS)
    ]
    faults = [
        plant(as_clean(row)) for row, (plant, _, _) in zip(rows, FAULTS.values(), strict=True)
    ]
    world.fill([row for planted in faults for row in planted], rows)
    look = world.look()
    assert look.verdict == "different"
    found = {int(str(one.key[0].shown)): (one.kind, one.columns) for one in look.differences}
    expected = {n: (kind, columns) for n, (_, kind, columns) in enumerate(FAULTS.values()) if kind}
    assert found == expected
    changed = sum(kind == "changed" for kind, _ in expected.values())
    assert (look.missing, look.extra) == (changed + 1, changed + 1)
    lines = [one.line(Formatter(world.contract.rules, "k")) for one in look.differences]
    assert "example.com" not in str(lines)
    assert "missing in clean (id=2): deduped has this row" in lines


def test_a_row_under_another_key_is_missing_and_extra(world: World) -> None:
    world.fill([{**as_clean(row), "id": row["id"] + 10} for row in ROWS[:1]], ROWS[:1])
    assert {one.kind for one in world.look().differences} == {"missing", "extra"}


def test_originals_of_ruled_columns_must_not_stay(tmp_path: Path) -> None:
    world = World(tmp_path, columns={"at": ColumnRule(pii="null"), "mail": ColumnRule(pii="hash")})
    columns = [("id", "int"), ("mail", "string"), ("at", "timestamp")]
    kept = [{"column": "at", "text": "0000-00-00"}, {"column": "mail", "text": "FF"}]
    world.write("d", columns, [{"id": 1, "mail": None, "at": None, ORIGINAL: kept}])
    world.write("c", columns, [{"id": 1, "mail": hashed("FF"), "at": None, ORIGINAL: kept}])
    (found,) = world.look().differences
    assert (found.kind, found.columns) == ("changed", (ORIGINAL,))


def test_columns_that_should_not_be_are_told_beside_the_rows(world: World) -> None:
    world.write("d", COLUMNS, ROWS)
    columns = [(n, "long" if n == "id" else t) for n, t in CLEAN if n != "x"] + [
        ("photo", "binary")
    ]
    world.write("c", columns, [{**as_clean(r), "photo": r["photo"]} for r in ROWS])
    look = world.look()
    assert look.verdict == "different"
    assert set(look.words) == {
        "column x is missing in clean",
        "column photo must not be in clean",
        "column id is long in clean, not int",
    }


def test_columns_that_are_held_out_of_clean_must_not_be_there(world: World) -> None:
    world.write("d", COLUMNS, ROWS)
    columns = [(n, t) for n, t in CLEAN if n != "x"]
    world.write("c", columns, [as_clean(row) for row in ROWS])
    assert world.look().words == ("column x is missing in clean",)
    look = prove_clean(world.lake, world.ledger, world.contract, KEY, held=("x",))
    assert look.verdict == "equal"


def test_tables_without_a_key_are_compared_as_multisets(tmp_path: Path) -> None:
    world = World(tmp_path, key=())
    rows = [*ROWS, ROWS[0], ROWS[0]]
    clean = [as_clean(row) for row in rows]
    world.fill(clean[:-1], rows)
    look = world.look()
    assert (look.verdict, look.missing, look.extra) == ("different", 1, 0)
    assert look.differences[0].line(Formatter((), None)) == "missing in clean: deduped has this row"


def test_what_can_not_be_decided_is_said(world: World) -> None:
    """Never equal, and never different, over layers that do not hold the same loads."""
    rows = [as_clean(row) for row in ROWS]
    world.fill(rows[1:])
    with world.ledger.lease(world.contract.name, "a fold"):
        assert world.look().words == ("a run is writing the table: check again when it is done",)
    assert world.look().verdict == "different"
    world.write("d", COLUMNS, [], **{FOLDED: "9"})
    assert world.look().words == ("a fold was committed that nobody recorded: sync first",)
    world.fold(9, "deduped")
    look = world.look()
    assert (look.verdict, look.through) == ("undecided", 9)
    assert look.words == ("clean does not hold the loads that deduped holds: sync first",)


def test_nothing_folded_is_not_equal(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.contract = world.contract.model_copy(update={"database": "other"})
    world.write("d", COLUMNS, [])
    assert world.look().verdict == "undecided"


def test_a_clean_table_that_is_gone_is_different(world: World) -> None:
    with pytest.raises(LakeError, match="is not there"):
        world.look()
    world.write("d", COLUMNS, ROWS)
    assert world.look().verdict == "different"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        *((-5, pa.int32()), (2**63 - 1, pa.int64()), (Decimal("1E+2"), pa.decimal128(20, 0))),
        *(
            (Decimal("-0.0000000001"), pa.decimal128(38, 10)),
            (Decimal("0.00"), pa.decimal128(5, 2)),
        ),
        *(("Łódź 𝄞", pa.string()), ("", pa.string()), (date(7, 1, 2), pa.date32())),
        *(("x" * 200, pa.string()),),
    ],
)
def test_two_statements_of_the_hash_say_the_same(value: Any, kind: Any) -> None:
    for key in (KEY, b"k" * 100):
        (made,) = shown("hash", pa.array([value], kind), [None], key).to_pylist()
        assert made == keyed_hash(key)(pa.array([value], kind)[0].as_py(), None)
    assert shown("hash", pa.array([None], kind), ["0000-00-00"], KEY)[0].as_py() == hashed(
        "0000-00-00"
    )


def test_a_mask_counts_characters() -> None:
    texts = ["", "12345", "123456", "äöüÄÖ𝄞", None]
    made = shown("mask", pa.array(texts), [None] * 5, None).to_pylist()
    assert made == ["********", "********", "********56", "********Ö𝄞", None]


def test_time_zones_and_more_batches_than_one(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("mirrorlake.proof.clean.shown_rows.AT_ONCE", 2)
    world = World(tmp_path, columns={})
    columns = [("id", "int"), ("t", "timestamptz"), ("f", "float"), ("b", "boolean")]
    rows = [
        {
            "id": n,
            "t": datetime(2026, 1, n, tzinfo=UTC),
            "f": 0.1 * n,
            "b": n % 2 == 0,
            ORIGINAL: [],
        }
        for n in range(1, 8)
    ]
    world.write("d", columns, rows)
    world.write("c", columns, rows)
    assert world.look().verdict == "equal"
