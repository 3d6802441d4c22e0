"""What a model expects of its rows is looked at before they are published."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import ExpectationFailed, LakeError
from mirrorlake.failpoints import OF_EXPECTATIONS
from mirrorlake.ledger import Ledger
from mirrorlake.models.ledger import ModelRecords, PartitionChecks
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.models.test_models import run
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands
from tests.support.command import COMMAND

Sql = Callable[..., Any]
DAILY = """---
for: {{{{day: "TIMESERIES('2024-03-01', '2024-03-05', 'P1D')"}}}}
{}
---
SELECT product, store, SUM(amount) AS amount, COUNT(*) AS sales, MAX(mail) AS mail
FROM {{deduped}}.sales WHERE DATE(sold_at) = day GROUP BY product, store
"""
DAYS = [f"day=2024-03-0{n}" for n in range(1, 5)]
EVERY_KIND = """
expect:
  not_null: [product, sales]
  unique: [product, store]
  accepted_values: {{store: [Paris, Detroit, ~], sales: [1, 2]}}
  rows: {{min: 1, max: 3}}
  where: {{no_loss: "amount >= 0 -- money", dated: "day < DATE '2024-04-01' OR day IS NULL"}}
"""


@pytest.fixture
def config(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    """Four days: one as expected, one whose amount is below zero, one without rows, and one with
    NULLs."""
    sql(
        "CREATE TABLE sales (id INT PRIMARY KEY, sold_at DATETIME, store VARCHAR(20),"
        " product VARCHAR(20), amount DECIMAL(10,2), mail VARCHAR(50))",
        "INSERT INTO sales VALUES (1, '2024-03-01 10:00', 'Paris', 'tea', 1.10, 'ann@example.com'),"
        " (2, '2024-03-01 11:00', NULL, 'cup', 2, 'bob@example.com'),"
        " (3, '2024-03-02 10:00', 'Paris', 'tea', -4, 'cid@example.com'),"
        " (4, '2024-03-04 10:00', 'Paris', NULL, 1, NULL),"
        " (5, '2024-03-04 10:00', 'Rome', 'tea', NULL, NULL)",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"sales": {"mode": "full", "key": ["id"]}}}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    assert run(path, "sync", "--json")[0] == 0
    return path


def expecting(config: Path, header: str, name: str = "daily") -> str:
    """Write a model that expects something; its name."""
    database = config.parent.name
    path = config.parent / "models" / f"m_{database}" / f"{name}.sql"
    path.write_text(DAILY.format(header).format(deduped=f"s_{database}"))
    return f"m_{database}.{name}"


def refused(config: Path, *arguments: str) -> tuple[ExpectationFailed, str]:
    result = CliRunner().invoke(cli, ["run", *arguments, "--config", str(config)])
    assert isinstance(result.exception, ExpectationFailed), result.output
    return result.exception, result.output


def checks_of(config: Path, model: str) -> dict[str, PartitionChecks]:
    """Partition → what was found of it last."""
    return {
        one.key: one for one in ModelRecords(Ledger(load_config(config).ledger.url)).checks(model)
    }


def broken(one: PartitionChecks) -> dict[str, str]:
    return {result.name: result.said for result in one.results if not result.passed}


def rows_of(place: Place, config: Path, name: str = "daily") -> list[tuple[Any, ...]]:
    table = place.lake.load(Identifier(f"m_{config.parent.name}", name))
    assert table is not None
    return sorted((tuple(row.values()) for row in table.scan().to_arrow().to_pylist()), key=repr)


def published(place: Place, config: Path, name: str = "daily") -> list[str]:
    """The days of which there are rows in main."""
    return sorted({f"day={row[-1]}" for row in rows_of(place, config, name)})


def test_partitions_that_are_not_as_expected_are_not_published_and_the_others_are(
    config: Path, place: Place
) -> None:
    model = expecting(config, EVERY_KIND)
    error, output = refused(config, model)
    assert error.keys == tuple(DAYS[1:])
    assert error.exit_code == 9
    assert "3 partitions are not as" in error.message
    assert "day=2024-03-02: no_loss (amount >= 0 -- money): 1 of 1 rows" in error.message
    assert f"; {DAYS[2]}: rows_min (at least 1 row): 0 rows; {DAYS[3]}: not_null_product" in str(
        error
    )
    # No value of a row is in it.
    assert not any(value in str(error) for value in ("Rome", "-4", "cid@"))
    assert next(line.split() for line in output.splitlines() if model in line)[1] == "1"
    assert published(place, config) == DAYS[:1]
    found = checks_of(config, model)
    assert {key: (one.rows, broken(one)) for key, one in found.items()} == {
        DAYS[0]: (2, {}),
        DAYS[1]: (1, {"no_loss": "1 of 1 rows"}),
        DAYS[2]: (0, {"rows_min": "0 rows"}),
        DAYS[3]: (
            2,
            {
                "not_null_product": "1 of 2 rows",
                "accepted_values_store": "1 of 2 rows",
                "no_loss": "1 of 2 rows",
            },
        ),
    }
    # Nothing is left of what was refused, and it is refused again.
    table = place.lake.load(Identifier(model.split(".")[0], "daily"))
    assert table is not None
    assert list(table.refs()) == ["main"]
    assert refused(config, model, "day=2024-03-02")[0].keys == (DAYS[1],)


@pytest.mark.full
def test_readers_keep_the_rows_of_before(config: Path, place: Place, sql: Sql) -> None:
    model = expecting(config, "expect: {{where: amount > 0}}")
    day = "day=2024-03-01"
    assert run(config, "run", model, day)[0] == 0
    before = rows_of(place, config, "daily")
    sql("UPDATE sales SET amount = -7 WHERE id = 1")
    assert run(config, "sync", "--json")[0] == 0
    assert refused(config, model, day)[0].keys == (day,)
    assert rows_of(place, config, "daily") == before
    shown = run(config, "show", model, day, "--json")[1]
    assert [one["refused"] for one in shown["expectations"]] == [[day]]
    assert [(one["looked_at"], one["warned"]) for one in shown["expectations"]] == [(1, 1)]
    # What was found of the rows in main, and of the newer ones.
    (main, newer) = shown["checks"]
    assert [one["passed"] for one in main["results"]] == [True]
    assert [one["said"] for one in newer["results"]] == ["1 of 2 rows"]
    words = run(config, "show", model, day)[1]
    assert f"Not published because of where: {day}" in words
    # As expected again: published, and nothing is said of what was refused.
    sql("UPDATE sales SET amount = 7 WHERE id = 1")
    assert run(config, "sync", "--json")[0] == 0
    assert run(config, "run", model, day)[0] == 0
    assert (Decimal("7.00")) in {row[2] for row in rows_of(place, config, "daily")}
    shown = run(config, "show", model, day, "--json")[1]
    assert [(one["refused"], one["looked_at"]) for one in shown["expectations"]] == [([], 1)]


@pytest.mark.full
def test_a_warning_is_published_and_said(config: Path, place: Place) -> None:
    model = expecting(config, "warn:\n  where: amount > 0\n  rows: {{min: 1}}")
    code, output = run(config, "run", model)
    assert code == 0
    assert f"Warning: {model} day=2024-03-02: where (amount > 0): 1 of 1 rows" in output
    assert f"Warning: {model} day=2024-03-03: rows_min (at least 1 row): 0 rows" in output
    assert published(place, config) == [DAYS[0], DAYS[1], DAYS[3]]
    shown = run(config, "show", model, "--json")[1]["expectations"]
    assert [(one["name"], one["looked_at"], one["warned"]) for one in shown] == [
        ("rows_min", 4, 1),
        ("where", 4, 2),
    ]
    # Nothing needs to be computed: nothing is looked at again.
    assert run(config, "run", model, "--json")[1][0]["warnings"] == []


@pytest.mark.full
def test_what_was_computed_before_an_expectation_was_written_was_not_looked_at(
    config: Path,
) -> None:
    model = expecting(config, "expect: {{rows: {{min: 0}}}}")
    assert run(config, "run", model)[0] == 0
    model = expecting(config, "expect: {{rows: {{min: 1}}}}")
    code, found = run(config, "run", model, "--json")
    assert (code, found[0]["computed"], found[0]["unchanged"]) == (0, [], 4)
    (shown,) = run(config, "show", model, "--json")[1]["expectations"]
    assert (shown["looked_at"], shown["not_looked_at"]) == (0, 4)


@pytest.mark.full
def test_rows_that_are_there_twice(config: Path, place: Place, sql: Sql) -> None:
    """In one partition; NULL is equal to NULL. In two partitions it may be."""
    database = config.parent.name
    model = expecting(config, "expect: {{unique: [[product], [store, amount]]}}")
    path = config.parent / "models" / f"m_{database}" / "daily.sql"
    path.write_text(
        path.read_text().replace("GROUP BY product, store", "GROUP BY product, store, id")
    )
    sql(
        "INSERT INTO sales VALUES (6, '2024-03-02', 'Rome', 'tea', 5, ''),"
        " (7, '2024-03-04', 'Oslo', NULL, 3, ''), (8, '2024-03-04', 'Oslo', NULL, 3, '')"
    )
    assert run(config, "sync", "--json")[0] == 0
    refused(config, model)
    assert published(place, config) == [DAYS[0]]
    found = {key: broken(one) for key, one in checks_of(config, model).items()}
    assert found == {
        DAYS[0]: {},
        DAYS[1]: {"unique_product": "2 of 2 rows"},
        DAYS[2]: {},
        DAYS[3]: {"unique_product": "3 of 4 rows", "unique_store_amount": "2 of 4 rows"},
    }


@pytest.mark.full
def test_what_can_not_be_evaluated_is_an_error_and_no_verdict(config: Path, place: Place) -> None:
    """Those before it are published, and it is named with its expectation."""
    whole = "day = DATE '2024-03-01' OR CAST(product AS INT) IS NULL"
    model = expecting(config, f'expect:\n  where: {{{{whole: "{whole}", b: sales > 0}}}}')
    result = CliRunner().invoke(cli, ["run", model, "--config", str(config)])
    assert isinstance(result.exception, LakeError)
    words = f"{model} {DAYS[1]}: whole ({whole}) can't be evaluated: "
    assert words in str(result.exception)
    assert {key: broken(one) for key, one in checks_of(config, model).items()} == {DAYS[0]: {}}
    assert published(place, config) == [DAYS[0]]


def test_a_model_with_one_partition(config: Path, place: Place) -> None:
    model = expecting(config, "expect: {{rows: {{max: 3}}, not_null: product}}", "all_days")
    path = config.parent / "models" / model.split(".")[0] / "all_days.sql"
    text = path.read_text().replace("WHERE DATE(sold_at) = day", "")
    path.write_text("---\n" + text.split("\n", 2)[2])
    error, _ = refused(config, model)
    assert error.keys == ("",)
    assert "rows_max (at most 3 rows): 4 rows" in error.message
    assert "not_null_product (product is not NULL): 1 of 4 rows" in error.message
    assert f"mirrorlake show {model} --sql" in str(error)
    assert rows_of(place, config, "all_days") == []


SCHEMA = """
import pandera.pyspark as pa
import pyspark.sql.types as T


class Daily(pa.DataFrameModel):
    product: T.StringType() = pa.Field(nullable=True)
    sales: T.LongType() = pa.Field(ge=1)
    amount: T.DecimalType(20, 2) = pa.Field(nullable=True, ge=0)


def raises(_):
    raise ValueError("secret")


Wrong = pa.DataFrameSchema({"sales": pa.Column(T.StringType(), checks=pa.Check.str_startswith("x"))})
Broken = pa.DataFrameSchema({"sales": pa.Column(T.LongType())}, checks=pa.Check(raises))
Coerced = pa.DataFrameSchema({"sales": pa.Column(T.IntegerType(), coerce=True)})
"""


@pytest.fixture
def schemas(config: Path) -> Path:
    path = config.parent / "models" / f"m_{config.parent.name}" / "_schemas.py"
    path.write_text(SCHEMA)
    return path


@pytest.mark.full
def test_a_pandera_schema_says_which_partition_breaks_what(
    config: Path, place: Place, schemas: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever the environment says, rows are looked at.
    monkeypatch.setenv("PANDERA_VALIDATION_ENABLED", "False")
    model = expecting(config, "expect: {{pandera: _schemas.py:Daily}}")
    error, _ = refused(config, model)
    assert error.keys == (DAYS[1],)
    assert published(place, config) == [DAYS[0], DAYS[3]]
    assert broken(checks_of(config, model)[DAYS[1]]) == {
        "pandera": "amount: greater_than_or_equal_to(0)"
    }
    model = expecting(config, "expect: {{pandera: _schemas.py:Wrong}}", "wrong")
    error, _ = refused(config, model)
    assert error.keys == tuple(DAYS)
    assert "sales: dtype" in error.message


@pytest.mark.full
@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("Broken", "the check raises ended in ValueError"),
        ("Coerced", "has a column with `coerce`"),
        ("Dayly", "there is no schema of pandera.pyspark Dayly"),
    ],
)
def test_a_pandera_schema_that_says_nothing_of_the_rows_is_an_error(
    config: Path, schemas: Path, schema: str, words: str
) -> None:
    model = expecting(config, f"expect: {{{{pandera: _schemas.py:{schema}}}}}")
    result = CliRunner().invoke(cli, ["run", model, "day=2024-03-01", "--config", str(config)])
    assert not isinstance(result.exception, ExpectationFailed)
    assert words in str(result.exception)
    assert "secret" not in str(result.exception)
    assert checks_of(config, model) == {}


@pytest.mark.full
@pytest.mark.parametrize("step", OF_EXPECTATIONS)
@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_dies_between_looking_and_publishing_is_resumed(
    config: Path, place: Place, step: str, fails: bool
) -> None:
    condition = "amount > 0" if fails else "sales > 0"
    model = expecting(config, f"expect: {{{{where: {condition}}}}}")
    command = [*COMMAND, "run", model, "--config", str(config)]
    environment = {**os.environ, "MIRRORLAKE_FAILPOINT": f"{step}:1"}
    died = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert died.returncode == -9
    # Nothing is seen of its rows, and a look at them is taken for none at others; what was refused
    # is said.
    assert rows_of(place, config, "daily") == []
    (shown,) = run(config, "show", model, "--json")[1]["expectations"]
    known = 2 if fails and step == "model.checked" else 0
    assert (shown["looked_at"], shown["not_looked_at"]) == (known, 0)
    assert len(shown["refused"]) == shown["warned"] == known
    if fails:
        assert refused(config, model)[0].keys == (DAYS[1], DAYS[3])
    else:
        assert run(config, "run", model)[0] == 0
    (shown,) = run(config, "show", model, "--json")[1]["expectations"]
    assert (shown["looked_at"], shown["not_looked_at"]) == (4, 0)
    assert (shown["warned"], len(shown["refused"])) == ((2, 2) if fails else (0, 0))
    table = place.lake.load(Identifier(model.split(".")[0], "daily"))
    assert table is not None
    assert list(table.refs()) == ["main"]
    assert published(place, config) == ([DAYS[0]] if fails else [DAYS[0], DAYS[1], DAYS[3]])
