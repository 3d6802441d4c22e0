"""Tests beside models, run by the command: what passes, what differs, and what can't be told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from demo.computed import put_models
from demo.contract import demo_contract
from tests.integration.conftest import Place
from tests.integration.models.test_models import run
from tests.support.command import COMMAND

SALES = """---
for: {day: "TIMESERIES('2024-03-01', '2024-03-03', 'P1D')"}
---
SELECT store, SUM(amount) AS amount, COUNT(*) AS n FROM nyc_nyc.sales
WHERE DATE(sold_at) = day GROUP BY store
"""
SHARES = '''"""---
for: {day: "TIMESERIES('2024-03-01', '2024-03-03', 'P1D')"}
reads:
  sold: SELECT store, n FROM m.sold WHERE day = day_of
  prices: SELECT store, price FROM m.prices
columns:
  store: {type: string, nullable: false}
  worth: decimal(10,2)
---"""

from datetime import date

from pyspark.sql import DataFrame


def worth(sold: DataFrame, prices: DataFrame, day_of: date) -> DataFrame:
    found = sold.join(prices, "store")
    return found.selectExpr("store", "CAST(n * price AS DECIMAL(10,2)) AS worth")
'''
PRICES = """format: parquet
path: prices
columns:
  store: string
  price: decimal(5,2)
"""


@pytest.fixture
def folder(tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The demo's contract and models, on a machine without its servers and its lake; the session is
    this process's, which the command would start."""

    @contextmanager
    def session(_: object) -> Iterator[Any]:
        yield place.spark.get()

    monkeypatch.setattr("mirrorlake.models.testing.run_tests.local_session", session)
    monkeypatch.setenv("MIRRORLAKE_DEMO_PASSWORD", "none")
    monkeypatch.setattr("mirrorlake.cli.show.console.width", 200)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirrorlake.yaml").write_text(demo_contract(1))
    return tmp_path


def outcomes(config: Path, *arguments: str) -> tuple[int, dict[str, str]]:
    code, found = run(config, "test", *arguments, "--json")
    assert isinstance(found, list), found
    return code, {f"{one['model']} {one['name']}": one["outcome"] for one in found}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / "models" / "m" / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "mirrorlake.yaml"


def test_the_demos_tests_pass(folder: Path) -> None:
    put_models(folder)
    code, found = outcomes(folder / "mirrorlake.yaml")
    assert (code, set(found.values())) == (0, {"passed"})
    assert {name.split(" ")[0] for name in found} == {
        "flights.daily",
        "flights.delays",
        "flights.weekly",
        "shop_reports.orders_by_day",
    }


@pytest.mark.full
def test_the_command_alone(folder: Path) -> None:
    """With a session of its own, as a CI runs it; it leaves nothing behind."""
    put_models(folder)
    before = sorted(folder.rglob("*"))
    ended = subprocess.run(
        [*COMMAND, "test", "--json"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert {one["outcome"] for one in json.loads(ended.stdout)} == {"passed"}
    assert sorted(folder.rglob("*")) == before


def one_test(expected: str, *more: str) -> str:
    given = "nyc_nyc.sales: {store: string, amount: 'decimal(10,2)', sold_at: timestamp}"
    return "\n".join(
        (
            "tests:",
            "  one:",
            "    for: {day: 2024-03-01}",
            f"    columns: {{{given}}}",
            "    inputs:",
            "      nyc_nyc.sales:",
            "        - {store: Paris, amount: 0.1, sold_at: 2024-03-01 00:00:00}",
            "        - {store: Paris, amount: 0.2, sold_at: 2024-03-01 23:59:59.999999}",
            "        - {store: ~, amount: ~, sold_at: 2024-03-01 12:00:00}",
            "        - {store: Rome, amount: 1, sold_at: 2024-03-02 00:00:00}",
            *more,
            f"    expected: {expected}",
            "",
        )
    )


NULLS = "{store: ~, amount: ~, n: 1}"
PARIS = "{store: Paris, amount: 0.30, n: 2}"


def test_rows_that_differ_are_shown_beside_those_expected(folder: Path) -> None:
    expected = f"[{NULLS}, {PARIS.replace('0.30', '0.31')}]"
    config = write(folder, sales__sql=SALES, sales__test__yaml=one_test(expected))
    code, said = run(config, "test")
    assert code == 9
    assert "sales.test.yaml:2: m.sales one: 2 rows expected, 2 given: 1 missing, 1 extra" in said
    assert "0 of 1 passed." in said


@pytest.mark.full
@pytest.mark.parametrize(
    ("expected", "counts"),
    [
        (f"[{NULLS}, {PARIS}]", (0, 0)),
        (f"[{NULLS}]", (0, 1)),
        (f"[{NULLS}, {PARIS}, {PARIS}]", (1, 0)),
        (f"[{NULLS.replace('n: 1', 'n: ~')}, {PARIS}]", (1, 1)),
    ],
)
def test_a_row_is_missing_or_extra_as_often_as_it_is(
    folder: Path, expected: str, counts: tuple[int, int]
) -> None:
    config = write(folder, sales__sql=SALES, sales__test__yaml=one_test(expected))
    code, found = run(config, "test", "m.sales", "--json")
    assert (code, found[0]["outcome"]) == ((9, "failed") if any(counts) else (0, "passed"))
    assert (len(found[0]["missing"]), len(found[0]["extra"])) == counts


@pytest.mark.full
def test_a_query_that_gives_no_rows_to_compare_is_an_error(folder: Path) -> None:
    text = SALES.replace("SUM(amount)", "CAST(assert_true(SUM(amount) < 0) AS string)")
    config = write(folder, sales__sql=text, sales__test__yaml=one_test("[]"))
    code, said = run(config, "test")
    assert (code, "error" in said, "passed" in said.split("0 of 1")[0]) == (9, True, False)
    assert run(folder / "mirrorlake.yaml", "test", "m.nobody")[0] == 2


@pytest.mark.full
def test_a_model_in_python_over_a_table_made_elsewhere(folder: Path) -> None:
    sold = SALES.replace("SUM(amount) AS amount, ", "")
    text = SHARES.replace('for: {day: "TIME', 'for: {day_of: "TIME')
    tests = """tests:
  one:
    for: {day_of: 2024-03-02}
    inputs:
      m.sold:
        - {store: Paris, n: 3, day: 2024-03-02}
        - {store: Paris, n: 9, day: 2024-03-01}
        - {store: Rome, n: 1, day: 2024-03-02}
      m.prices: [{store: Paris, price: 1.25}]
    expected: [{store: Paris, worth: 3.75}]
"""
    mine = "nyc_nyc.sales: {store: string, amount: 'decimal(10,2)', sold_at: timestamp}"
    config = write(folder, sold__sql=sold, worth__py=text, prices__yaml=PRICES)
    code, said = run(config, "test")
    assert (code, "has no tests" in said or "have no tests" in said) == (0, True), said
    config = write(
        folder,
        worth__test__yaml=tests.replace("    inputs:", f"    columns: {{{mine}}}\n    inputs:"),
    )
    assert run(config, "test")[0] == 2  # it does not read that table itself
    columns = "m.sold: {store: string, n: bigint, day: date}"
    write(
        folder,
        worth__test__yaml=tests.replace("    inputs:", f"    columns: {{{columns}}}\n    inputs:"),
    )
    assert outcomes(config) == (0, {"m.worth one": "passed"})
