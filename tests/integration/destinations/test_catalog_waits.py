"""A catalog on Postgres whose connection breaks or falls silent in any step of a load: the load
ends, and what readers have is exact."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.support.postgres import PASSWORD, Postgres, running_postgres
from tests.support.word_proxy import How, WordProxy

EngineFor = Callable[..., Workspace]
FULL_MATRIX = [
    pytest.param(word, how, marks=pytest.mark.full)
    for word in ("SELECT", "INSERT", "UPDATE iceberg_tables", "COMMIT")
    for how in ("before", "after", "stall", "slow")
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with running_postgres() as server:
        yield server


@pytest.mark.full
@pytest.mark.parametrize(
    ("word", "how"), [("UPDATE iceberg_tables", "stall"), ("COMMIT", "after"), *FULL_MATRIX]
)
def test_a_load_ends_and_its_rows_are_there_once(
    server: EmbeddedServer,
    database: str,
    sql: Callable[..., Any],
    engine_for: EngineFor,
    postgres: Postgres,
    tmp_path: Any,
    word: str,
    how: How,
) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT)",
        "INSERT INTO t SELECT seq, seq FROM seq_1_to_10",
    )
    with postgres.admin() as admin:
        admin.execute(f"CREATE DATABASE catalog_{database}")
    # Not `READ COMMITTED`: a statement's text ends with a zero byte.
    end = b"\0" if word == "COMMIT" else b" "
    with WordProxy(postgres.port, word.encode() + end, how) as proxy:
        url = postgres.url(f"catalog_{database}")
        through = with_catalog(
            engine_for({"t": {"mode": "append", "key": ["id"], "cursor": "id"}}),
            url.replace(str(postgres.port), str(proxy.port)),
            str(tmp_path),
        )
        contract = through.config.table("t")
        load_table(through, contract)
        sql("INSERT INTO t SELECT seq, seq FROM seq_11_to_20")
        proxy.arm()
        failed: list[LakeError] = []
        for _ in range(2):
            try:
                load_table(through, contract)
                break
            except LakeError as error:
                failed.append(error)
        assert proxy.met.is_set() or word == "INSERT"
        assert all(error.retryable for error in failed), failed
        said = [str(error) for error in failed if "is not usable" in str(error)]
        assert all("the lake's catalog postgresql://" in one for one in said), said
        assert not any(PASSWORD in one or quote(PASSWORD, safe="") in one for one in said)
    direct = with_catalog(through, url, str(tmp_path))
    load_table(direct, contract)
    raw = direct.ledger.schema_versions(contract.name)[-1].raw_table
    table = direct.lake.load(Identifier(contract.namespaces.raw, raw))
    assert table is not None
    rows = table.scan().to_arrow()
    assert set(rows["id"].to_pylist()) == set(range(1, 21))
    # Each load is in raw once, and no other one is.
    assert rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
    loads = {load.load_id for load in direct.ledger.successful_loads(contract.name, 0)}
    assert set(rows["_mirror_load"].to_pylist()) <= loads


def with_catalog(workspace: Workspace, url: str, folder: str) -> Workspace:
    """The workspace over another lake and ledger; the lake's catalog is in Postgres."""
    catalog = workspace.config.lake.catalog.model_copy(
        update={"uri": url, "wait": timedelta(seconds=2)}
    )
    lake = workspace.config.lake.model_copy(update={"catalog": catalog, "warehouse": folder})
    config = workspace.config.model_copy(update={"lake": lake})
    # A ledger knows its one lake.
    ledger = Ledger(f"sqlite:///{folder}/ledger.db")
    return dataclasses.replace(workspace, config=config, lake=Lake(lake), ledger=ledger)
