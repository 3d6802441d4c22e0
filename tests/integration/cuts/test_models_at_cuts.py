"""Models whose tables follow a log read all of them at one cut, whatever main shows meanwhile."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
import yaml
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.model import snapshot_property
from mirrorlake.errors import ConfigError, ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.ledger import ModelPartition, ModelRecords
from mirrorlake.models.partition_states.table_history import PARTITIONS
from mirrorlake.runtime.embedded.server import EmbeddedServer
from tests.integration.conftest import Place, share_session
from tests.integration.contract_files import write_contract

Sql = Callable[..., Any]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
TABLES = {"current": LOG, "savings": LOG | {"clean": "table"}, "bookings": LOG}
EVERY = {"every": "1h", "keep": "1d"}
SUMS = (
    "SELECT SUM(c.amount) AS in_current, SUM(s.amount) AS in_savings\n"
    "FROM {deduped}.current AS c JOIN {deduped}__clean.savings AS s ON c.id = s.id -- both"
)
BY_DAY = (
    "---\nfor: {{day: \"TIMESERIES('2024-01-01', '2024-01-04', 'P1D')\"}}\n---\n"
    "SELECT b.id, b.amount, c.amount AS of_account FROM {deduped}.bookings b"
    " JOIN {deduped}.current c ON b.account = c.id WHERE b.booked_on = day"
)
DAYS = [f"day=2024-01-0{number}" for number in (1, 2, 3)]
DAILY = BY_DAY.replace(", c.amount AS of_account", "").replace(
    " JOIN {deduped}.current c ON b.account = c.id", ""
)


class Bank:
    """Accounts in two tables that hold 200 together, and bookings; models that read them."""

    def __init__(self, path: Path, place: Place, sql: Sql) -> None:
        self.path, self.place, self.sql = path, place, sql
        self.ledger = Ledger(load_config(path).ledger.url)

    @property
    def database(self) -> str:
        return self.path.parent.name

    def write(self, **models: str) -> None:
        for name, text in models.items():
            path = self.path.parent / "models" / f"m_{self.database}" / f"{name}.sql"
            names = {"deduped": f"s_{self.database}", "models": f"m_{self.database}"}
            path.write_text(text.format(**names))

    def run(self, *arguments: str) -> Any:
        """What a command says; its error is raised."""
        done = CliRunner().invoke(cli, [*arguments, "--json", "--config", str(self.path)])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return json.loads(done.stdout)

    def cut(self, name: str) -> Cut:
        self.run("cut", "s", "--name", name)
        (found,) = (one for one in Cuts(self.ledger).all() if one.name == name)
        return found

    def transfer(self, *synced: str) -> None:
        """Move 1 from each account of one table to the other, and sync some tables of these."""
        self.sql(
            "BEGIN",
            "UPDATE current SET amount = amount - 1",
            "UPDATE savings SET amount = amount + 1",
            "COMMIT",
        )
        for table in synced:
            self.run("sync", f"s.{self.database}.{table}")

    def compute(self, model: str, *arguments: str) -> Any:
        (found,) = self.run("run", f"m_{self.database}.{model}", *arguments)
        return found

    def keys(self, model: str, *arguments: str) -> list[str]:
        return [one["key"] for one in self.compute(model, *arguments)["computed"]]

    def rows(self, model: str) -> list[tuple[Any, ...]]:
        table = self.place.lake.load(Identifier(f"m_{self.database}", model))
        assert table is not None
        return sorted(tuple(row.values()) for row in table.scan().to_arrow().to_pylist())

    def records(self, model: str) -> dict[str, ModelPartition]:
        return ModelRecords(self.ledger).partitions(f"m_{self.database}.{model}")


@pytest.fixture
def bank(
    server: EmbeddedServer,
    place: Place,
    database: str,
    sql: Sql,
    monkeypatch: pytest.MonkeyPatch,
) -> Bank:
    share_session(place, monkeypatch)
    for name in ("current", "savings"):
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount INT NOT NULL)",
            f"INSERT INTO {name} VALUES (1, 50), (2, 50)",
        )
    sql(
        "CREATE TABLE bookings (id INT PRIMARY KEY, account INT, amount INT, booked_on DATE)",
        "INSERT INTO bookings VALUES (1, 1, 10, '2024-01-01'), (2, 2, 20, '2024-01-02'),"
        " (3, 1, 30, '2024-01-03')",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": TABLES}},
        lake={"warehouse": str(place.folder / "lake")},
        cuts={"sources": {"s": EVERY}},
    )
    return Bank(path, place, sql)


@pytest.mark.full
def test_a_run_reads_the_newest_cut_while_main_is_torn(bank: Bank) -> None:
    bank.write(sums=SUMS)
    cut = bank.cut("c1")
    bank.transfer("current")  # of savings, main has no transfer yet
    done = bank.compute("sums")
    assert bank.rows("sums") == [(100, 100)]
    said = (done["cut"], datetime.fromisoformat(done["cut_at"]), done["why_main"])
    assert said == ("c1", cut.at, "")
    record = bank.records("sums")[""]
    assert (record.cut, record.cut_at) == ("c1", cut.at)
    # Of main, it is of two moments.
    torn = bank.compute("sums", "--again", "--cut", "none")
    assert (bank.rows("sums"), torn["cut"], torn["why_main"]) == ([(98, 100)], None, "")
    assert bank.records("sums")[""].cut is None
    # That was of later than the newest cut: the next one says what it lacks.
    assert bank.keys("sums") == []
    bank.cut("c2")
    assert bank.keys("sums") == [""]
    assert bank.rows("sums") == [(98, 102)]
    shown = bank.run("show", f"m_{bank.database}.sums")
    assert (shown["cut"], shown["partition"]["cut"], shown["why_main"]) == ("c2", "c2", "")
    assert shown["partition"]["sql"].count("VERSION AS OF") == 2
    assert shown["partition"]["sql"].endswith("AS s ON c.id = s.id -- both")


@pytest.mark.full
def test_partitions_are_computed_again_where_the_cut_moved_and_not_where_main_did(
    bank: Bank,
) -> None:
    bank.write(daily=DAILY, by_day=BY_DAY)
    bank.cut("c1")
    for name in ("daily", "by_day"):
        assert bank.keys(name) == DAYS
    bank.sql("UPDATE bookings SET amount = 21 WHERE id = 2")
    bank.run("sync")
    assert bank.keys("daily") == []
    bank.cut("c2")
    # Rows of the second day alone; of a later one that main has, and the cut has not, nothing.
    bank.sql("UPDATE bookings SET amount = 22 WHERE id = 2", "DELETE FROM bookings WHERE id = 3")
    bank.run("sync")
    assert bank.keys("daily") == DAYS[1:2]
    assert bank.rows("daily")[1][:2] == (2, 21)
    assert [one.cut for one in bank.records("daily").values()] == ["c1", "c2", "c1"]
    bank.cut("c3")
    assert bank.keys("daily") == DAYS[1:]
    assert [row[:2] for row in bank.rows("daily")] == [(1, 10), (2, 22)]
    # Nothing changed in between: a new cut makes nothing stale.
    bank.cut("c4")
    assert bank.keys("daily") == []
    assert bank.keys("by_day") == DAYS[1:]
    bank.transfer("current", "savings")
    bank.cut("c5")
    assert (bank.keys("daily"), bank.keys("by_day")) == ([], DAYS)


@pytest.mark.full
def test_a_cut_is_read_by_its_name_and_sets_back_what_is_chosen(bank: Bank) -> None:
    bank.write(daily=DAILY)
    bank.cut("c1")
    bank.sql("UPDATE bookings SET amount = amount + 100")
    bank.cut("c2")
    assert bank.keys("daily") == DAYS
    assert bank.keys("daily", "--cut", "c1") == []
    assert bank.keys("daily", "day=2024-01-02", "--cut", "c1") == DAYS[1:2]
    assert [row[1] for row in bank.rows("daily")] == [110, 20, 130]
    assert bank.records("daily")[DAYS[1]].cut == "c1"
    # Without it, it is of the newest again.
    assert bank.keys("daily") == DAYS[1:2]
    assert [row[1] for row in bank.rows("daily")] == [110, 120, 130]
    bank.run("cuts", "--drop", "c1")
    with pytest.raises(ConfigError, match="there is no cut 'c1'"):
        bank.keys("daily", "--cut", "c1")
    # The newest is gone: what was computed from it stays, and is compared with the next.
    bank.cut("c3")
    bank.run("cuts", "--drop", "c2")
    assert bank.keys("daily") == []
    bank.run("cuts", "--drop", "c3")
    done = bank.compute("daily")
    assert (done["computed"], done["why_main"]) == ([], "there is no cut of s yet")


@pytest.mark.full
def test_a_model_that_can_not_be_read_at_a_cut_reads_main_of_each_and_says_so(bank: Bank) -> None:
    bank.write(
        sums=SUMS,
        viewed="---\nmaterialized: view\n---\nSELECT id FROM {deduped}.current",
        over_view="SELECT v.id FROM {models}.viewed v JOIN {deduped}.savings s ON v.id = s.id",
        above="SELECT SUM(in_current) AS n FROM {models}.sums",
        named="SELECT {deduped}__clean.bookings.id FROM {deduped}__clean.bookings",
        named_table="SELECT {deduped}.bookings.id, Bookings.amount FROM {deduped}.bookings",
    )
    bank.cut("c1")
    name = f"m_{bank.database}"
    assert bank.compute("viewed")["why_main"] == "it is a view, which shows main"
    assert bank.compute("over_view")["why_main"] == (
        f"it reads {name}.viewed, a view, which shows main"
    )
    assert "is read at a cut: a column of it has no dataset" in bank.compute("named")["why_main"]
    # A table keeps the name that it has with its dataset.
    assert bank.compute("named_table")["cut"] == "c1"
    for model, words in (("over_view", "can't be read at cut c1"), ("above", "reads nothing at")):
        with pytest.raises(ModelError, match=words):
            bank.compute(model, "--cut", "c1")
    runs = bank.run("run", f"{name}.above", "--upstream", "--cut", "c1")
    assert [(one["model"], one["cut"]) for one in runs] == [
        (f"{name}.sums", "c1"),
        (f"{name}.above", None),
    ]
    # A table that is not in it; a version that expired; a table with other columns.
    cut = next(one for one in Cuts(bank.ledger).all() if one.name == "c1")
    Cuts(bank.ledger).leave_out("c1", f"s.{bank.database}.current")
    why = f"cut c1: s_{bank.database}.current is not in it"
    assert bank.compute("sums")["why_main"] == why
    Cuts(bank.ledger).add("c1", list(cut.tables))
    assert bank.compute("sums")["cut"] == "c1"
    bank.sql("ALTER TABLE current ADD COLUMN note INT", "UPDATE current SET amount = amount + 1")
    bank.run("sync")
    why = f"cut c1: s_{bank.database}.current has had other columns since"
    assert bank.compute("sums")["why_main"] == why
    with pytest.raises(ModelError, match="has had other columns since"):
        bank.compute("sums", "--cut", "c1")
    bank.cut("c2")
    assert (bank.compute("sums")["cut"], bank.rows("sums")) == ("c2", [(102, 100)])


@pytest.mark.full
def test_a_view_of_clean_an_empty_table_and_a_new_column_are_read_at_the_cut(bank: Bank) -> None:
    bank.sql("DELETE FROM savings")
    bank.write(
        booked="SELECT id, amount FROM {deduped}__clean.bookings",
        saved="SELECT COUNT(*) AS n FROM {deduped}.savings",
    )
    bank.cut("c1")
    bank.sql("UPDATE bookings SET amount = 0", "INSERT INTO savings VALUES (1, 1)")
    bank.run("sync")
    assert bank.compute("booked")["cut"] == "c1"
    assert [amount for _, amount in bank.rows("booked")] == [10, 20, 30]
    assert (bank.compute("saved")["cut"], bank.rows("saved")) == ("c1", [(0,)])
    bank.cut("c2")
    assert bank.keys("saved") == [""]
    assert bank.rows("saved") == [(1,)]
    # A column came, and no row changed.
    contract = yaml.safe_load(bank.path.read_text())
    contract["defaults"]["new_columns"] = "show"
    bank.path.write_text(yaml.safe_dump(contract))
    bank.sql("ALTER TABLE bookings ADD COLUMN note INT")
    bank.cut("c3")
    bank.write(booked="SELECT * FROM {deduped}__clean.bookings")
    assert bank.compute("booked")["cut"] == "c3"
    table = bank.place.lake.load(Identifier(f"m_{bank.database}", "booked"))
    assert table is not None
    rows = table.scan().to_arrow()
    assert (rows["amount"].to_pylist(), rows["note"].to_pylist()) == ([0] * 3, [None] * 3)


@pytest.mark.full
def test_a_lost_record_is_found_in_the_commit_with_its_cut(bank: Bank) -> None:
    bank.write(sums=SUMS)
    cut = bank.cut("c1")
    bank.compute("sums")
    with sa.create_engine(load_config(bank.path).ledger.url).begin() as connection:
        connection.execute(sa.text("DELETE FROM model_partitions"))
    assert bank.keys("sums") == []
    found = bank.records("sums")[""]
    assert (found.cut, found.cut_at) == ("c1", cut.at)
    table = bank.place.lake.load(Identifier(f"m_{bank.database}", "sums"))
    assert table is not None
    (said,) = filter(None, (snapshot_property(one, PARTITIONS) for one in table.snapshots()))
    assert json.loads(said)["cut"] == {"name": "c1", "at": cut.at.isoformat()}


@pytest.mark.full
def test_models_read_main_where_the_file_says_so(bank: Bank) -> None:
    bank.write(sums=SUMS)
    bank.cut("c1")
    text = bank.path.read_text()
    bank.path.write_text(text.replace("every: 1h", "every: 1h\n      models: false"))
    bank.transfer("current")
    done = bank.compute("sums")
    assert (done["cut"], done["why_main"], bank.rows("sums")) == (None, "", [(98, 100)])
    assert bank.compute("sums", "--cut", "c1", "--again")["cut"] == "c1"
    assert bank.rows("sums") == [(100, 100)]
