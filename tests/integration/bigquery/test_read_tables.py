"""Tables that somebody else makes in BigQuery: compared with what is declared, copied once a version,
and read by models exactly as they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mirrorlake.bigquery import external_tables as bigquery_tables
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.external_tables import copied_rows
from mirrorlake.config import Config
from mirrorlake.errors import BigQueryError, ModelError
from mirrorlake.models.external_sources.inspect import look_at, look_at_externals
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.models.files.external_table import read_external
from mirrorlake.models.show.external import observe
from mirrorlake.runtime.google import tables as google_tables
from mirrorlake.runtime.google.tables import BigQueryReader, TableSeen
from tests.integration.conftest import Place
from tests.integration.models.test_models import (  # noqa: F401 – fixtures
    computed,
    config,
    rows_of,
    run,
    write_models,
)
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud

CREATE = """CREATE TABLE {dataset}.made (id INT64 NOT NULL, price NUMERIC(12, 2), fine NUMERIC,
    huge BIGNUMERIC, at DATETIME, stamp TIMESTAMP, raw BYTES, name STRING, day DATE, twice FLOAT64,
    open BOOL, tags ARRAY<STRING>, pair STRUCT<a INT64, b NUMERIC>, span TIME)"""
INSERT = r"""INSERT INTO {dataset}.made VALUES
    (1, -1.25, NUMERIC '99999999999999999999999999999.999999999', BIGNUMERIC '12345678901234567890.125',
     DATETIME '0001-01-01 00:00:00.000001', TIMESTAMP '9999-12-31 23:59:59.999999+00', FROM_HEX('00ff'),
     'ü😀', DATE '0001-01-01', 0.1, TRUE, ['x', ''], STRUCT(1, NUMERIC '0.000000001'), TIME '01:02:03'),
    (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, [], NULL, NULL),
    (3, 0, -0.5, 0, DATETIME '2024-01-01 00:00:00', TIMESTAMP '2024-01-01 00:00:00+00', b'', '',
     DATE '9999-12-31', -0.0, FALSE, ['z'], STRUCT(NULL, NULL), NULL)"""
DECLARED = """format: bigquery
table: {table}
columns:
  id: {{type: bigint, nullable: false}}
  price: decimal(12,2)
  fine: decimal(38,9)
  huge: decimal(30,3)
  at: timestamp_ntz
  stamp: timestamp
  raw: binary
  name: string
  day: date
  twice: double
  open: boolean
  tags: array<string>
  pair: struct<a:bigint,b:decimal(38,9)>
"""
ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "price": Decimal("-1.25"),
        "fine": Decimal("99999999999999999999999999999.999999999"),
        "huge": Decimal("12345678901234567890.125"),
        "at": datetime(1, 1, 1, 0, 0, 0, 1),
        "stamp": datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        "raw": b"\x00\xff",
        "name": "ü😀",
        "day": date(1, 1, 1),
        "twice": 0.1,
        "open": True,
        "tags": ["x", ""],
        "pair": {"a": 1, "b": Decimal("1E-9")},
    },
    {
        "id": 2,
        **dict.fromkeys(("price", "fine", "huge", "at", "stamp", "raw", "name", "day")),
        **{"twice": None, "open": None, "tags": [], "pair": None},
    },
    {
        "id": 3,
        "price": Decimal(0),
        "fine": Decimal("-0.5"),
        "huge": Decimal(0),
        "at": datetime(2024, 1, 1),
        "stamp": datetime(2024, 1, 1, tzinfo=UTC),
        "raw": b"",
        "name": "",
        "day": date(9999, 12, 31),
        "twice": -0.0,
        "open": False,
        "tags": ["z"],
        "pair": {"a": None, "b": None},
    },
]
NO_LAKE: Any = None
"""Of a lake nothing is asked."""
Look = Callable[..., ExternalTable]


@pytest.fixture
def made(cloud: GoogleCloud, database: str) -> str:
    """A dataset with a table of all types, as somebody else makes it."""
    name = f"x_{database}"
    cloud.client().create_dataset(name)
    cloud.client().query_and_wait(CREATE.format(dataset=name))
    cloud.client().query_and_wait(INSERT.format(dataset=name))
    return name


@pytest.fixture
def look(made: str, tmp_path: Path) -> Look:
    def look(text: str = DECLARED, settings: BigQueryConfig | None = None) -> ExternalTable:
        path = tmp_path / "models" / "ext" / "made.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(table=f"{PROJECT}.{made}.made"))
        contracts = Config.model_construct(added={"bigquery": settings} if settings else {})
        return look_at(read_external(path), NO_LAKE, OwnPlaces(config=contracts))

    return look


def copied(table: ExternalTable) -> list[dict[str, Any]]:
    copy = copied_rows(table)
    files = [Path(copy.folder.store.describe(one.path)) for one in copy.files]
    found = [row for file in files for row in pq.read_table(file).to_pylist()]
    return sorted(found, key=lambda row: row["id"])


def add(cloud: GoogleCloud, dataset: str, number: int) -> None:
    """Add a row. Deletes and updates would do in BigQuery; the emulator's metadata show none."""
    cloud.client().query_and_wait(f"INSERT INTO {dataset}.made (id) VALUES ({number})")


class Pages:
    """Counts the pages that are read, and does something after each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.after: Callable[[], Any] = lambda: None
        read = BigQueryReader.read

        def counted(self_: BigQueryReader, *args: Any) -> Iterator[pa.RecordBatch]:
            for batch in read(self_, *args):
                yield batch
                self.count += 1
                self.after()

        monkeypatch.setattr(BigQueryReader, "read", counted)


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> Pages:
    return Pages(monkeypatch)


# --- exactly what is there ------------------------------------------------------------------------


def test_every_type_is_read_as_it_is_and_a_version_is_read_once(
    look: Look, pages: Pages, cloud: GoogleCloud, made: str
) -> None:
    assert copied(look()) == ROWS
    assert pages.count == 1
    assert copied(look()) == ROWS
    assert pages.count == 1
    # Other columns are another copy; the rest is not read.
    few = "format: bigquery\ntable: {table}\ncolumns: {{twice: double, id: bigint}}\n"
    assert copied(look(few))[0] == {"twice": 0.1, "id": 1}
    assert pages.count == 2
    add(cloud, made, 4)
    assert [row["id"] for row in copied(look())] == [1, 2, 3, 4]
    folder = look().declaration.home / ".mirrorlake" / "bigquery" / "ext.made"
    assert len(list(folder.iterdir())) == bigquery_tables.KEPT_COPIES


def test_what_is_seen_of_a_table(look: Look, cloud: GoogleCloud, made: str) -> None:
    seen = observe(look(), NO_LAKE)
    there = cloud.client().get_table(f"{PROJECT}.{made}.made")
    assert (seen.rows, seen.files, seen.bytes) == (3, None, there.num_bytes)
    assert seen.changed_at == there.modified
    add(cloud, made, 4)
    assert observe(look(), NO_LAKE).version != seen.version


@pytest.mark.full
def test_a_copy_that_is_damaged_or_half_written_is_made_again(look: Look, pages: Pages) -> None:
    table = look()
    assert copied(table) == ROWS
    (place,) = (table.declaration.home / ".mirrorlake" / "bigquery" / "ext.made").iterdir()
    (file,) = place.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    (place.parent / ".of-one-that-died").mkdir()
    assert copied(table) == ROWS
    assert [one.name for one in place.parent.iterdir()] == [place.name]
    file.unlink()
    assert copied(table) == ROWS
    assert pages.count == 3


@pytest.mark.full
def test_many_rows_are_read_page_by_page_into_files_of_a_size(
    look: Look, cloud: GoogleCloud, made: str, monkeypatch: pytest.MonkeyPatch, pages: Pages
) -> None:
    cloud.client().query_and_wait(
        f"INSERT INTO {made}.made (id, name) SELECT n, REPEAT('x', 20)"
        " FROM UNNEST(GENERATE_ARRAY(4, 5000)) AS n"
    )
    monkeypatch.setattr(bigquery_tables, "FILE_BYTES", 10_000)
    monkeypatch.setattr(google_tables, "PAGE_ROWS", 500)
    table = look()
    assert [row["id"] for row in copied(table)] == list(range(1, 5001))
    assert (pages.count, len(copied_rows(table).files) > 1) == (10, True)


# --- what can't be ---------------------------------------------------------------------------------


UNLIKE = [
    ("price: decimal(12,2)", "price: decimal(12,3)", r"5:3: column price is NUMERIC\(12, 2\), which is "),
    ("fine: decimal(38,9)", "fine: double", r"6:3: column fine is NUMERIC, which is decimal\(38,9\), in"),
    ("huge: decimal(30,3)", "huge: string", "7:3: column huge is BIGNUMERIC, which is a decimal of as"),
    ("at: timestamp_ntz", "at: timestamp", "8:3: column at is DATETIME, which is timestamp_ntz, in"),
    ("name: string", "name: {{type: string, nullable: false}}", "11:3: column name may be NULL in"),
    ("twice: double", "span: string", "13:3: column span is TIME, of which Spark has no exact type"),
    ("twice: double", "twise: double", r"13:3: \S+ has no column twise; did you mean 'twice'"),
    ("table: {table}", "table: local.nowhere.t", r"2:8: there is no table local\.nowhere\.t in BigQ"),
    ("table: {table}", "location: EU\ntable: {table}", "3:8: .* is in US, and location is EU"),
]  # fmt: skip


def test_what_is_otherwise_than_declared(look: Look) -> None:
    for old, new, words in UNLIKE:
        assert old in DECLARED
        with pytest.raises(ModelError, match=rf"made\.yaml:{words}"):
            look(DECLARED.replace(old, new))


def test_the_contract_says_project_and_location_where_the_file_does_not(
    look: Look, made: str
) -> None:
    short = DECLARED.replace("{table}", f"{made}.made")
    with pytest.raises(ModelError, match=r"made\.yaml:2:8: nothing says which project"):
        look(short)
    settings = BigQueryConfig(project=PROJECT, bucket=BUCKET, location="us")
    assert look(short, settings).stored is not None
    elsewhere = settings.model_copy(update={"location": "EU"})
    with pytest.raises(ModelError, match=r"is in US, and the contract's bigquery.location is EU"):
        look(short, elsewhere)
    assert look(short + "location: US\n", elsewhere).stored is not None


@pytest.mark.full
def test_views_have_no_version(look: Look, cloud: GoogleCloud, made: str) -> None:
    cloud.client().query_and_wait(f"CREATE VIEW {made}.v AS SELECT * FROM {made}.made")
    text = DECLARED.replace("{table}", f"{PROJECT}.{made}.v")
    with pytest.raises(ModelError, match=r"2:8: .*\.v is no table \(VIEW\): nothing says when"):
        look(text)


def test_a_value_that_does_not_fit_is_refused_and_not_shown(
    look: Look, cloud: GoogleCloud, made: str
) -> None:
    table = look(DECLARED.replace("decimal(30,3)", "decimal(30,2)"))
    with pytest.raises(BigQueryError, match=r"column huge of .* can't hold exactly") as caught:
        copied(table)
    assert "890.125" not in str(caught.value)
    assert caught.value.__cause__ is None
    folder = table.declaration.home / ".mirrorlake" / "bigquery" / "ext.made"
    assert list(folder.iterdir()) == []


def test_a_table_that_changes_under_a_read_is_not_taken(
    look: Look, cloud: GoogleCloud, made: str, pages: Pages
) -> None:
    table = look()
    pages.after = lambda: add(cloud, made, 4)
    with pytest.raises(BigQueryError, match="changed since it was looked at") as caught:
        copied(table)
    assert caught.value.retryable
    assert pages.count == 1
    # Nor is one that changed before: nothing is read of it.
    with pytest.raises(BigQueryError, match="changed since it was looked at"):
        copied(table)
    assert pages.count == 1
    pages.after = lambda: None
    assert [row["id"] for row in copied(look())] == [1, 2, 3, 4]


@pytest.mark.full
def test_rows_that_are_not_given_are_missed(
    look: Look, monkeypatch: pytest.MonkeyPatch, cloud: GoogleCloud
) -> None:
    pages = BigQueryReader._pages

    def some(self: BigQueryReader, seen: TableSeen, columns: Any) -> Iterator[pa.RecordBatch]:
        for batch in pages(self, seen, columns):
            yield batch[:2]

    monkeypatch.setattr(BigQueryReader, "_pages", some)
    with pytest.raises(BigQueryError, match="has 3 rows, and 2 of them were read"):
        copied(look())


def test_nobody_is_logged_in_or_nothing_is_there(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = look().declaration
    monkeypatch.setattr(google_tables, "LOOK_PATIENCE", 0.1)
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", "http://127.0.0.1:9")
    found = look_at_externals([declared], NO_LAKE, OwnPlaces())
    # It is a problem of this table, and of what reads it.
    assert found.failed == {"ext.made"}
    assert "made.yaml:2:8: table local." in str(found.problems[0])
    assert "Google Cloud could not do it" in str(found.problems[0])
    monkeypatch.delenv("BIGQUERY_EMULATOR_HOST")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", "/nowhere")
    (problem,) = look_at_externals([declared], NO_LAKE, OwnPlaces()).problems
    assert "made.yaml:2:8: project local: nobody is logged in to Google Cloud" in str(problem)


# --- in models -------------------------------------------------------------------------------------

BOTH = """SELECT m.id, m.price, m.huge, m.at, m.stamp, HEX(m.raw) AS raw, m.name, m.tags, m.pair.b AS b,
  COALESCE(SUM(s.amount), 0) AS amount
FROM {models}.made m LEFT JOIN {deduped}.sales s ON s.id = m.id
GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9"""
PYTHON = '''"""---
reads: {made: SELECT * FROM MODELS.made WHERE id < 3}
columns: {id: bigint, at: timestamp_ntz, fine: "decimal(38,9)"}
---"""
from pyspark.sql import DataFrame

def chosen(made: DataFrame) -> DataFrame:
    return made.select("id", "at", "fine")
'''


@pytest.mark.full
def test_models_read_it_and_are_stale_when_it_moves(
    config: Path,  # noqa: F811
    place: Place,
    cloud: GoogleCloud,
    made: str,
    pages: Pages,
) -> None:
    space = f"m_{config.parent.name}"
    folder = config.parent / "models" / space
    (folder / "made.yaml").write_text(DECLARED.format(table=f"{PROJECT}.{made}.made"))
    (folder / "chosen.py").write_text(PYTHON.replace("MODELS", space))
    write_models(config, both=BOTH)
    assert computed(config, "both") == {"both": [""]}
    by_id = {row[0]: row for row in rows_of(place, config, "both")}
    first = ROWS[0]
    assert by_id[1][:9] == (
        *(first[name] for name in ("id", "price", "huge", "at", "stamp")),
        "00FF",
        first["name"],
        first["tags"],
        first["pair"]["b"],
    )
    assert by_id[2][1:9] == (None, None, None, None, None, None, [], None)
    assert computed(config, "chosen") == {"chosen": [""]}
    assert rows_of(place, config, "chosen") == [
        (row["id"], row["at"], row["fine"]) for row in ROWS[:2]
    ]
    assert computed(config, "both") == {"both": []}
    assert pages.count == 1
    code, shown = run(config, "show", f"{space}.made")
    assert code == 0
    assert f"{PROJECT}.{made}.made: 3 rows, version " in shown
    add(cloud, made, 4)
    assert computed(config, "both") == {"both": [""]}
    assert len(rows_of(place, config, "both")) == 4
