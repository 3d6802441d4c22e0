"""At which cut a model reads mirrored tables, or why each at main; and what moved by then."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyiceberg.schema import Schema
from pyiceberg.types import DateType, IntegerType, LongType, NestedField

from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ConfigError, ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.dependencies import EVERY_DAY, MirrorInput
from mirrorlake.models.compile.model import Model
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.cut_reads import NO_CUT, ModelReading
from mirrorlake.models.partition_states.due import find_due
from mirrorlake.models.partition_states.states import States

NOW = datetime(2024, 3, 4, 12, tzinfo=UTC)
LOG = {"mode": "binlog", "key": ["id"]}
SOURCES = {
    name: {"host": "h", "user": "u", "databases": {"d": {"tables": dict.fromkeys("abc", LOG)}}}
    for name in ("s", "t")
}
TABLES = ("s_d.a", "s_d.b", "t_d.a")
COLUMNS = Schema(
    NestedField(1, "id", IntegerType(), required=False),
    NestedField(2, "day", DateType(), required=False),
)
MODELS = {
    "both": "SELECT x.id FROM s_d.a AS x JOIN s_d.b ON x.id = b.id",
    "others": "SELECT x.id FROM s_d.a AS x JOIN t_d.a AS y ON x.id = y.id",
    "alone": "SELECT id FROM t_d.a",
    "viewed": "---\nmaterialized: view\n---\nSELECT id FROM s_d.a",
    "of_view": "SELECT v.id FROM m.viewed v JOIN s_d.b ON v.id = b.id",
    "of_model": "SELECT id FROM m.both",
    "by_day": "---\nfor: {one: \"TIMESERIES('2024-03-01', '2024-03-05', 'P1D')\"}\n---\n"
    "SELECT id FROM s_d.a WHERE day = one",
}


class World:
    def __init__(self, folder: Path, cuts: Any) -> None:
        self.folder, self.made = folder, NOW
        text = {"version": 1, "lake": {"warehouse": "lake"}, "sources": SOURCES}
        self.path = folder / "mirrorlake.yaml"
        text |= {"cuts": {"sources": cuts}, "ledger": {"url": f"sqlite:///{folder}/ledger.db"}}
        self.path.write_text(yaml.safe_dump(text))
        self.config = load_config(self.path)
        self.lake, self.ledger = Lake(self.config.lake), Ledger(self.config.ledger.url)
        self.tables: dict[str, Any] = {}
        for name in TABLES:
            for space in ("", "__clean"):
                full = name.replace(".", f"{space}.")
                self.lake.make_namespace(full.split(".")[0])
                self.tables[full] = self.lake.catalog.create_table(full, COLUMNS)
        for name, query in MODELS.items():
            path = folder / "models" / "m" / f"{name}.sql"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(query)

    def write(self, name: str, *days: int) -> int:
        """A commit with a row of each day of March; its snapshot."""
        table = self.tables[name]
        table.refresh()
        rows = [{"id": day, "day": date(2024, 3, day)} for day in days]
        table.append(pa.Table.from_pylist(rows, schema=table.schema().as_arrow()))
        return table.refresh().current_snapshot().snapshot_id

    def cut(self, name: str, source: str, at: datetime = NOW, **tables: int | None) -> None:
        cuts = Cuts(self.ledger)
        self.made += timedelta(seconds=1)
        cuts.begin(Cut(name, source, "bin.1:4", None, at, self.made, None))
        found = CutTable("", "deduped", f"{source}_d", "", None, 1)
        of = [
            replace(found, table=f"{source}.d.{t}", lake_table=t, snapshot_id=version)
            for t, version in tables.items()
        ]
        cuts.add(name, of)
        cuts.finish(name)

    def states(self, cut: str | None = None, *sets_back: str) -> States:
        project, catalogue = compile_project(self.config, self.lake, NOW)
        project.raise_problems()
        return States(project, catalogue, self.lake, self.ledger, cut, {*sets_back})

    def reading(self, name: str, cut: str | None = None) -> ModelReading:
        states = self.states(cut)
        return states.readings.of(states.project.model(f"m.{name}"))


EVERY = {"every": "1h", "keep": "1d"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.chdir(tmp_path)
    return World(tmp_path, {"s": EVERY})


def test_the_newest_cut_that_has_all_tables_is_read(world: World) -> None:
    assert world.reading("both").why == "there is no cut of s yet"
    a, b = world.write("s_d.a", 1), world.write("s_d.b", 1)
    world.cut("one", "s", a=a, b=b)
    world.write("s_d.a", 2)
    found = world.reading("both")
    assert (found.cut_name, found.cut_at, found.why) == ("one", NOW, "")
    assert {name: pin.version.snapshot for name, pin in found.pins.items()} == {
        "s_d.a": a,
        "s_d.b": b,
    }
    world.cut("two", "s", a=a)
    assert world.reading("both") == ModelReading(why="cut two: s_d.b is not in it")
    assert world.reading("both", "one").cut_name == "one"
    assert world.reading("both", NO_CUT) == ModelReading()
    world.cut("three", "s", a=7, b=b)
    why = "cut three: s_d.a does not have that version any more"
    assert world.reading("both").why == why
    with pytest.raises(ModelError, match=f"m.both can't be read at cut three: {why}"):
        world.reading("both", "three")
    with pytest.raises(ConfigError, match="there is no cut 'four'") as error:
        world.reading("both", "four")
    assert error.value.next_step == "There are three, two, one: mirrorlake cut SOURCE makes one"


def test_tables_of_several_sources_and_views_are_at_main(world: World) -> None:
    world.cut("one", "s", a=world.write("s_d.a", 1), b=world.write("s_d.b", 1))
    world.cut("other", "t", a=world.write("t_d.a", 1))
    assert world.reading("others").why == "its tables are of several sources: s, t"
    assert world.reading("viewed").why == "it is a view, which shows main"
    assert world.reading("of_view").why == "it reads m.viewed, a view, which shows main"
    # Nobody asked for cuts of t to be read, and these models read no mirrored table.
    assert world.reading("alone") == ModelReading()
    assert world.reading("of_model") == ModelReading()
    assert world.reading("alone", "other").cut_name == "other"
    with pytest.raises(ModelError, match="that is of t, its tables are of s"):
        world.reading("both", "other")
    for name in ("of_model", "viewed"):
        states = world.states("one")
        models: list[Model] = [states.project.model(f"m.{name}")]
        with pytest.raises(ModelError, match=f"m.{name} reads nothing at cut one"):
            states.readings.refuse_main(models)
        states.readings.refuse_main([states.project.model("m.both"), *models])
        world.states().readings.refuse_main(models)


@pytest.mark.parametrize(
    "said", [{}, {"s": EVERY | {"models": False}}, {"t": EVERY}, {"s": {"models": True}}]
)
def test_cuts_are_read_by_themselves_where_the_file_has_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    world = World(tmp_path, said)
    world.cut("one", "s", a=world.write("s_d.a", 1), b=world.write("s_d.b", 1))
    assert world.reading("both") == ModelReading()
    assert world.reading("both", "one").cut_name == "one"


def test_what_a_query_says(world: World) -> None:
    a = world.write("s_d.a", 1)
    world.cut("one", "s", a=a, b=None)
    states = world.states()
    model = states.project.model("m.both")
    written = states.readings.of(model).written(model)
    sql = model.declaration.sql
    assert {sql[first : last + 1]: text for (first, last), text in written.items()} == {
        "s_d.a": f"s_d.a VERSION AS OF {a}",
        "s_d.b": "(SELECT * FROM `lake`.`s_d`.`b` WHERE FALSE) AS `b`",
    }
    # Columns that came since: the version that main shows has them; another one may not be read.
    table = world.tables["s_d.a"].refresh()
    with table.update_schema() as update:
        update.add_column("note", IntegerType())
        update.update_column("id", LongType())
        update.rename_column("day", "on_day")
    world.write("s_d.b", 1)
    (world.folder / "models" / "m" / "by_day.sql").unlink()
    reading = world.reading("both")
    assert reading.pins["s_d.a"].written == (
        "(SELECT CAST(`id` AS bigint) AS `id`, `day` AS `on_day`, CAST(NULL AS int) AS `note` "
        f"FROM `lake`.`s_d`.`a` VERSION AS OF {a})"
    )
    table.refresh().append(pa.Table.from_pylist([{"id": 2}], schema=table.schema().as_arrow()))
    assert world.reading("both").why == "cut one: s_d.a has had other columns since"


def test_days_that_moved_are_those_between_two_cuts(world: World) -> None:
    first = world.write("s_d.a", 1, 2)
    world.cut("one", "s", a=first)
    days = {n: MirrorInput("s_d.a", "day", ((date(2024, 3, n), date(2024, 3, n)),)) for n in (1, 2)}
    everything = MirrorInput("s_d.a", "day", EVERY_DAY)

    def versions(cut: str | None = None) -> Any:
        states = world.states(cut)
        return states.readings.versions(states.project.model("m.by_day"))

    was = str(versions().now("s_d.a"))
    versions().remember("s_d.a", "day")
    second = world.write("s_d.a", 1)
    assert versions().moved(everything, was) == ""  # main is not what is read
    world.write("s_d.a", 2)
    world.cut("two", "s", a=second)
    assert [versions().moved(days[n], was) for n in (1, 2)] == ["s_d.a moved on 2024-03-01", ""]
    assert versions().moved(everything, was) == "s_d.a moved"
    known = world.ledger.moved_days(f"{world.tables['s_d.a'].metadata.table_uuid}@cuts", "day")
    assert known is not None
    assert (known.through, [*known.heads]) == (second, [first])
    # A later version stays, but where it is to be set back; what is known of it is not forgotten.
    later = str(versions().now("s_d.a"))
    for cut, sets_back, words in (
        (None, True, ""),
        ("one", False, ""),
        ("one", True, "s_d.a was read at a later version"),
    ):
        assert versions(cut).moved(everything, later, sets_back=sets_back) == words
    versions("one").remember("s_d.a", "day")
    assert world.ledger.moved_days(known.lake_table, "day") == known
    of_main = versions(NO_CUT)
    assert of_main.moved(days[2], later) == "s_d.a moved on 2024-03-02"
    # Main was set back, and what was cut then leads to no cut of now.
    table = world.tables["s_d.a"].refresh()
    table.manage_snapshots().set_current_snapshot(first).commit()
    world.cut("three", "s", a=world.write("s_d.a", 2))
    assert versions().moved(days[1], later) == "s_d.a moved"
    assert versions().moved(days[1], was) == ""


def test_a_day_is_complete_when_the_cut_is_later(world: World) -> None:
    a = world.write("s_d.a", 1, 2, 3)
    at = NOW.replace(day=3, hour=0)
    world.cut("one", "s", at, a=a)
    (due,) = (one for one in find_due(world.states(), NOW) if one.model == "m.by_day")
    assert [one.key for one in due.states] == ["one=2024-03-01", "one=2024-03-02"]
    why = "cut one has what was until 2024-03-03 00:00 UTC"
    assert due.waiting == {"one=2024-03-03": why, "one=2024-03-04": why}
    world.cut("two", "s", at + timedelta(days=1), a=a)
    (due,) = (one for one in find_due(world.states(), NOW) if one.model == "m.by_day")
    assert [*due.waiting] == ["one=2024-03-04"]
