"""What a commit changed is held against the rows before and after it: no day that changed is left
out, whatever wrote them."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.metadata import changed_days as module
from mirrorlake.destinations.iceberg.metadata.changed_days import changed_days
from mirrorlake.destinations.iceberg.model import LakeTable, history
from mirrorlake.destinations.iceberg.tables.tables import current_properties
from tests.integration.conftest import Place

COLUMNS = "id INT, At TIMESTAMP_NTZ, zoned TIMESTAMP, day DATE, x DOUBLE, name STRING"
DAYS = ("1969-12-31", "1970-01-01", "2024-02-29", "2024-03-01")


@pytest.fixture
def identifier(place: Place) -> Iterator[Identifier]:
    found = Identifier("changed", f"t{uuid.uuid4().hex[:8]}")
    words = ", ".join(f"'{name}' = '{value}'" for name, value in current_properties().items())
    spark = place.spark.get()
    place.lake.make_namespace("changed")
    spark.sql(f"CREATE TABLE {found.sql} ({COLUMNS}) USING iceberg TBLPROPERTIES ({words})")
    yield found
    place.lake.drop(found)


def rows_sql(rows: list[tuple[int, str | None, str]]) -> str:
    return ", ".join(
        f"({n}, {_at('TIMESTAMP_NTZ', day)}, {_at('TIMESTAMP_LTZ', day)},"
        f" {f'DATE {day!r}' if day else 'NULL'}, CAST({x} AS DOUBLE), 'n{n}')"
        for n, day, x in rows
    )


def _at(kind: str, day: str | None) -> str:
    zone = "+00:00" if kind == "TIMESTAMP_LTZ" else ""
    return f"{kind} '{day} 23:59:59.999999{zone}'" if day else "NULL"


def by_day(place: Place, table: LakeTable, snapshot: int | None) -> Counter[tuple[Any, ...]]:
    if snapshot is None:
        return Counter()
    rows = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
    return Counter((one["day"], repr(sorted(one.items(), key=str))) for one in rows)


def truly(before: Counter[tuple[Any, ...]], after: Counter[tuple[Any, ...]]) -> set[date | None]:
    return {key[0] for key in before.keys() | after.keys() if before[key] != after[key]}


def look(place: Place, identifier: Identifier) -> list[tuple[set[date | None], Any]]:
    """Of each commit after the first, the days that it changed, and those that it is said to."""
    table = place.lake.load(identifier)
    assert table is not None
    found: list[tuple[set[date | None], Any]] = []
    for commit in reversed(history(table)):
        parent = commit.parent_snapshot_id
        real = truly(by_day(place, table, parent), by_day(place, table, commit.snapshot_id))
        said = {column: changed_days(table, commit, column) for column in ("at", "zoned", "day")}
        assert said["at"] == said["zoned"] == said["day"]
        # Without a column, as a whole table is read: no change is one, whatever its day.
        assert changed_days(table, commit, "") in ((frozenset(), None) if not real else (None,))
        found.append((real, said["day"]))
    return found


def test_a_commit_names_the_days_of_the_rows_that_it_changed(
    place: Place, identifier: Identifier
) -> None:
    spark, name = place.spark.get(), identifier.sql
    spark.sql(
        f"INSERT INTO {name} VALUES "
        + rows_sql([(n, DAYS[n % 4], "1.5") for n in range(8)] + [(8, None, "-0.0")])
    )
    # A few rows are changed where they are: positions are deleted, rows are added.
    spark.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM VALUES (2, DATE '2024-03-01'), (40, NULL)"
        " AS v(id, day)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = s.day,"
        " At = TIMESTAMP_NTZ '2024-03-01 00:00:00', zoned = TIMESTAMP_LTZ '2024-03-01 00:00:00+00:00'"
        " WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, s.day)"
    )
    spark.sql(f"DELETE FROM {name} WHERE id = 4")
    # The same rows, written again: no day changed. Then one of them is another: its day did.
    whole = spark.table(name).collect()
    for change in (None, 5):
        frame = spark.createDataFrame(whole, spark.table(name).schema)
        if change:
            frame = frame.withColumn("x", spark_if(frame, change))
        frame.writeTo(name).overwrite(spark_true())
    spark.sql(
        f"CALL lake.system.rewrite_data_files(table => '{identifier}', options => map('rewrite-all', 'true'))"
    )
    spark.sql(f"DELETE FROM {name} WHERE day = DATE '1969-12-31'")
    found = look(place, identifier)
    days = [date.fromisoformat(day) for day in DAYS]
    assert found[0][1] == {*days, None}
    assert found[1] == ({days[2], days[3], None},) * 2
    assert found[2] == ({days[0]},) * 2
    assert found[3] == (set(), frozenset())
    assert found[4] == ({days[1]},) * 2
    assert found[5] == (set(), frozenset())
    assert found[6] == ({days[0]},) * 2
    table = place.lake.load(identifier)
    assert table is not None
    commits = list(reversed(history(table)))
    as_a_whole = [changed_days(table, commit, "") for commit in commits]
    assert as_a_whole == [None, None, None, frozenset(), None, frozenset(), None]


def spark_if(frame: Any, number: int) -> Any:
    from pyspark.sql import functions as f

    return f.when(f.col("id") == number, -0.5).otherwise(frame["x"])


def spark_true() -> Any:
    from pyspark.sql import functions as f

    return f.lit(True)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(4))
def test_no_day_that_changed_is_left_out(
    place: Place, identifier: Identifier, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark, name, chance = place.spark.get(), identifier.sql, random.Random(seed)  # noqa: S311
    if seed % 2:
        monkeypatch.setattr(module, "COMPARED", 0)
    for step in range(12):
        some = [(chance.randrange(30), chance.choice((*DAYS, None)), "1") for _ in range(4)]
        some = list({one[0]: one for one in some}.values())
        match chance.randrange(5) if step else 0:
            case 0:
                spark.sql(f"INSERT INTO {name} VALUES {rows_sql(some)}")
            case 1:
                spark.sql(
                    f"MERGE INTO {name} t USING (SELECT * FROM VALUES {rows_sql(some)} AS"
                    " v(id, At, zoned, day, x, name)) s ON t.id = s.id"
                    " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
                )
            case 2:
                spark.sql(f"DELETE FROM {name} WHERE id % 7 = {chance.randrange(7)}")
            case 3:
                frame = spark.createDataFrame(spark.table(name).collect(), spark.table(name).schema)
                frame.where(f"id <> {some[0][0]}").writeTo(name).overwrite(spark_true())
            case _:
                spark.sql(
                    f"CALL lake.system.rewrite_position_delete_files(table => '{identifier}')"
                )
    for real, said in look(place, identifier):
        assert said is not None
        assert real <= said


def test_a_column_that_is_not_there_says_nothing(place: Place, identifier: Identifier) -> None:
    place.spark.get().sql(f"INSERT INTO {identifier.sql} (id) VALUES (1)")
    table = place.lake.load(identifier)
    assert table is not None
    (commit,) = history(table)
    assert changed_days(table, commit, "other") is None
    assert changed_days(table, commit, "at") == {None}
