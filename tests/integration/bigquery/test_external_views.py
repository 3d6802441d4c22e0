"""Views for readers of tables that services write in BigQuery: what they show, and who changed them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.google.clients import open_warehouse
from tests.integration.bigquery.test_commands import said
from tests.integration.contract_files import write_contract
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud

EVENTS = """format: bigquery
table: {dataset}.events
columns: {{id: bigint, email: string, born: date, note: string}}
hidden: [email, born]
clean: {clean}
"""
CREATE = "CREATE TABLE {0}.events (id INT64, email STRING, born DATE, note STRING, added STRING)"
INSERT = """INSERT INTO {0}.events VALUES (1, 'ann@example.com', DATE '1990-01-02', 'a', 'x'),
    (2, NULL, NULL, NULL, NULL), (3, 'b@c', DATE '0001-01-01', 'ü', 'y')"""


class Written:
    """A service's dataset, and the contract file and declaration beside which it is watched."""

    def __init__(self, folder: Path, cloud: GoogleCloud) -> None:
        self.folder, self.cloud = folder, cloud
        self.dataset = f"app_{abs(hash(folder))}"
        section = {"project": PROJECT, "bucket": BUCKET}
        self.path = str(write_contract(folder / "mirrorlake.yaml", 1, {}, bigquery=section))
        cloud.make_dataset(self.dataset)
        for statement in (CREATE, INSERT):
            cloud.client().query_and_wait(statement.format(self.dataset))

    def declare(self, clean: str) -> None:
        file = self.folder / "models" / "app" / "events.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(EVENTS.format(dataset=self.dataset, clean=clean))

    def views(self, code: int = 0) -> Any:
        return json.loads(said("external", "views", "--config", self.path, "--json", code=code))

    def verdict(self, code: int = 0) -> tuple[str, str]:
        words = ("external", "check", "--config", self.path, "--json")
        [table] = json.loads(said(*words, code=code))["tables"]
        [found] = [one for one in table["verdicts"] if one["check"] == "clean"]
        return found["verdict"], found["words"]

    def rows(self) -> list[tuple[Any, ...]]:
        view = f"{self.dataset}__views_clean.events"
        found = self.cloud.client().query_and_wait(f"SELECT * FROM `{view}` ORDER BY id")
        return [tuple(row.values()) for row in found]


@pytest.fixture
def written(tmp_path: Path, cloud: GoogleCloud) -> Written:
    return Written(tmp_path, cloud)


@pytest.mark.full
def test_readers_see_what_the_file_says_and_no_more(written: Written) -> None:
    written.declare("{email: mask, born: null}")
    refused = written.views(code=6)
    assert "bq mk --dataset" in refused["errors"][0]["error"]
    assert written.verdict(code=9)[0] == "failed"
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    [made] = written.views()["views"]
    assert (made["table"], made["state"]) == ("app.events", "made")
    assert written.rows() == [
        (1, "********om", None, "a"),
        (2, None, None, None),
        (3, "********", None, "ü"),
    ]
    assert written.verdict() == ("passed", "The view for readers is as declared")
    assert written.views()["views"][0]["state"] == "unchanged"
    shown = json.loads(said("show", "app.events", "--config", written.path, "--json"))
    assert (shown["hidden"], shown["view"]) == (["born", "email"], made["view"])
    assert shown["in_view"] == {"id": "show", "email": "mask", "born": "null", "note": "show"}
    table = said("show", "app.events", "--config", written.path)
    assert f"Readers have the view {made['view']}:" in table


@pytest.mark.full
def test_a_stricter_rule_and_a_view_that_somebody_changed(written: Written) -> None:
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    written.declare("{email: show}")
    written.views()
    assert written.rows()[0] == (1, "ann@example.com", "a")
    written.declare("{}")
    verdict, words = written.verdict(code=9)
    assert verdict == "failed"
    assert "is not as events.yaml says: mirrorlake external views makes it" in words
    written.views()
    assert written.rows()[0] == (1, "a")
    view = f"{PROJECT}.{written.dataset}__views_clean.events"
    by_hand = f"CREATE OR REPLACE VIEW `{view}` AS SELECT * FROM `{written.dataset}.events`"
    written.cloud.client().query_and_wait(by_hand)
    assert written.verdict(code=9)[0] == "failed"
    written.views()
    assert written.rows()[0] == (1, "a")


@pytest.mark.full
def test_a_view_that_shows_too_much_goes_where_it_can_not_be_made(written: Written) -> None:
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    written.declare("{email: show}")
    written.views()
    written.declare("{}")
    file = written.folder / "models" / "app" / "events.yaml"
    file.write_text(file.read_text().replace("note: string", "note: bigint"))
    assert written.verdict(code=9) == (
        "undecided",
        "The table is not as declared: what its view shows is not compared",
    )
    assert "column note is STRING" in written.views(code=2)["errors"][0]["error"]
    tables = written.cloud.client().list_tables(f"{written.dataset}__views_clean")
    assert [one.table_id for one in tables] == []


@pytest.mark.full
def test_a_table_of_another_project_has_no_view(written: Written) -> None:
    written.declare("{}")
    file = written.folder / "models" / "app" / "events.yaml"
    file.write_text(file.read_text().replace("table: ", "table: other-project."))
    open_warehouse("other-project", None).create_dataset(written.dataset)
    create = CREATE.format(f"`other-project`.{written.dataset}")
    open_warehouse("other-project", None).query_and_wait(create)
    [error] = written.views(code=2)["errors"]
    assert "models/app/events.yaml:2:" in error["error"]
    assert "in the contract's own project, and the table is in another one" in error["error"]


@pytest.mark.full
def test_a_mirrored_tables_view_is_left_to_the_contract(written: Written) -> None:
    """A file about a table that Mirrorlake loads would show what the contract hides."""
    section = {"project": PROJECT, "bucket": BUCKET}
    table = {"mode": "full", "key": ["id"], "publish": ["lake", "bigquery"]}
    filled = {"deduped": written.dataset, "raw": "r", "clean": "c"}
    write_contract(
        Path(written.path),
        1,
        {"d": {"namespaces": filled, "tables": {"t": table}}},
        bigquery=section,
    )
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    written.declare("{}")
    [error] = written.views(code=2)["errors"]
    assert f"Mirrorlake fills {written.dataset}" in error["error"]
    assert not [*written.cloud.client().list_tables(f"{written.dataset}__views_clean")]


@pytest.mark.full
def test_two_files_of_one_table_do_not_change_its_view_in_turn(written: Written) -> None:
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    written.declare("{email: mask}")
    file = written.folder / "models" / "app" / "events.yaml"
    named = file.read_text().replace("table: ", f"table: {PROJECT}.").replace("mask", "show")
    file.with_name("others.yaml").write_text(named)
    first, second = written.views(code=2)["errors"]
    assert "others.yaml says what the view of" in first["error"]
    assert "events.yaml says what the view of" in second["error"]
    assert not [*written.cloud.client().list_tables(f"{written.dataset}__views_clean")]


@pytest.mark.full
def test_a_file_that_can_not_be_read_holds_up_no_other(written: Written) -> None:
    written.cloud.make_dataset(f"{written.dataset}__views_clean")
    written.declare("{email: mask}")
    file = written.folder / "models" / "app" / "events.yaml"
    file.with_name("bad.yaml").write_text(file.read_text().replace("email: mask", "mail: mask"))
    found = written.views(code=2)
    assert [one["state"] for one in found["views"]] == ["made"]
    [error] = found["errors"]
    assert error["table"] == "app.bad"
    assert "bad.yaml:5:9: clean.mail: there is no column mail" in error["error"]
    assert written.verdict(code=2)[0] == "passed"
