"""`mirrorlake check` of a table that lands: kept rows and `_mirror_snapshot` too, and what becomes of
the verdict where files are gone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mirrorlake.landing.check import check_snapshots
from tests.integration.conftest import Place
from tests.integration.landing.test_decisions import IDS, Commands
from tests.integration.landing.test_landing import SCHEMA, line

NEW = {**SCHEMA, "columns": [*SCHEMA["columns"], {"name": "size", "type": "int"}]}


@pytest.mark.full
def test_what_a_removed_file_said_is_undecided(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the verdict, the exit code, the ledger and the status; and a difference stays one."""
    feed = Commands(place, "k1", monkeypatch)
    folder = feed.land(IDS[0], [line(1), line(2), line(3)])
    feed.land(IDS[1], [line(1, "2.00"), line(3)])
    feed.arrive()

    def check(code: int) -> dict[str, Any]:
        done = feed.run("check", feed.table, "--json")
        assert done.exit_code == code, done.output
        return json.loads(done.stdout)

    found = check(0)
    assert (found["verdict"], found["rows"], found["kept"]) == ("equal", 3, 1)
    assert found["compared"].endswith("with the files of 2 of 2 snapshots")
    (folder / f"{IDS[0]}_0.json").unlink()
    found = check(10)
    # Row 2 stood in that file alone; the others may have been so in it, or not.
    assert (found["undecided"], found["undecided_since"]) == (1, 2)
    assert found["unread"][str(IDS[0])].endswith("_0.json is not there any more")
    (status,) = json.loads(feed.run("status", feed.table, "--json").stdout)
    words = "newest check undecided (1 undecided, 2 undecided in _mirror_snapshot alone"
    assert words in status["checks"]
    assert (status["state"], status["rows"]) == ("published", 3)
    lake = feed.contract.namespaces.deduped
    place.spark.get().sql(f"UPDATE lake.{lake}.t SET mail = 'other' WHERE id = 3")
    found = check(9)
    assert found["differences"] == [
        f"changed (id=3): `mail` does not match between snapshot {IDS[1]} (val=(hidden)) and the "
        "lake (val=(hidden))"
    ]
    assert found["undecided"] == 1
    shown = json.loads(feed.run("proof", feed.table, "--json").stdout)
    assert [(one["layer"], one["verdict"]) for one in shown] == [("deduped", "different")]
    refused = feed.run("check", feed.table, "--next")
    assert "it is compared as a whole" in str(refused.exception)


@pytest.mark.full
def test_a_snapshot_is_read_by_the_columns_that_it_was_folded_under(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A column that came since is NULL in it, and one that is wider now was narrower."""
    feed = Commands(place, "k2", monkeypatch)
    schema = feed.folder / "schemas/k2/d/t.json"
    feed.land(IDS[0], [line(1), line(2), line(3)])
    feed.arrive()
    wider = json.loads(json.dumps(NEW).replace("decimal(12,2)", "decimal(14,2)"))
    schema.write_text(json.dumps(wider))
    assert check_snapshots(feed.workspace, feed.contract).equal  # before the column was ever folded
    rows = [{**json.loads(line(n)), "size": size} for n, size in ((1, None), (3, 7))]
    feed.land(IDS[1], [json.dumps(row) for row in rows])
    feed.arrive()
    found = check_snapshots(feed.workspace, feed.contract)
    assert (found.verdict, found.rows, found.kept, found.unread) == ("equal", 3, 1, {})
    assert {key: row[2] for key, row in feed.rows().items()} == {1: IDS[0], 2: IDS[0], 3: IDS[1]}
