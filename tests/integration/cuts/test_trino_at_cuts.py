"""A real Trino reads cuts by what `mirrorlake at` prints, and the names of the newest one; with
``MIRRORLAKE_TRINO`` alone."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest
import trino.dbapi as trino_client
from click.testing import Result

from mirrorlake.config import load_config
from mirrorlake.cuts.ledger import Cut, Cuts, CutTable
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.cuts.test_cuts import BANK, TOTAL, transfers
from tests.support.trino_process import trino_over

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
Row = tuple[Any, ...]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
ODD = 'an "odd" täble'
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def trino(place: Place, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its address; it has the tests' own lake as ``lake``."""
    with trino_over(place.folder / "lake", tmp_path_factory.mktemp("trino")) as url:
        yield url


@pytest.fixture
def bank(sql: Sql, engine_for: EngineFor) -> Workspace:
    """The bank of `test_cuts`, a table whose name has quotes, and one that never had a row."""
    for name in BANK:
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount DECIMAL(12,2) NOT NULL, at DATETIME(6))",
            f"INSERT INTO {name} VALUES " + ", ".join(f"({n}, 100, NOW(6))" for n in range(100)),
        )
    sql(
        "CREATE TABLE bookings (id INT AUTO_INCREMENT PRIMARY KEY, account INT, amount INT)",
        f'CREATE TABLE `{ODD}` (id INT PRIMARY KEY, `größe "x"` VARCHAR(20))',
        f"INSERT INTO `{ODD}` VALUES (1, 'a'), (2, NULL), (3, 'ü😀')",
        "CREATE TABLE bare (id INT PRIMARY KEY)",
    )
    tables = {name: LOG | {"clean": "table"} for name in BANK}
    workspace = engine_for(tables | {"bookings": LOG, ODD: LOG, "bare": LOG})
    path = workspace.config.path
    path.write_text(path.read_text() + "\ncuts: {sources: {s: {at_cut: true}}}\n")
    for cut in Cuts(workspace.ledger).all("s"):  # of other tests
        Cuts(workspace.ledger).forget(cut.name)
    return replace(workspace, config=load_config(path))


def test_what_is_printed_for_trino_gives_the_cut_and_so_does_its_newest_name(
    server: EmbeddedServer, database: str, sql: Sql, place: Place, trino: str, bank: Workspace,
    command: Callable[..., Result],
) -> None:  # fmt: skip
    cuts = list[Cut]()
    with transfers(server, database):
        for _ in range(2):
            made = make_cut(bank, "s", CutTerms(), lambda _: None)
            assert (made.not_shown, made.left_out) == (None, {})
            cuts.append(made.cut)
    # What comes since is in no cut: rows, a column, a name, and one that is gone.
    sql(
        "UPDATE current SET amount = amount + 1",
        "ALTER TABLE current ADD COLUMN later INT DEFAULT 7",
        "ALTER TABLE savings DROP COLUMN at",
        f"DELETE FROM `{ODD}` WHERE id = 1",
    )
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None, one.error
    for cut in cuts:
        shown = json.loads(command("at", cut.name, "--json", workspace=bank).stdout)
        printed = {(one["table"], one["layer"]): one["read"] for one in shown["tables"]}
        read = set[tuple[str, str]]()
        for one in cut.tables:
            words = printed[one.table, one.layer]
            if one.snapshot_id is None:
                assert "Trino" not in words
                continue
            names, rows = asked(trino, words["Trino"])
            assert (names, rows) == by_pyiceberg(bank, one), words["Trino"]
            assert rows == by_spark(place, words["Spark"]), words["Trino"]
            read.add((one.lake_table, one.layer))
        assert read >= {
            *((name, "clean") for name in BANK),
            *((n, "deduped") for n in (*BANK, ODD)),
        }
        for layer in ("deduped", "clean"):
            sums = [
                f"(SELECT sum(amount) FROM {words['Trino'].split(' FROM ')[1]})"
                for (table, of), words in printed.items()
                if of == layer and table.rsplit(".", 1)[1] in BANK
            ]
            assert asked(trino, f"SELECT {' + '.join(sums)}")[1] == Counter([(TOTAL,)])
    # By the names of the newest cut, in one query.
    spaces = bank.config.tables[0].namespaces
    for space in (f"{spaces.deduped}__at_cut", f"{spaces.clean}__at_cut"):
        sums = [f"(SELECT sum(amount) FROM lake.{space}.{name})" for name in BANK]
        assert asked(trino, f"SELECT {' + '.join(sums)}")[1] == Counter([(TOTAL,)])
    for one in cuts[-1].tables:
        name = Identifier(f"{one.namespace}__at_cut", one.lake_table)
        quoted = name.name.replace('"', '""')
        rows = asked(trino, f'SELECT * FROM lake.{name.namespace}."{quoted}"')
        assert rows == by_pyiceberg(bank, replace(one, namespace=name.namespace)), name


def asked(url: str, query: str) -> tuple[list[str], Counter[Row]]:
    """The names and rows that Trino gives; its session has the catalog ``lake``, as a reader's."""
    at = urlsplit(url)
    with closing(
        trino_client.connect(host=at.hostname, port=at.port, user="reader", catalog="lake")
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(query)
        found = counted(cursor.fetchall())
        return [column[0] for column in cursor.description], found


def by_pyiceberg(workspace: Workspace, one: CutTable) -> tuple[list[str], Counter[Row]]:
    table = workspace.lake.load(one.identifier)
    assert table is not None
    rows = table.scan(snapshot_id=one.snapshot_id).to_arrow()
    return rows.column_names, counted(row.values() for row in rows.to_pylist())


def by_spark(place: Place, query: str) -> Counter[Row]:
    return counted(place.spark.get().sql(query).collect())


def counted(rows: Iterable[Iterable[Any]]) -> Counter[Row]:
    """Rows, each with how often it is there; original texts in one form for all engines."""
    return Counter(tuple(map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    # None and [] are no original text (PyIceberg gives the latter for both).
    return tuple(tuple(one.values() if isinstance(one, dict) else one) for one in value) or None
