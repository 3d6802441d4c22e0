"""A model over tenants waits while one of them was never read: nobody knows what it has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger, Tenant
from mirrorlake.models.contract_models import compile_project
from mirrorlake.models.partition_states.due import find_due
from mirrorlake.models.partition_states.states import States
from tests.unit.models.test_project import CONTRACT

NOW = datetime(2024, 3, 4, 12, tzinfo=UTC)
TENANTS = "tenants: {g: {sources: [s], databases: ['g_%'], tables: {orders: {key: [id]}}}}\n"


def test_a_tenant_that_was_never_read_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT + TENANTS)
    config = load_config(path)
    [table] = config.tenants
    lake = Lake(config.lake)
    lake.make_namespace(table.namespaces.deduped)
    columns = Schema(NestedField(1, "id", IntegerType(), required=False))
    lake.catalog.create_table((table.namespaces.deduped, table.table), columns)
    (tmp_path / "models" / "m").mkdir(parents=True)
    model = f"SELECT COUNT(*) AS n FROM {table.namespaces.deduped}.orders"
    (tmp_path / "models" / "m" / "all.sql").write_text(model)
    ledger = Ledger(config.ledger.url)

    def waiting(*tenants: Tenant) -> dict[str, str]:
        ledger.record_tenants(table.name, tenants)
        project, catalogue = compile_project(config, lake, NOW)
        [due] = find_due(States(project, catalogue, lake, ledger), NOW)
        return due.waiting

    read = Tenant("s", "g_1", NOW, read_at=NOW - timedelta(hours=1))
    assert waiting(read) == {}
    new = Tenant("s", "g_2", NOW)
    assert waiting(read, new) == {"": f"g_2 of {table.name} was never read"}
    gone = Tenant("s", "g_2", NOW, gone_at=NOW)
    assert waiting(read, gone) == {}
