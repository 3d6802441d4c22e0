"""A preflight names the models that a migration breaks, however many models are between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.models.test_models import run, write_models
from tests.integration.operations.test_upkeep import shared_session  # noqa: F401 – one JVM for all commands

Sql = Callable[..., Any]
DAILY = """---
for: {{sold_day: "TIMESERIES('2024-02-28', '2024-03-02', 'P1D')"}}
---
SELECT s.store,
  SUM(s.amount) AS amount
FROM {deduped}.sales AS s
WHERE DATE(s.sold_at) = sold_day GROUP BY s.store
"""
MODELS = {
    "daily": DAILY,
    "total": "SELECT SUM(amount) AS total FROM {models}.daily",
    "all": "SELECT * FROM {deduped}__clean.sales",
    "names": "SELECT id, store FROM {deduped}__clean.sales",
    "both": "SELECT s.id, code FROM {deduped}.sales AS s JOIN {deduped}.stores AS t ON s.store = t.name",
    "scoped": "---\nfor: {{region: [north, south]}}\n---\nSELECT id, region AS r FROM {deduped}.sales",
    "broken": "SELECT nothing FROM {deduped}.sales",
    "elsewhere": "SELECT nothing FROM {deduped}.stores",
}


@pytest.fixture
def config(server: MariaDB, place: Place, database: str, sql: Sql) -> Path:
    sql(
        "CREATE TABLE sales (id INT PRIMARY KEY, sold_at DATETIME NOT NULL, store VARCHAR(20),"
        " amount INT)",
        "INSERT INTO sales VALUES (1, '2024-02-28 01:00', 'Paris', 1)",
        "CREATE TABLE stores (name VARCHAR(20) PRIMARY KEY, code INT)",
    )
    folder = place.folder / database
    (folder / "models" / f"m_{database}").mkdir(parents=True)
    tables = {
        "sales": {"mode": "full", "key": ["id"], "new_columns": "show"},
        "stores": {"mode": "full", "key": ["name"]},
    }
    path = write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": tables}},
        lake={"warehouse": str(place.folder / "lake")},
        ledger={"url": "sqlite:///ledger.db"},
    )
    assert run(path, "sync", "--json")[0] == 0
    write_models(path, **MODELS)
    return path


def of_models(config: Path, text: str) -> tuple[int, dict[str, str], list[tuple[str, str]]]:
    """The exit code; model → what becomes of it; and findings that name a model's file: severity
    and words, from the file's name on."""
    code, found = run(config, "preflight", text, "--json")
    name = config.parent.name
    (sales,) = [one for one in found if one["table"].endswith(".sales")]
    impacts = {one["model"].removeprefix(f"m_{name}."): one["what"] for one in sales["models"]}
    marker = f"models/m_{name}/"
    findings = [
        (one["severity"], words[words.index(marker) + len(marker) :].replace(f"_{name}", ""))
        for one in sales["findings"]
        if marker in (words := one["words"])
    ]
    return code, impacts, [one for one in findings if not one[1].startswith("broken")]


CASES: dict[str, tuple[int, dict[str, str], list[tuple[str, str]]]] = {
    "ALTER TABLE sales DROP COLUMN amount": (
        20,
        {"all": "breaks", "daily": "breaks", "total": "breaks"},
        [
            ("breaks", "all.sql:1:8: m.all reads amount of s__clean.sales, which is gone then"),
            ("breaks", "daily.sql:5:9: there is no column amount"),
            ("breaks", "total.sql:1:34: m.total reads m.daily, which does not compile then"),
            (
                "breaks",
                "total.sql:1:12: m.total reads amount of m.daily, which is made of amount of "
                "s.sales: that is gone then",
            ),
        ],
    ),
    "ALTER TABLE sales CHANGE amount price INT": (
        20,
        {"all": "breaks", "daily": "breaks", "total": "breaks"},
        [
            (
                "breaks",
                "all.sql:1:8: m.all reads amount of s__clean.sales, which is called price then",
            ),
            ("breaks", "daily.sql:5:9: there is no column amount"),
            ("breaks", "total.sql:1:34: m.total reads m.daily, which does not compile then"),
            (
                "breaks",
                "total.sql:1:12: m.total reads amount of m.daily, which is made of amount of "
                "s.sales: that is called price then",
            ),
        ],
    ),
    "ALTER TABLE sales MODIFY id BIGINT": (
        20,
        {"all": "breaks", "both": "breaks", "names": "breaks", "scoped": "breaks"},
        [
            ("breaks", f"{file}: m.{file.split('.')[0]} reads id of {of}.sales, which was int, is bigint then")
            for file, of in (
                ("all.sql:1:8", "s__clean"), ("both.sql:1:10", "s"), ("names.sql:1:8", "s__clean"),
                ("scoped.sql:4:8", "s"),
            )
        ],
    ),
    "ALTER TABLE sales MODIFY amount BIGINT": (
        20,
        {"all": "breaks", "daily": "reads", "total": "reads"},
        [
            (
                "breaks",
                "all.sql:1:8: m.all reads amount of s__clean.sales, which was int, is bigint then",
            ),
            ("ok", "daily.sql:5:9: m.daily reads amount of s.sales, which was int, is bigint then"),
            (
                "ok",
                "total.sql:1:12: m.total reads amount of m.daily, which is made of amount of "
                "s.sales: that was int, is bigint then",
            ),
        ],
    ),
    "ALTER TABLE sales ADD COLUMN code INT, ADD COLUMN region INT": (
        20,
        {"all": "again", "both": "breaks", "scoped": "breaks"},
        [
            ("breaks", "both.sql:1:14: column code is ambiguous: 2 of the sources have it"),
            (
                "breaks",
                "scoped.sql:4:12: region is a column of a source and a name under `for`",
            ),
        ],
    ),
    "ALTER TABLE sales ADD COLUMN note INT": (10, {"all": "again"}, []),
    "ALTER TABLE sales DROP COLUMN id": (
        20,
        {"all": "breaks", "both": "breaks", "names": "breaks", "scoped": "breaks"},
        [
            ("breaks", "all.sql:1:8: m.all reads id of s__clean.sales, which is gone then"),
            ("breaks", "both.sql:1:10: there is no column id"),
            ("breaks", "names.sql:1:8: there is no column id"),
            ("breaks", "scoped.sql:4:8: there is no column id"),
        ],
    ),
    "DROP TABLE sales": (
        20,
        {},
        [
            ("attention", "all.sql:1:15: m.all reads s__clean.sales, which stays as it is then"),
            ("attention", "both.sql:1:24: m.both reads s.sales, which stays as it is then"),
            ("attention", "daily.sql:6:6: m.daily reads s.sales, which stays as it is then"),
            ("attention", "names.sql:1:23: m.names reads s__clean.sales, which stays as it is then"),
            ("attention", "scoped.sql:4:29: m.scoped reads s.sales, which stays as it is then"),
        ],
    ),
    "ALTER TABLE sales ADD KEY (store)": (0, {}, []),
}  # fmt: skip


def test_each_kind_of_change_reaches_the_models_that_read_it(config: Path) -> None:
    for text, wanted in CASES.items():
        code, impacts, findings = of_models(config, text)
        assert (code, impacts, sorted(findings)) == (*wanted[:2], sorted(wanted[2])), text
    # Partitions that were computed are counted, with what they took.
    total = f"m_{config.parent.name}.total"
    assert run(config, "run", total, "--upstream")[0] == 0
    _, found = run(config, "preflight", "ALTER TABLE sales MODIFY amount DOUBLE", "--json")
    daily = next(one for one in found[0]["models"] if one["model"].endswith(".daily"))
    assert (daily["what"], daily["partitions"], daily["forecast"]["rows"]) == ("breaks", 3, 1)
    said = [one["words"] for one in found[0]["findings"]]
    assert any("3 partitions are computed again (about 1 row, " in words for words in said)
    # One that does not compile as it is hides no other, and is said where it reads the table.
    broken = [words for words in said if "does not compile as it is" in words]
    assert len(broken) == 1
    assert "broken.sql:1:8: there is no column nothing" in broken[0]
    config.parent.joinpath("models", "x.sql").write_text("")  # no place of a model's
    _, again = run(config, "preflight", "ALTER TABLE sales MODIFY amount DOUBLE", "--json")
    assert [one["model"] for one in again[0]["models"]] == [
        one["model"] for one in found[0]["models"]
    ]
    assert any("x.sql" in one["words"] for one in again[0]["findings"])
