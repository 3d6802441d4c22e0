"""Tables of tenants in BigQuery: one table, each tenant's rows as its own server has them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from demo.oracle import compare_rows
from demo.oracle_text import read_source
from mirrorlake.bigquery.check import BigQueryVerdict, check_published
from mirrorlake.bigquery.loads.publish import PublishOutcome, publish_table
from mirrorlake.destinations.iceberg.model import arrow_schema
from mirrorlake.failpoints import OF_BIGQUERY
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.status.status import status_of
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import deduped_of
from tests.integration.bigquery.every_type import COLUMNS, ROWS
from tests.integration.bigquery.published import address, client_of, killed, left_over
from tests.integration.conftest import Place
from tests.integration.tenants import Tenants
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live

OF_TENANTS = ("_mirror_source", "_mirror_database", "_mirror_version")
ORDERS = "id INT PRIMARY KEY, email VARCHAR(40), at DATE"


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place, cloud: Cloud) -> Iterator[Tenants]:
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    made.contract |= {"publish": ["lake", "bigquery"], "verify": False}
    section = {**cloud.section(), "wait": "2m", "views": ["clean", "full"]}
    made.file = {"bigquery": section, "privacy": {"hash_key": "${env:TEST_HASH_KEY}"}}
    for dataset in (made.prefix, f"{made.prefix}__views_clean", f"{made.prefix}__views_full"):
        cloud.make_dataset(dataset)
    yield made
    made.close()


def published(tenants: Tenants) -> PublishOutcome:
    with tenants.opened() as (workspace, table):
        return publish_table(workspace, table, client_of(workspace))


def synced(tenants: Tenants, *only: str) -> PublishOutcome:
    """A sync of all tenants, or of these, and a load. One whose table was changed a moment ago is
    read again by the next sync of all, and so counts as changed."""
    assert tenants.sync(databases=frozenset(map(tenants.name, only))).failed == {}
    return published(tenants)


def checked(tenants: Tenants) -> BigQueryVerdict:
    with tenants.opened() as (workspace, table):
        return check_published(workspace, table, client_of(workspace))


def there(cloud: Cloud, tenants: Tenants, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """The rows of each tenant, as Google's client reads the table, sorted by their texts."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in cloud.client().list_rows(address(tenants.prefix, "orders")):
        assert row["_mirror_source"] == "s"
        found.setdefault(row["_mirror_database"], []).append(tuple(row[name] for name in columns))
    return {database: sorted(rows, key=str) for database, rows in found.items()}


@pytest.mark.full
def test_tenants_are_one_table_and_what_left_is_gone(tenants: Tenants, cloud: Cloud) -> None:
    """One key in two tenants is two rows; a change, a delete and a tenant that goes are exact."""
    tenants.group["dropped"] = "remove"
    tenants.contract["columns"] = {"email": {"pii": "mask"}}
    for tenant in ("a", "b", "c", "d"):
        tenants.make(tenant, ORDERS, *(f"({n}, '{tenant}{n}@mail', NULL)" for n in range(1, 21)))
    first = synced(tenants)
    assert (first.how, first.loaded, first.rows) == ("all rows", 80, 80)
    assert first.views == {"clean": "made", "full": "made"}
    tenants.run(
        "a", "UPDATE orders SET at = '2026-01-02' WHERE id = 1", "DELETE FROM orders WHERE id = 2"
    )
    second = synced(tenants, "a")
    assert (second.how, second.loaded, second.rows) == ("changes", 20, 79)
    assert there(cloud, tenants, "id", "email", "at") == tenants.mysql("id", "email", "at")
    tenants.drop("c")
    third = synced(tenants, "c")
    assert (third.how, third.loaded, third.rows) == ("changes", 20, 59)
    assert there(cloud, tenants, "id", "email", "at") == tenants.mysql("id", "email", "at")
    assert checked(tenants).verdict == "equal"
    assert left_over(cloud, tenants.prefix, "orders") == []
    assert published(tenants).state == "unchanged"


@pytest.mark.full
def test_shapes_have_the_columns_of_all_and_clean_is_the_lakes(
    tenants: Tenants, cloud: Cloud
) -> None:
    """A rule holds in each shape; a column that came later waits for the contract."""
    tenants.contract |= {
        "clean": "table",
        "columns": {"email": {"pii": "hash"}, "phone": {"pii": "drop"}, "at": {"pii": "null"}},
    }
    tenants.make("a", ORDERS, "(1, 'ada@mail', '0000-00-00')", "(2, NULL, '2026-01-02')")
    tenants.make("b", f"{ORDERS}, phone VARCHAR(20)", "(1, 'b@mail', NULL, '555 1234')")
    synced(tenants)
    tenants.run("b", "ALTER TABLE orders ADD COLUMN note VARCHAR(9) DEFAULT 'secret'")
    assert synced(tenants).rows == 3
    primary = list(cloud.client().list_rows(address(tenants.prefix, "orders")))
    assert "phone" not in primary[0].keys()  # noqa: SIM118 - a Row iterates over its values
    assert {row["note"] for row in primary} == {None, "secret"}
    sql = f"SELECT * FROM `{address(f'{tenants.prefix}__views_clean', 'orders')}`"
    shown = [dict(row.items()) for row in cloud.client().query_and_wait(sql)]
    here = [{"_mirror_original": [], **row} for row in tenants.shown()]
    for row in here:
        row["_mirror_original"] = row["_mirror_original"] or []
    assert sorted(shown, key=repr) == sorted(({n: r[n] for n in shown[0]} for r in here), key=repr)
    assert {*shown[0]} == {*here[0]}
    hidden = ("@mail", "secret", "555 1234", "2026-01", "0000-00")
    assert not any(word in repr(shown) for word in hidden)
    assert checked(tenants).verdict == "equal"


@pytest.mark.full
def test_every_type_of_a_tenant_is_what_mysql_prints(
    tenants: Tenants, cloud: Cloud, server: EmbeddedServer
) -> None:
    for tenant in ("a", "b"):
        tenants.make(tenant, COLUMNS, *ROWS)
    assert synced(tenants).rows == 6
    rows = list(cloud.client().list_rows(address(tenants.prefix, "orders")))
    with tenants.opened() as (workspace, table):
        found = workspace.lake.load(deduped_of(table))
        assert found is not None
        names = arrow_schema(found.schema(), field_ids=False)
        schema = pa.schema([field for field in names if field.name not in OF_TENANTS])
    for tenant in ("a", "b"):
        of = [dict(row.items()) for row in rows if row["_mirror_database"] == tenants.name(tenant)]
        with server.admin(tenants.name(tenant)) as admin:
            source = read_source(admin, tenants.name(tenant), "orders")
        compared = compare_rows(source, ["id"], pa.Table.from_pylist(of, schema=schema))
        assert compared.equal, compared.describe()
    assert checked(tenants).verdict == "equal"


@pytest.mark.full
def test_without_a_key_all_rows_are_loaded(tenants: Tenants, cloud: Cloud) -> None:
    del tenants.contract["key"]
    for tenant in ("a", "b"):
        tenants.make(tenant, "id INT, a INT", "(1, 1)", "(1, 1)", "(2, NULL)")
    synced(tenants)
    tenants.run("a", "DELETE FROM orders WHERE id = 2", "INSERT INTO orders VALUES (1, 1)")
    again = synced(tenants)
    assert (again.how, again.why) == (
        "all rows",
        "no key and no partitions of it can be compared in BigQuery",
    )
    assert there(cloud, tenants, "id", "a") == tenants.mysql("id", "a")
    assert checked(tenants).verdict == "equal"


@pytest.mark.full
@pytest.mark.parametrize("name", OF_BIGQUERY)
def test_a_killed_load_is_settled(name: str, tenants: Tenants, cloud: Cloud) -> None:
    for tenant in ("a", "b", "c"):
        tenants.make(tenant, ORDERS, *(f"({n}, 'x', NULL)" for n in range(1, 11)))
    synced(tenants)
    tenants.run(
        "b", "UPDATE orders SET email = 'new' WHERE id < 4", "DELETE FROM orders WHERE id = 9"
    )
    tenants.sync(databases=frozenset({tenants.name("b")}))
    killed(tenants.config().path, name, "orders")
    with tenants.opened() as (workspace, table):
        settled = recover_table(workspace, table).published["bigquery"]
        [status] = status_of(workspace.config, workspace.ledger, [table])
        load = status.published["bigquery"]
        assert load is not None
        assert load.state == settled
    assert published(tenants).rows == 29
    assert there(cloud, tenants, "id", "email") == tenants.mysql("id", "email")
    assert left_over(cloud, tenants.prefix, "orders") == []
    assert checked(tenants).verdict == "equal"
