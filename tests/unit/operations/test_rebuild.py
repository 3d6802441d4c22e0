"""What a rebuilt ledger believes of the lake: main alone, and no number twice. No server, no Spark."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa

from mirrorlake.config import LakeConfig, Namespaces, TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import begin_branch
from mirrorlake.destinations.iceberg.commits.commit import FOLDED, LOAD_ID, NUMBER, RECEIPT, WINDOW
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.schemas import current_schema, raw_schema
from mirrorlake.destinations.iceberg.tables.tables import ensure_current_table, ensure_raw_table
from mirrorlake.ledger import Ledger, Load, Receipt, Window
from mirrorlake.operations.repairing.restore_ledger import rebuild_table
from mirrorlake.schema.versions import Exact, SchemaVersion

CONTRACT = TableContract(
    source="s",
    database="d",
    table="t",
    mode="full",
    key=("id",),
    namespaces=Namespaces(raw="r", deduped="dd", clean="c"),
)

READ = Receipt(1, 1, 1, "0", "2026-01-01 01:00:00", None, "server", "", 0, 0, 0.0).to_json()


def adopted(ledger: Ledger, *seqs: int) -> None:
    now = datetime.now(UTC)
    for seq in seqs:
        window = Window("full", None, None, now.date())
        ledger.adopt(
            Load(
                *(seq, f"load {seq}", 1, CONTRACT.name, "success", "raw", window),
                *(None, 1, now, now, None, None),
            )
        )


def next_number(ledger: Ledger) -> int:
    window = Window("full", None, None, datetime.now(UTC).date())
    with ledger.lease(CONTRACT.name, "test") as lease:
        load_id = ledger.create_load(CONTRACT.name, window)
        return ledger.start_load(load_id, lease, "test", "raw", None).seq


def test_only_what_main_shows_is_folded_and_no_number_comes_twice(tmp_path: Path) -> None:
    """A refold that died has written loads to a branch, which main does not hold: they must be
    folded. And a load whose number was given out again would be taken for one that is folded."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    deduped = Identifier("dd", "t")
    table = ensure_current_table(lake, deduped, current_schema([("id", "int")], False), ("id",))
    rows = pa.Table.from_pylist([{"id": 1}], table.schema().as_arrow())
    table.append(rows, {FOLDED: "9"})  # of a fold that a stalled run wrote over
    lake.catalog.load_table(deduped.path).append(rows, {FOLDED: "3"})
    begin_branch(lake, deduped, "staged")
    lake.catalog.load_table(deduped.path).append(rows, {FOLDED: "12"}, branch="staged")
    adopted(ledger, 1, 2, 3, 4, 5)
    found = rebuild_table(ledger, lake, CONTRACT, "rebuild")
    assert found.folded == 3
    assert ledger.folded_loads(CONTRACT.name, "deduped") == {1, 2, 3}
    assert next_number(ledger) == 13
    assert rebuild_table(ledger, lake, CONTRACT, "rebuild") == found
    assert next_number(ledger) == 14
    assert len(ledger.loads(CONTRACT.name)) == 7


def test_versions_stand_in_the_order_in_which_they_were_last_loaded(tmp_path: Path) -> None:
    """One that came back is the newest; when it was first seen is what its first load says."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    shapes = {
        name: SchemaVersion("t", (("id", "int"), (name, "int"))) for name in ("a", "b", "idle")
    }
    for version in shapes.values():
        columns = [Exact(name, kind, name) for name, kind in version.columns]
        schema = raw_schema(columns, with_key=False)
        ensure_raw_table(lake, Identifier("r", version.raw_table), schema, CONTRACT.name, version)
    for seq, name in enumerate("aba", 1):
        raw = lake.catalog.load_table(("r", shapes[name].raw_table))
        row = {"id": 1, "_mirror_seq": seq, "_mirror_day": date(2026, 1, 1)}
        window = Window("full", None, None, date(2026, 1, 1)).to_json()
        said = {LOAD_ID: f"load {seq}", NUMBER: str(seq), RECEIPT: READ, WINDOW: window}
        raw.append(pa.Table.from_pylist([row], raw.schema().as_arrow()), said)
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    expected = [shapes["idle"], shapes["b"], shapes["a"]]
    rebuild_table(ledger, lake, CONTRACT, "rebuild")
    assert ledger.schema_versions(CONTRACT.name) == expected
    seen = ledger.first_seen(CONTRACT.name)
    assert seen[shapes["a"].hash] < seen[shapes["b"].hash] < seen[shapes["idle"].hash]
    # An old copy of it knows one of them, as the newest.
    ledger = Ledger(f"sqlite:///{tmp_path / 'old.db'}")
    ledger.record_schema_version(CONTRACT.name, shapes["b"])
    rebuild_table(ledger, lake, CONTRACT, "rebuild")
    assert ledger.schema_versions(CONTRACT.name) == expected


def test_a_layer_that_cannot_be_read_is_taken_for_empty(tmp_path: Path) -> None:
    """`mirrorlake refold` makes it again, and needs a ledger that knows the loads."""
    lake = Lake(LakeConfig(warehouse=str(tmp_path / "lake")))
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.db'}")
    table = ensure_current_table(
        lake, Identifier("dd", "t"), current_schema([("id", "int")], False)
    )
    Path("/" + table.metadata_location.removeprefix("file:").lstrip("/")).write_bytes(b"cut")
    adopted(ledger, 1)
    assert rebuild_table(ledger, lake, CONTRACT, "rebuild").folded == 0
