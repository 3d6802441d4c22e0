"""`mirrorlake init --from-landing`: what the files show is written, what they don't is asked."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError, LandingError, MirrorlakeError, SchemaError
from mirrorlake.landing.files.frame import read_batches
from mirrorlake.landing.files.listing import place_of
from mirrorlake.landing.files.records import LandedFile
from mirrorlake.landing.first_contract.write import LandingWritten, write_landing_contract

ID = 20260131120000
Row = dict[str, Any]


class Landing:
    """A landing folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.output = folder / "landed", folder / "mirrorlake.yaml"
        self.folder.mkdir()

    def day(self, table: str, format: str = "json", part: str = "dq", snapshot: int = ID) -> Path:
        day = self.folder / format / "shop/eu" / table / part / str(snapshot)[:8]
        day.mkdir(parents=True, exist_ok=True)
        return day

    def land(self, table: str, *chunks: str | bytes | pa.Table, **where: Any) -> list[Path]:
        """Files of one snapshot, and its marker."""
        format, snapshot = where.get("format", "json"), where.get("snapshot", ID)
        day = self.day(table, **where)
        paths = [day / f"{snapshot}_{n}.{format}" for n in range(len(chunks))]
        for path, chunk in zip(paths, chunks, strict=True):
            if isinstance(chunk, pa.Table):
                pq.write_table(chunk, path)
            else:
                path.write_bytes(chunk.encode() if isinstance(chunk, str) else chunk)
        (day / f"{snapshot}_SUCCESS").touch()
        return paths

    def rows(self, table: str, rows: Sequence[Row], **where: Any) -> list[Path]:
        return self.land(table, "\n".join(json.dumps(row) for row in rows), **where)

    def init(self, **how: Any) -> LandingWritten:
        how = {"force": False, **how}
        return write_landing_contract(str(self.folder), None, self.output, **how)

    def columns(self, table: str) -> dict[str, str]:
        told = json.loads((self.folder / f"schemas/shop/eu/{table}.json").read_text())
        return {one["name"]: one["type"] for one in told["columns"]}

    def config(self) -> Config:
        return load_config(self.output)

    def text(self) -> str:
        """The contract file, comments and all, as one line."""
        return " ".join(self.output.read_text().replace("# ", " ").split())

    def written(self) -> list[str]:
        """What init left behind: nothing, where it refused."""
        there = [self.output.name] if self.output.exists() else []
        there += [str(path) for path in self.folder.parent.glob("*.partial")]
        return [*there, *(str(path) for path in self.folder.glob("schemas/**/*.json"))]


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path)


def test_what_the_files_show_is_written_and_land_reads_it(landing: Landing) -> None:
    same = '"at": "2026-01-01 10:00:00", "seen": "2026-01-31T10:00:00Z", "on": "2026-01-31"'
    rows = [
        f'{{"id": 0, {same}, "price": 0.50, "open": false, "zip": "00", "note": "x"}}',
        f'{{"id": 1, {same}, "price": 1.50, "open": true, "zip": "01", "note": null}}',
    ]
    (path,) = landing.land("items", "\n".join(rows))
    done = landing.init()
    assert (done.tables, done.open, done.rows) == (1, {}, 2)
    assert landing.columns("items") == {
        "id": "long", "at": "timestamp", "seen": "timestamptz", "on": "date",
        "price": "decimal(38,2)", "open": "boolean", "zip": "string", "note": "string",
    }  # fmt: skip
    config = landing.config()
    contract = config.snapshot_table("items")
    assert contract.key == ("id",)
    assert contract.snapshot is not None
    assert (contract.snapshot.format, contract.snapshot.complete) == ("json", "marker")
    reading = place_of(config, contract).reading()
    there = reading.store.entry(str(path.relative_to(landing.folder)))
    assert there is not None
    file = LandedFile(str(path.relative_to(landing.folder)), there.bytes, there.version)
    (batch,) = read_batches(reading, file)
    assert batch.column("price").to_pylist() == [Decimal("0.50"), Decimal("1.50")]


ASKED = {
    "numbers beyond 64 bits": ("18446744073709551615", "5", "beyond 64 bits", "decimal(20,0)"),
    "numbers and texts": ('"x"', "5", "mixes numbers and texts", None),
    "texts and truths": ('"x"', "true", "mixes texts and true and false", None),
    "nothing": ("null", "null", "it is NULL in every record", "string"),
    "objects": ('{"a": 1}', "null", "it holds objects or lists", None),
    "fractions": ("1.5", "2.25", "does not show whether they are exact", "double"),
    "one place": ("1.5", "2.0", "does not show whether they are exact", "decimal(38,1)"),
    "exponents": ("1e3", "2.50", "does not show whether they are exact", "double"),
    "a whole -0": ("-0", "5", "does not show whether they are exact", "double"),
    "a sign of zero": ("-0.00", "2.50", "does not show whether they are exact", "double"),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_the_files_do_not_show_is_asked_and_can_be_answered(
    landing: Landing, name: str
) -> None:
    one, other, words, answer = ASKED[name]
    landing.land("t", f'{{"id": 1, "v": {one}}}\n{{"id": 2, "v": {other}}}')
    landing.rows("good", [{"id": 1}, {"id": 2}])
    done = landing.init()
    (question,) = done.open["shop.eu.t"]
    assert question.startswith("column v: ")
    assert words in question
    text = landing.output.read_text()
    assert "# DECIDE on column v" in text
    assert [table.name for table in landing.config().snapshots] == ["shop.eu.good"]
    assert len(done.schemas) == 1
    if answer is None:
        return
    assert landing.init(force=True, types=[f"eu.t.v={answer}"]).open == {}
    assert landing.columns("t") == {"id": "long", "v": answer}
    assert len(landing.config().snapshots) == 2


def test_an_answer_that_the_files_contradict_is_refused(landing: Landing) -> None:
    landing.land("t", '{"id": 1, "v": 18446744073709551615}\n{"id": 2, "v": 5}')
    with pytest.raises(LandingError, match="line 1: column 'v' is a number out of range"):
        landing.init(types=["eu.t.v=long"])
    assert landing.written() == []


def test_texts_of_csv_stay_texts(landing: Landing) -> None:
    """A number that begins with zeros would lose them; `\\N` is NULL, and empty is not."""
    landing.land("t", "no,zip,on,gone\n1,10115,2026-01-31,\\N\n2,01067,0000-00-00,\n", format="csv")
    assert landing.init().open == {}
    assert landing.columns("t") == {
        "no": "string", "zip": "string", "on": "date", "gone": "string"
    }  # fmt: skip
    assert "Column no is string: every one of its 2 texts is a number" in landing.text()
    (contract,) = landing.config().snapshots
    assert contract.key == ("no",)


def test_parquet_says_its_types_in_its_footer(landing: Landing) -> None:
    narrow = pa.table({"id": pa.array([1], pa.int32()), "u": pa.array([2**64 - 1], pa.uint64())})
    wide = pa.table({"id": pa.array([2**40], pa.int64()), "u": pa.array([None], pa.uint64())})
    landing.land("t", narrow, wide, format="parquet")
    either = [pa.table({"id": [n], "v": [v]}) for n, v in ((1, "x"), (2, 2))]
    landing.land("mixed", *either, format="parquet")
    nanos = pa.table({"id": [1, 2], "at": pa.array([1, 2], pa.timestamp("ns"))})
    landing.land("nanos", nanos, format="parquet")
    done = landing.init()
    assert landing.columns("t") == {"id": "long", "u": "decimal(20,0)"}
    assert set(done.open) == {"shop.eu.mixed", "shop.eu.nanos"}
    assert "it is int64 and string in different files" in done.open["shop.eu.mixed"][0]
    assert "timestamp[ns] in the files, which no column can be" in done.open["shop.eu.nanos"][0]


def test_a_key_is_unique_in_every_snapshot_that_is_read(landing: Landing) -> None:
    """By its name, where several are; two columns together, where none is; asked, where nothing."""
    one = [{"a": n, "item_id": n, "b": n} for n in range(3)]
    landing.rows("items", one)
    landing.rows("items", [*one, {"a": 1, "item_id": 9, "b": None}], snapshot=ID - 10_000)
    landing.rows("pairs", [{"x": n // 2, "y": n % 2, "z": 0} for n in range(4)])
    landing.rows("holes", [{"id": None, "x": 1}, {"id": 2, "x": 2}])
    landing.rows("none", [{"x": 1}, {"x": 1}])
    landing.rows("one", [{"x": 1}])
    done = landing.init()
    config = landing.config()
    assert config.snapshot_table("items").key == ("item_id",)
    assert config.snapshot_table("holes").key == ("x",)
    assert config.snapshot_table("pairs").key == ("x", "y")
    assert "is unique and never NULL in 2 rows" in done.open["shop.eu.none"][0]
    assert "no snapshot has two rows" in done.open["shop.eu.one"][0]
    assert "7 rows of 2 of its 2 snapshots were looked at: all of them" in landing.text()
    assert landing.init(force=True, keys=["eu.one=x"]).open.keys() == {"shop.eu.none"}
    with pytest.raises(ConfigError, match=r"--key eu.none=x: this is not unique"):
        landing.init(force=True, keys=["eu.none=x"])


def test_it_says_how_many_rows_were_looked_at(landing: Landing) -> None:
    landing.rows("t", [{"id": n} for n in range(20)])
    landing.rows("t", [{"id": n} for n in range(20)], snapshot=ID - 10_000)
    landing.init(looked=20)
    assert "20 rows of 1 of its 2 snapshots were looked at: not all of them" in landing.text()


def test_what_looks_personal_is_left_out_of_clean_and_cards_are_never_read(
    landing: Landing,
) -> None:
    rows = [
        {
            "id": n,
            "email": f"p{n}@example.com",
            "card_number": f"41111111{n}",
            "pan": "x",
            "sku": "s",
        }
        for n in range(6)
    ]
    landing.rows("t", rows)
    done = landing.init()
    assert done.warnings == 0
    (contract,) = landing.config().snapshots
    assert contract.rules == {"email": "drop"}
    assert contract.excluded == {"card_number", "pan"}


@pytest.mark.parametrize("complete", ["manifest", "marker", "settle"])
def test_how_snapshots_are_complete_is_seen(landing: Landing, complete: str) -> None:
    (path,) = landing.rows("t", [{"id": 1}, {"id": 2}])
    if complete != "marker":
        (path.parent / f"{ID}_SUCCESS").unlink()
    if complete == "manifest":
        files = [{"name": path.name, "bytes": path.stat().st_size}]
        manifest = json.dumps({"version": 1, "files": files})
        (path.parent / f"{ID}_manifest.json").write_text(manifest)
    landing.init()
    (contract,) = landing.config().snapshots
    assert contract.snapshot is not None
    assert contract.snapshot.complete == complete
    assert ("DECIDE on complete" in landing.output.read_text()) == (complete == "settle")


def test_records_that_lack_a_column_and_rows_of_a_time(landing: Landing) -> None:
    landing.rows("t", [{"id": 1, "v": "x"}, {"id": 2}], part="partition/15m")
    landing.init()
    (contract,) = landing.config().snapshots
    assert contract.snapshot is not None
    assert (contract.snapshot.part, contract.snapshot.missing_columns) == ("15m", "null")


def test_a_schema_that_is_there_is_taken(landing: Landing) -> None:
    landing.rows("t", [{"id": "1", "v": "2.5"}, {"id": "2", "v": None}])
    place = landing.folder / "schemas/shop/eu/t.json"
    place.parent.mkdir(parents=True)
    text = '{"version": 1, "columns": [{"name": "id", "type": "int"}, {"name": "v", "type": "double"}]}'
    place.write_text(text)
    done = landing.init()
    assert (done.tables, done.schemas) == (1, ())
    assert place.read_text() == text


def _nothing(_: Landing) -> None:
    """No file at all."""


def _broken(landing: Landing) -> None:
    landing.land("t", '{"id": 1}\n{"id": 2')


def _cut(landing: Landing) -> None:
    day = landing.day("t")
    text = gzip.compress(b'{"id": 1}\n' * 1000)
    (day / f"{ID}_0.json.gz").write_bytes(text[: len(text) // 2])
    (day / f"{ID}_SUCCESS").touch()


def _no_parquet(landing: Landing) -> None:
    landing.land("t", b"PAR1 it is not", format="parquet")


def _two_formats(landing: Landing) -> None:
    landing.rows("t", [{"id": 1}, {"id": 2}])
    landing.land("t", "id\n1\n2\n", format="csv")


def _lost_chunk(landing: Landing) -> None:
    landing.land("t", "{}", '{"id": 1}', '{"id": 2}')[1].unlink()


def _two_names(landing: Landing) -> None:
    landing.land("t", '{"id": 1, "Id": 1}\n{"id": 2, "Id": 2}')


def _ours(landing: Landing) -> None:
    landing.output.write_text("mine")


def _unknown_answer(landing: Landing) -> None:
    landing.rows("t", [{"id": 1}, {"id": 2}])


BAD: dict[Callable[[Landing], None], tuple[type[MirrorlakeError], str]] = {
    _nothing: (LandingError, "there is no complete snapshot in"),
    _broken: (LandingError, r"_0.json, line 2: no JSON"),
    _cut: (LandingError, r"_0.json.gz is cut short"),
    _no_parquet: (LandingError, "is no whole file of Parquet"),
    _two_formats: (LandingError, r"table eu.t of .* comes in two formats: json/.* and csv/"),
    _lost_chunk: (LandingError, "lacks a file: there are the numbers 0, 2"),
    _two_names: (SchemaError, "has the column 'id' twice"),
    _ours: (ConfigError, "mirrorlake.yaml is there already"),
    _unknown_answer: (ConfigError, "there is no eu.other.v in"),
}


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.__name__)
def test_what_is_wrong_is_one_error_and_nothing_is_written(
    landing: Landing, bad: Callable[[Landing], None]
) -> None:
    kind, words = BAD[bad]
    bad(landing)
    before = landing.written()
    with pytest.raises(kind, match=words) as told:
        landing.init(types=["eu.other.v=int"] if bad is _unknown_answer else ())
    assert told.value.exit_code
    assert landing.written() == before


def test_an_answer_that_a_schema_file_overrules_is_refused(landing: Landing) -> None:
    landing.rows("t", [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    landing.init()
    landing.output.unlink()
    before = landing.written()
    words = r"--type eu\.t\.v=int: .*schemas/shop/eu/t\.json says that the column is string"
    with pytest.raises(ConfigError, match=words):
        landing.init(types=["eu.t.v=int"])
    assert landing.written() == before
    landing.init(types=["eu.t.v=string"])


def test_a_schema_that_cannot_be_written_leaves_nothing(landing: Landing) -> None:
    landing.rows("a", [{"id": 1}, {"id": 2}])
    landing.rows("b", [{"id": 1}, {"id": 2}])
    (landing.folder / "schemas/shop/eu/b.json.tmp").mkdir(parents=True)
    with pytest.raises(LandingError):
        landing.init()
    assert [path for path in landing.written() if not path.endswith(".tmp")] == []


def test_the_command_takes_a_server_or_a_landing(landing: Landing) -> None:
    landing.rows("t", [{"id": 1}, {"id": 2}])
    run = CliRunner().invoke
    place = ["--from-landing", str(landing.folder), "--output", str(landing.output)]
    for wrong in ([], [*place, "--from", "mysql://a@b/c"]):
        refused = run(cli, ["init", *wrong])
        assert refused.exit_code == 2
        assert "Give one of --from" in refused.output
    answered = run(cli, ["init", "--from", "mysql://a@b/c", "--type", "a.b.c=int"])
    assert answered.exit_code == 2
    assert "are for --from-landing" in answered.output
    chosen = run(cli, ["init", *place, "--tables", "t"])
    assert chosen.exit_code == 2
    assert "choose tables of a server" in chosen.output
    gone = run(cli, ["init", "--from-landing", str(landing.folder / "gone")])
    assert isinstance(gone.exception, LandingError)
    assert "there is no folder" in str(gone.exception)
    done = run(cli, ["init", *place, "--json"])
    assert done.exit_code == 0
    assert json.loads(done.output)["tables"] == 1
