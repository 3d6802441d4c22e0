"""Checks of tables made elsewhere: what passes, what fails, and what nobody can tell."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyiceberg.types import IntegerType

from mirrorlake.bigquery import external_tables as bigquery_tables
from mirrorlake.cli.main import cli
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import MirrorlakeError, ModelError
from mirrorlake.models.checks.external_tables import (
    check_external,
    fresh_verdict,
    row_count_verdict,
)
from mirrorlake.models.external_sources.inspect import look_at
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import ExternalTable
from mirrorlake.models.files.external_table import ExternalDeclaration, read_external
from mirrorlake.models.show import external as observed
from mirrorlake.models.show.external import ExternalSeen, observe
from mirrorlake.runtime.google.tables import BigQueryTable, StreamedRows, TableSeen
from tests.unit.models.test_external import (  # noqa: F401 - fixtures
    LAKE,
    THERE,
    compiled,
    contract,
    lake,
    make_stock,
    written,
)

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)
LIMITS = "freshness: {warn_after: 1h, fail_after: 2h}\nmin_rows: 10\n"
NO_LAKE: Any = None


def declared(folder: Path, text: str = THERE + LIMITS) -> ExternalDeclaration:
    return read_external(written(folder, text, "ext/stock.yaml"))


def seen(
    ago: timedelta | None = None, rows: int | None = 10, streamed: int | None = None
) -> ExternalSeen:
    return ExternalSeen("v", rows, None, 0, None if ago is None else NOW - ago, streamed)


def test_freshness(tmp_path: Path) -> None:
    one = declared(tmp_path)

    def verdict(*args: Any) -> str:
        return fresh_verdict(one, seen(*args), NOW).verdict

    hour, minute = timedelta(hours=1), timedelta(minutes=1)
    assert [verdict(ago) for ago in (0 * hour, hour, hour + minute, 2 * hour)] == [
        "passed",
        "passed",
        "late",
        "late",
    ]
    assert verdict(2 * hour + minute) == "failed"
    # What nobody can tell is no success.
    assert verdict(None) == "undecided"
    assert (verdict(-5 * minute), verdict(-6 * minute)) == ("passed", "undecided")
    assert (verdict(hour, 10, 5), verdict(3 * hour, 10, 5)) == ("passed", "undecided")
    only = declared(tmp_path, THERE + "freshness: {fail_after: 2h}")
    assert fresh_verdict(only, seen(2 * hour), NOW).verdict == "passed"


def test_count_of_rows(tmp_path: Path) -> None:
    one = declared(tmp_path)
    found = [row_count_verdict(one, seen(None, *rest)) for rest in [(10,), (9,), (9, 5), (None,)]]
    assert [(f.verdict, f.words) for f in found] == [
        ("passed", "10 rows"),
        ("failed", "9 rows, fewer than 10"),
        ("undecided", "9 rows, and about 5 streamed in that are not counted"),
        ("undecided", "Its rows are not counted exactly"),
    ]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("10", "0", "5:11: min_rows: "),
        ("2h", "30m", "4:25: freshness.warn_after: a warning comes before"),
        ("fail_after: 2h", "fail: 2h", "freshness.fail: unknown key"),
    ],
)
def test_limits_that_are_none(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ModelError) as caught:
        declared(tmp_path, THERE + LIMITS.replace(old, new))
    assert words in str(caught.value)


# --- a table of the lake ---------------------------------------------------------------------------


def checked(lake: Lake, text: str = LAKE + LIMITS) -> dict[str, tuple[str, str]]:  # noqa: F811
    one = declared(Path(lake.warehouse[7:]).parent, text)
    found = check_external(one, lake, OwnPlaces(), datetime.now(UTC))
    return {v.check: (v.verdict, v.words) for v in found.verdicts}


def test_all_that_is_otherwise_is_named(lake: Lake) -> None:  # noqa: F811
    table = make_stock(lake)
    assert checked(lake)["fresh"] == ("undecided", "Nothing says when it was last written")
    assert checked(lake)["row_count"] == ("failed", "0 rows, fewer than 10")
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
        update.rename_column("product", "article")
    verdict, words = checked(lake, LAKE.replace("stock: bigint", "stock: int") + LIMITS)["contract"]
    assert verdict == "failed"
    first, second = words.split("; ")
    assert first.endswith("stock.yaml:2:11: ext.stock has no column product")
    assert second.endswith("stock.yaml:2:28: column stock is bigint in ext.stock")
    assert checked(lake, LAKE.replace("product", "article"))["contract"] == (
        "passed",
        "3 columns as declared; there and not declared: size",
    )


def test_a_compaction_is_no_write(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    table = make_stock(lake)
    kinds = pa.schema([("product", pa.string()), ("stock", pa.int64()), ("day", pa.date32())])
    table.append(pa.table({"product": ["tea"], "stock": [1], "day": [None]}, schema=kinds))
    one = declared(Path(lake.warehouse[7:]).parent, LAKE + LIMITS)
    assert observe(look_at(one, lake, OwnPlaces()), lake).changed_at is not None
    # As of a table all of whose kept snapshots are compactions.
    monkeypatch.setattr(observed, "is_rewrite", lambda _: True)
    assert observe(look_at(one, lake, OwnPlaces()), lake).changed_at is None


def test_the_command(lake: Lake) -> None:  # noqa: F811
    folder = Path(lake.warehouse[7:]).parent

    def run(*words: str) -> tuple[int, str]:
        words = (*words, "--config", str(folder / "mirrorlake.yaml"))
        found = CliRunner().invoke(cli, ["external", "check", *words])
        if isinstance(found.exception, MirrorlakeError):
            return found.exception.exit_code, str(found.exception)
        return found.exit_code, found.output

    assert run()[0] == 2
    declared(folder, LAKE + LIMITS)
    code, said = run()
    assert (code, "there is no table ext.stock in the lake" in said) == (2, True)
    make_stock(lake)
    assert run("ext.stok")[1].endswith(
        "no file declares a table ext.stok; did you mean 'ext.stock'?"
    )
    code, said = run()
    assert code == 9
    assert "row_count: failed: 0 rows, fewer than 10" in said
    declared(folder, LAKE + "freshness: {fail_after: 2h}")
    code, said = run("ext.stock", "--json")
    assert code == 10
    (table,) = json.loads(said)["tables"]
    assert [one["verdict"] for one in table["verdicts"]] == ["passed", "undecided"]
    declared(folder, LAKE)
    assert run()[0] == 0


# --- a table of BigQuery that rows are streamed into ----------------------------------------------


def test_streamed_rows_are_observed_and_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, newer = NOW - timedelta(hours=9), NOW - timedelta(minutes=30)
    column = {"name": "product", "type": "STRING", "mode": "NULLABLE"}
    there = TableSeen(
        *(BigQueryTable("p-1", "ds", "prices"), "TABLE", "EU", (column,), "v", 3, 9, old),
        StreamedRows(20, newer),
    )
    one = declared(tmp_path)
    looked = bigquery_tables.ExternalLook(ExternalTable(one, stored=there), ())
    monkeypatch.setattr("mirrorlake.bigquery.external_tables.look_at_bigquery", lambda *_: looked)
    found = check_external(one, NO_LAKE, OwnPlaces(), NOW)
    assert (found.seen.rows, found.seen.streamed, found.seen.changed_at) == (3, 20, newer)
    assert [v.verdict for v in found.verdicts] == ["passed", "passed", "undecided"]
    with pytest.raises(
        ModelError, match=r"rows are streamed into p-1\.ds\.prices: those that just"
    ):
        look_at(one, NO_LAKE, OwnPlaces())
