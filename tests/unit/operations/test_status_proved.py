"""What `status` says of proofs: what was found equal, as of when, and what has come since."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.config import Config, load_config
from mirrorlake.landing.ledger import FileRecord, LandedSnapshots, SeenSnapshot
from mirrorlake.landing.notices import SnapshotNotices
from mirrorlake.landing.status import snapshot_checks, snapshots_proved
from mirrorlake.ledger import LayerProof, Ledger, Proof, Receipt, Tenant, Window
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.operations.status.layer_status import (
    newest_proof,
)
from mirrorlake.operations.status.status import status_of
from mirrorlake.operations.status.table_status import TableStatus
from mirrorlake.proof.coverage.coverage import ProofStatus
from mirrorlake.schema.versions import SchemaVersion, schema_version
from mirrorlake.table.columns.new_columns import held_now, hidden_name
from mirrorlake.workspace import Workspace
from tests.unit.operations.test_queries import filled

AT = datetime(2026, 1, 2, 9, 7, 48, tzinfo=UTC)


@pytest.fixture
def place(tmp_path: Path) -> tuple[Config, Ledger]:
    return filled(tmp_path / "place", 1)


def look(ledger: Ledger, lo: str | None, hi: str | None, **more: object) -> None:
    """A check of a range of keys, recorded."""
    (table,) = ledger.newest_loads(["s.d.t0"])
    through = ledger.newest_success(table)
    fields: dict[str, object] = {
        "check_id": f"{lo}..{hi}",
        "table": table,
        "asked": "full",
        "lo": lo,
        "hi": hi,
        "verdict": "equal",
        "source_rows": 3,
        "lake_rows": 3,
        "source_digest": "00",
        "lake_digest": "00",
        "waiting": 0,
        "differences": 0,
        "server": "uuid",
        "position": "0-1-5",
        "source_time": AT,
        "snapshot_id": 1,
        "through_seq": through,
        "code": "1",
        "started_at": datetime.now(UTC),
        "seconds": 0.1,
        "source_bytes": 1,
        "evidence": "",
    }
    ledger.record_proofs([Proof(**{**fields, **more})], None)  # type: ignore[arg-type]


def one(config: Config, ledger: Ledger) -> TableStatus:
    (found,) = status_of(config, ledger, config.tables)
    return found


def test_a_whole_check_is_what_is_proved(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    assert one(config, ledger).checks == "folded, loaded, not yet proved"
    look(ledger, None, None)
    found = one(config, ledger)
    assert found.checks == "folded, every row proved as of 2026-01-02 09:07, no load since"
    assert found.proved == ProofStatus("2026-01-02T09:07:48+00:00", 3, True, 0)


def test_rows_that_were_too_new_to_be_compared_are_said(place: tuple[Config, Ledger]) -> None:
    """Of one check, though each of its ranges has the number."""
    config, ledger = place
    look(ledger, None, "100", waiting=11, check_id="one")
    assert "3 rows proved as of 2026-01-02 09:07" in one(config, ledger).checks
    look(ledger, "100", None, waiting=11, check_id="one")
    found = one(config, ledger)
    words = "every row but 11 too new to be compared, proved as of 2026-01-02 09:07, no load since"
    assert found.checks == f"folded, {words}"
    assert found.proved == ProofStatus("2026-01-02T09:07:48+00:00", 6, True, 0, waiting=11)
    look(ledger, None, None)
    assert "every row proved as of" in one(config, ledger).checks


def test_what_came_since_is_counted(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    look(ledger, None, None)
    table = config.tables[0].name
    load_id = ledger.create_load(table, Window("full", None, None, date(2026, 1, 3)))
    moment = AT.replace(tzinfo=None).isoformat()
    receipt = Receipt(3, 100, 1, "00", moment, None, "uuid", "0-1-5", 0, 0, 0.5)
    with ledger.lease(table, "run") as lease:
        load = ledger.start_load(load_id, lease, "run", "raw_1", None)
        ledger.finish_load(load, 43, receipt)
        ledger.record_folds(table, "deduped", [load.seq])
    assert "every row proved as of 2026-01-02 09:07, 1 load since" in one(config, ledger).checks


@pytest.mark.parametrize(
    ("all_proved", "words"),
    [
        (True, "folded, loaded, proved before it was visible"),
        (False, "folded, loaded, proved before it was visible, not all earlier ones"),
    ],
)
def test_a_load_that_was_proved_says_nothing_of_those_before_it(
    place: tuple[Config, Ledger], all_proved: bool, words: str
) -> None:
    config, ledger = place
    table = config.tables[0].name
    load_id = ledger.create_load(table, Window("live", "1", None, date(2026, 1, 3)))
    moment = AT.replace(tzinfo=None).isoformat()
    receipt = Receipt(3, 100, 1, "00", moment, None, "uuid", "0-1-5", 0, 0, 0.5)
    receipt = replace(receipt, source_digest="sha256:00", all_proved=all_proved)
    with ledger.lease(table, "run") as lease:
        load = ledger.start_load(load_id, lease, "run", "raw_1", None)
        ledger.finish_load(load, 43, receipt)
        ledger.record_folds(table, "deduped", [load.seq])
    assert one(config, ledger).checks == words


def test_chunks_prove_a_table_together(place: tuple[Config, Ledger]) -> None:
    config, ledger = place
    look(ledger, None, "100", source_time=AT - timedelta(hours=1), asked="next")
    assert "3 rows proved as of 2026-01-02 08:07" in one(config, ledger).checks
    look(ledger, "100", None, asked="next")
    assert "every row proved as of 2026-01-02 08:07" in one(config, ledger).checks
    look(ledger, None, "100", verdict="different", differences=1, asked="next")
    assert "3 rows proved as of 2026-01-02 09:07" in one(config, ledger).checks
    ledger.mark_unproved(config.tables[0].name, "uuid", "a DDL")
    assert one(config, ledger).proved is None


def test_of_a_table_that_moved_nothing_is_said_to_be_proved_or_fresh(
    place: tuple[Config, Ledger],
) -> None:
    config, ledger = place
    look(ledger, None, None)
    contract = config.tables[0]
    version = schema_version(contract.table, [("id", "int")])
    ledger.record_schema_version(contract.name, version)
    spaces = (contract.namespaces.raw, contract.namespaces.deduped)
    at = {space: f"at/{space}/{contract.table}" for space in spaces}
    ledger.record_lake_heads(
        [
            LakeHead(space, contract.table, contract.name, "uuid", 43, 1, at[space])
            for space in spaces
        ]
    )
    before = one(config, ledger)
    assert (before.state, before.freshness is None, before.proved is None) == (
        *("success", False, False),
    )
    with sqlite3.connect(Path(config.lake.warehouse) / "catalog.db") as catalog:
        catalog.execute("DELETE FROM iceberg_tables WHERE table_namespace = ?", (spaces[1],))
    found = one(config, ledger)
    assert found.state == "moved"
    assert (found.freshness, found.proved, found.unchanged) == (None, None, None)
    assert "proved" not in found.checks
    assert "folded" not in found.checks


def test_a_landed_copy_is_proved_as_of_its_newest_check(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")

    def publish(number: int) -> None:
        LandedSnapshots(ledger).see_snapshots("f.d.t", [SeenSnapshot(number, "f", 1, 10)])
        LandedSnapshots(ledger).land_snapshot(
            "f.d.t", number, number, "x", [FileRecord("p", 10, "", "", 3)]
        )
        LandedSnapshots(ledger).publish_snapshots("f.d.t", [number])

    def checked(*snapshots: int, **of: Any) -> str:
        """A check of these snapshots, now; the minute."""
        at = ledger.clock()
        read = f"snapshot {max(snapshots)} and {len(snapshots) - 1} more, lake version 7"
        proof = LayerProof(
            *(f"{at}", "f.d.t", "deduped", "equal", "", "", 3, "", 3, ""), *(read, 0, "1", at, 0.1)
        )
        ledger.record_layer_proofs([replace(proof, **of)])
        return f"{at:%Y-%m-%d %H:%M}"

    def words() -> str:
        records = LandedSnapshots(ledger).snapshots("f.d.t")
        published = [one for one in records if one.state == "published"]
        newest = newest_proof(ledger, "f.d.t", "deduped")
        return snapshot_checks(newest, snapshots_proved(newest, published), published=True)

    publish(20260101000000)
    publish(20260103000000)
    at = checked(20260101000000, 20260103000000)
    assert words() == f"folded, every row proved as of {at}, no snapshot since"
    publish(20260104000000)
    assert words() == f"folded, every row proved as of {at}, 1 snapshot since"
    publish(20260102000000)  # a late one
    assert words() == f"folded, every row proved as of {at}, 2 snapshots since"
    days = [20260100000000 + day * 1_000_000 for day in (1, 2, 3, 4)]
    at = checked(*days)
    assert words() == f"folded, every row proved as of {at}, no snapshot since"
    SnapshotNotices(ledger).withdraw_snapshots("f.d.t", days[1:2])
    other = (
        f"newest check equal of snapshot {days[3]}, as of {at}, and readers see other snapshots now"
    )
    assert words() == f"folded, {other}"
    publish(20260105000000)  # over the gap, once somebody decided
    assert words() == f"folded, {other}"
    at = checked(*days, snapshots=f"snapshot {days[3]}, lake version 7")  # of an earlier release
    assert words() == f"folded, every row proved as of {at}, 1 snapshot since"
    at = checked(*days, verdict="different", words="1 missing")
    assert words() == (
        f"folded, newest check different (1 missing) of snapshot {days[3]}, as of {at}"
    )


def test_tenants_are_proved_as_of_the_oldest_of_their_checks(tmp_path: Path) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(
        "version: 1\nsources: {s: {host: h, user: u}}\n"
        "tenants: {g: {sources: [s], databases: ['x_%'], tables: {t: {key: [id]}}}}\n"
    )
    config = load_config(path)
    ledger, [table] = Ledger(f"sqlite:///{tmp_path}/own.db"), config.tenants
    moment = AT.replace(tzinfo=None).isoformat()
    receipt = Receipt(3, 100, 1, "00", moment, None, "uuid", "0-1-5", 0, 0, 0.5)

    def loaded() -> tuple[str, int]:
        load_id = ledger.create_load(table.name, Window("full", None, None, date(2026, 1, 3)))
        with ledger.lease(table.name, "run") as lease:
            load = ledger.start_load(load_id, lease, "run", "raw_1", None)
            ledger.finish_load(load, 43, receipt)
        return load_id, load.seq

    def tenant(name: str, checked: datetime) -> Tenant:
        load_id, seq = loaded()
        return Tenant(
            *("s", name, AT),
            load_id=load_id,
            folded=load_id,
            seq=seq,
            rows=3,
            verdict="equal",
            checked_at=checked,
        )

    later = datetime.now(UTC) + timedelta(hours=1)
    first, second = tenant("x_1", later), tenant("x_2", later + timedelta(hours=1))
    ledger.record_tenants(table.name, [first, second])
    [found] = status_of(config, ledger, [table])
    assert found.proved == ProofStatus(later.isoformat(timespec="seconds"), 6, True, 0, "copy")
    assert "every row proved as of" in found.checks
    # Checked before its newest copy was read.
    ledger.record_tenants(table.name, [replace(second, checked_at=AT)])
    [found] = status_of(config, ledger, [table])
    assert found.proved == ProofStatus("2026-01-02T09:07:48+00:00", 3, False, 1, "copy")
    assert "3 rows proved as of 2026-01-02 09:07, 1 copy since" in found.checks


def test_a_hidden_column_that_came_back_is_held_whatever_new_columns_says(
    place: tuple[Config, Ledger],
) -> None:
    config, ledger = place
    contract = config.tables[0].model_copy(update={"new_columns": "show"})
    version = SchemaVersion(contract.table, (("id", "int"), ("Mail", "int")))
    ledger.record_schema_version(contract.name, version)
    gone = {"hidden": ["mail"], "gone": ["mail"]}
    ledger.record_definition(hidden_name(contract), json.dumps(gone))
    (found,) = status_of(config, ledger, [contract])
    with Workspace.open(config) as workspace:
        assert found.held_columns == held_now(ledger, workspace.lake, contract)
    assert found.held_columns == ("Mail",)
