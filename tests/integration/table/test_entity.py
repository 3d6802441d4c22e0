"""Entities: every row of a token has the token's first time of creation, whatever comes later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyiceberg.transforms import DayTransform

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.proof.comparing.evidence import prove_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import lake_rows

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]

TODAY = datetime.now(UTC).date()
ENTITY = {
    "mode": "append",
    "key": ["id"],
    "cursor": "id",
    "created": "created",
    "overlap_keys": 0,
    "entity": {"token": "TOKEN", "created": "created"},
}
CREATE = """CREATE TABLE t (id BIGINT PRIMARY KEY, token VARCHAR(20) NOT NULL,
    created {kind} NOT NULL, v INT, KEY (token, created))"""


@pytest.fixture(scope="session")
def server(on_mysql8_too_in_full: EmbeddedServer) -> EmbeddedServer:
    return on_mysql8_too_in_full


def at(days: int, clock: str = "12:00:00") -> str:
    return f"'{TODAY - timedelta(days=days)} {clock}'"


def when(days: int, clock: str = "12:00:00") -> datetime:
    return datetime.fromisoformat(at(days, clock).strip("'"))


def synced(workspace: Workspace) -> TableContract:
    contract = workspace.config.table("t")
    sync_table(workspace, contract)
    return contract


def firsts(workspace: Workspace) -> dict[int, Any]:
    contract = workspace.config.table("t")
    rows = lake_rows(workspace, contract.namespaces.deduped, "t")
    return {row["id"]: row["original_created_at"] for row in rows}


def rebuilt(workspace: Workspace) -> dict[int, Any]:
    """The same from raw alone: deduped is made again."""
    contract = workspace.config.table("t")
    workspace.lake.catalog.drop_table((contract.namespaces.deduped, "t"))
    sync_table(workspace, contract)
    return firsts(workspace)


def expected(rows: Sequence[tuple[int, str, datetime]]) -> dict[int, datetime]:
    """The model: the earliest time of each token, for each of its rows."""
    times: dict[str, list[datetime]] = defaultdict(list)
    for _, token, created in rows:
        times[token.casefold()].append(created)
    return {number: min(times[token.casefold()]) for number, token, _ in rows}


@pytest.mark.full
def test_the_first_time_is_kept_through_deletes_late_rows_and_rebuilds(
    sql: Sql, engine_for: EngineFor
) -> None:
    rows = [(1, "a", when(9)), (2, "a", when(5)), (3, "b", when(7)), (4, "B", when(6))]
    sql(
        CREATE.format(kind="DATETIME"),
        *(f"INSERT INTO t VALUES ({n}, '{token}', '{c}', 0)" for n, token, c in rows),
    )
    workspace = engine_for({"t": ENTITY})
    contract = synced(workspace)
    assert firsts(workspace) == expected(rows)

    # MySQL forgets the first row of `a`; what comes later still belongs to it.
    sql("DELETE FROM t WHERE id = 1", f"INSERT INTO t VALUES (5, 'A', {at(1)}, 0)")
    sync_table(workspace, contract)
    rows.append((5, "A", when(1)))
    assert firsts(workspace) == expected(rows)

    # A row that was created before all others of its token comes last, alone in its window.
    sql(f"INSERT INTO t VALUES (6, 'b', {at(30)}, 0)")
    sync_table(workspace, contract)
    rows.append((6, "b", when(30)))
    assert firsts(workspace) == expected(rows)
    assert rebuilt(workspace) == expected(rows)

    table = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    assert table is not None
    [field] = table.spec().fields
    assert isinstance(field.transform, DayTransform)
    # Of a day that rows had before, a file may be left whose rows are all deleted.
    days = {
        one["partition"][field.name]
        for one in table.inspect.partitions().to_pylist()
        if one["record_count"] > one["position_delete_record_count"]
    }
    assert days == {first.date() for first in expected(rows).values()}


@pytest.mark.parametrize(
    ("kind", "first"),
    [
        ("DATETIME(6)", when(3, "23:59:59.000001")),
        pytest.param(
            "TIMESTAMP(3)", when(3, "23:59:59").replace(tzinfo=UTC), marks=pytest.mark.full
        ),
        pytest.param("DATE", when(3).date(), marks=pytest.mark.full),
    ],
)
def test_every_type_of_time(sql: Sql, engine_for: EngineFor, kind: str, first: Any) -> None:
    sql(
        CREATE.format(kind=kind),
        f"INSERT INTO t VALUES (1, 'a', {at(2)}, 0), (2, 'a', {at(3, '23:59:59.000001')}, 0)",
        # No time at all is no first one; a token without another has none.
        "INSERT INTO t VALUES (3, 'a', 0, 0), (4, 'z', 0, 0)",
    )
    workspace = engine_for({"t": ENTITY})
    synced(workspace)
    assert firsts(workspace) == {1: first, 2: first, 3: first, 4: None}


@pytest.mark.full
def test_a_reload_keeps_what_only_a_small_window_was_told(sql: Sql, engine_for: EngineFor) -> None:
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, token CHAR(8) NOT NULL, created DATETIME NOT NULL,"
        " v INT, modified_at DATETIME NOT NULL, KEY (token), KEY (modified_at))",
        f"INSERT INTO t VALUES (1, 'a', {at(40)}, 0, {at(40)})",
    )
    incremental = {"mode": "incremental", "cursor": "modified_at", "overlap": "9d"}
    contract_of = {**{k: ENTITY[k] for k in ("key", "entity")}, **incremental}
    workspace = engine_for({"t": contract_of})
    contract = synced(workspace)
    sql(f"INSERT INTO t VALUES (2, 'a', {at(2)}, 0, {at(2)}), (3, 'c', {at(2)}, 0, {at(2)})")
    sql(f"INSERT INTO t VALUES (5, 'd', {at(3)}, 0, {at(2)}), (6, 'd', {at(2)}, 0, {at(2)})")
    sync_table(workspace, contract)
    # First rows go; the day is read again, where MySQL knows no earlier time than row 2's and 6's.
    sql("DELETE FROM t WHERE id IN (1, 5)")
    day = TODAY - timedelta(days=2)
    reload_days(workspace, contract, day, day)
    fold_table(workspace, contract)
    kept = {1: when(40), 2: when(40), 3: when(2), 6: when(3)}
    assert firsts(workspace) == kept
    assert rebuilt(workspace) == kept
    # A key that moves to another token takes that one's time, and leaves its own behind.
    sql(f"UPDATE t SET token = 'c', modified_at = {at(0, '00:00:00')} WHERE id = 2")
    sql(f"INSERT INTO t VALUES (4, 'a', {at(1)}, 0, {at(1)})")
    sync_table(workspace, contract)
    kept |= {2: when(2), 4: when(40)}
    assert firsts(workspace) == kept
    assert rebuilt(workspace) == kept


@pytest.mark.full
def test_a_loaded_table_that_becomes_one_of_entities_is_read_anew(
    sql: Sql, engine_for: EngineFor
) -> None:
    rows = [(1, "a", when(9)), (2, "a", when(5)), (3, "b", when(7))]
    sql(
        CREATE.format(kind="DATETIME"),
        *(f"INSERT INTO t VALUES ({n}, '{token}', '{c}', 0)" for n, token, c in rows),
    )
    plain = {k: v for k, v in ENTITY.items() if k != "entity"}
    synced(engine_for({"t": plain}))
    workspace = engine_for({"t": ENTITY})
    contract = synced(workspace)
    assert firsts(workspace) == expected(rows)
    # The exact check judges the source's own columns, and the kept time is none of them.
    report, _ = prove_table(workspace, contract, Ask())
    assert report.verdict == "equal"
    with pytest.raises(SchemaError, match="original_created_at was dropped"):
        synced(engine_for({"t": plain}))


@pytest.mark.full
def test_a_clean_table_is_laid_out_again_when_its_table_becomes_one_of_entities(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(CREATE.format(kind="DATETIME"), f"INSERT INTO t VALUES (1, 'a', {at(3)}, 1)")
    terms = {**ENTITY, "clean": "table"}
    synced(engine_for({"t": {name: value for name, value in terms.items() if name != "entity"}}))
    workspace = engine_for({"t": {**terms, "columns": {"v": {"pii": "show"}}}})
    contract = synced(workspace)
    rows = lake_rows(workspace, contract.namespaces.clean, "t")
    assert [row["original_created_at"] for row in rows] == [when(3)]
    sql(f"INSERT INTO t VALUES (2, 'a', {at(2)}, 1)")
    sync_table(workspace, contract)
    rows = lake_rows(workspace, contract.namespaces.clean, "t")
    assert [row["original_created_at"] for row in rows] == [when(3), when(3)]
    table = workspace.lake.load(Identifier(contract.namespaces.clean, "t"))
    assert table is not None
    assert [type(field.transform) for field in table.spec().fields] == [DayTransform]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("MODIFY token VARCHAR(20) NULL", "token can be NULL"),
        ("DROP KEY token", "no index begins with the entity's token"),
        ("ADD Original_Created_At DATE", "has a column original_created_at of its own"),
        ("MODIFY created BIGINT NOT NULL", "not a time"),
    ],
)
def test_tables_that_can_not_be_of_entities(
    sql: Sql, engine_for: EngineFor, change: str, message: str
) -> None:
    sql(CREATE.format(kind="DATETIME"), f"ALTER TABLE t {change}")
    contract = {k: v for k, v in ENTITY.items() if k != "created"}
    with pytest.raises(SchemaError, match=message):
        synced(engine_for({"t": contract}))
