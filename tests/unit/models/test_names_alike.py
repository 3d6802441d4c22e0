"""Tables whose names differ in case alone: neither is taken for the other."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField, StringType

from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import ModelError
from mirrorlake.models.compile.model import Project
from mirrorlake.models.compile.project import compile_models
from mirrorlake.operations.schema_changes.altered_tables import AlteredCatalogue, AlteredTable
from mirrorlake.serving.catalogue import Catalogue
from tests.unit.models.test_rules import CONTRACT, NOW, declared

COLUMNS = {"Users": ("id", "secret"), "users": ("id", "shown"), "Orders": ("id",)}


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A real lake with these tables, without rows; a rule hides a column of the first."""
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")
    path, rules = (
        tmp_path / "mirrorlake.yaml",
        "{mode: full, key: [id], columns: {secret: {pii: null}}}",
    )
    tables = f"Users: {rules}\n          users: {{mode: full}}\n          Orders: {{mode: full}}"
    path.write_text(CONTRACT[: CONTRACT.index("v: {")] + tables)
    config = load_config(path)
    lake = Lake(config.lake)
    for namespace in ("s_d", "s_d__clean"):
        lake.make_namespace(namespace)
        for name, columns in COLUMNS.items():
            fields = [NestedField(1, "id", IntegerType())]
            fields += [NestedField(2, column, StringType()) for column in columns[1:]]
            lake.catalog.create_table((namespace, name), Schema(*fields))
    return Catalogue(config, lake)


def compiled(catalogue: Catalogue, sql: str, name: str = "m.t") -> Project:
    project = compile_models([declared(name, sql)], catalogue, NOW)
    project.raise_problems()
    return project


@pytest.mark.parametrize("name", ["Users", "users", "USERS"])
def test_a_model_that_names_one_of_them_is_refused(catalogue: Catalogue, name: str) -> None:
    words = "s_d.Users and s_d.users differ in case alone: a model reads neither"
    with pytest.raises(ModelError, match=words):
        compiled(catalogue, f"SELECT id FROM s_d.{name}")
    with pytest.raises(ModelError, match="is a mirrored table"):
        compiled(catalogue, "SELECT 1 AS id", f"s_d.{name}".lower())


def test_others_are_read_in_any_case(catalogue: Catalogue) -> None:
    assert compiled(catalogue, "SELECT id FROM s_d.orders").models["m.t"].reads == ("s_d.orders",)


def test_each_is_looked_at_by_its_place(catalogue: Catalogue) -> None:
    for name, columns in COLUMNS.items():
        table = catalogue.at(Identifier("s_d", name))
        assert table is not None
        assert (table.contract.table, table.identifier.name) == (name, name)
        assert tuple(column for column, _, _ in table.columns) == columns
        assert catalogue.hidden(table) == ({"secret"} if name == "Users" else frozenset())
    assert catalogue.at(Identifier("s_d", "USERS")) is None
    first = catalogue.at(Identifier("s_d", "Users"))
    assert first is not None
    changed = AlteredCatalogue(catalogue, {first.name: AlteredTable(first.columns[:1], {})})
    found = [changed.at(Identifier("s_d", name)) for name in ("Users", "users")]
    assert [len(one.columns) for one in found if one is not None] == [1, 2]
