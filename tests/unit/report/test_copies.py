"""Snapshots and partitions of models are on the page as the ledger has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from mirrorlake.landing.ledger import SNAPSHOTS
from mirrorlake.landing.status import landed_copies
from mirrorlake.ledger import Ledger
from mirrorlake.models.ledger import MODEL_CHECKS, MODEL_PARTITIONS
from mirrorlake.operations.status.all_tables import named_tables
from mirrorlake.report.collect import make_report
from mirrorlake.report.copy_days import copy_days
from mirrorlake.report.page.write import report_page
from tests.support.recorded_mirror import DAY, RecordedMirror, at

TODAY = datetime.now(UTC).date()
PERSONAL = "person@example.com"


def plain(moment: datetime) -> datetime:
    return moment.replace(tzinfo=None)


@pytest.fixture
def mirror(tmp_path: Path) -> RecordedMirror:
    mirror = RecordedMirror(tmp_path, {"orders": {"mode": "full", "key": ["id"]}})
    mirror.write()
    return mirror


def insert(ledger: Ledger, table: object, *rows: dict[str, object]) -> None:
    with ledger.database.begin() as connection:
        connection.execute(table.insert(), list(rows))  # type: ignore[attr-defined]


def test_partitions_of_models_are_shown_without_values(mirror: RecordedMirror) -> None:
    config, ledger = mirror.write()
    same = {"model": "shop.daily", "lake_table": "u", "run_id": "r"}
    computed = {**same, "fingerprint": "f", "inputs": "{}", "seconds": 1.5, "snapshot_id": 1}
    insert(
        ledger,
        MODEL_PARTITIONS,
        *(
            {
                **computed,
                "partition_key": key,
                "rows_computed": rows,
                "computed_at": plain(at(TODAY - age * DAY)),
            }
            for key, rows, age in ((str(TODAY), 7, 0), (PERSONAL, 5, 1), ("old", 1, 99))
        ),
    )
    wrong = {"name": "unique", "terms": "", "words": "", "severity": "error", "passed": False}
    results = json.dumps([{**wrong, "failed": 2, "said": "2 rows"}])
    looked = {"rows_checked": 9, "results": results, "checked_at": plain(at(TODAY - 3 * DAY))}
    insert(ledger, MODEL_CHECKS, {**same, "snapshot_id": 2, "partition_key": "", **looked})
    tables = named_tables(config, ())
    report = make_report(config, ledger, tables, days=14, besides=True)
    model = report.tables[-1]
    assert (model.table, model.mode, model.proof) == ("model shop.daily", "model", None)
    found = [(x.name, x.state, x.failed, x.rows) for x in model.copies]
    assert found == [
        ("the whole table", "refused", True, 9),
        ("a partition", "computed", False, 5),
        (str(TODAY), "computed", False, 7),
    ]
    states = {run.first: run.state for run in model.days}
    assert states[TODAY - 3 * DAY] == "errored"
    assert {state for day, state in states.items() if day >= TODAY - DAY} == {"loaded"}
    assert report.days == {}
    page = report_page(report, config.path.parent / "report.html")
    assert PERSONAL not in page
    assert "unique: 2 rows" in page


def test_only_what_readers_have_is_loaded(mirror: RecordedMirror) -> None:
    _, ledger = mirror.write()
    same = {"table_name": "l.t", "fingerprint": "f", "digest": "d", "files": 1, "bytes": 10}
    same |= {"bad": 0, "attempts": 1, "number": None}
    states = ("published", "refused", "arriving", "withdrawn")
    insert(
        ledger,
        SNAPSHOTS,
        *(
            {
                **same,
                "id": number,
                "state": state,
                "rows_read": 5,
                "seen_at": plain(at(TODAY - number * DAY)),
                "changed_at": plain(at(TODAY - number * DAY)),
                "published_at": plain(at(TODAY - number * DAY)) if state == "published" else None,
                "error": "malformed" if state == "refused" else None,
            }
            for number, state in enumerate(states)
        ),
    )
    copies = landed_copies(ledger, at(TODAY - 9 * DAY))["l.t"]
    assert [one.state for one in copies] == [*reversed(states)]
    runs = copy_days(copies, TODAY - 4 * DAY, TODAY)
    assert [(run.state, run.words) for run in runs] == [
        ("none", "nothing that day"),
        ("none", "1 withdrawn"),
        ("none", "1 arriving"),
        ("errored", "1 refused"),
        ("loaded", "1 published"),
    ]
    assert landed_copies(ledger, at(TODAY, 7)) == {}
