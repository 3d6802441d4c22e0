"""No table that is made elsewhere is one of the mirror's own, whatever name or path leads there."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.cli.main import cli
from mirrorlake.config import Config, load_config
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LandingError, ModelError
from mirrorlake.models.external_sources.inspect import look_at
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.tables import ExternalLook, ExternalTable
from mirrorlake.models.files.external_table import read_external
from mirrorlake.runtime.google.tables import BigQueryTable, TableSeen
from mirrorlake.sources.files.parquet_table import check_files, list_files
from tests.unit.models.test_external import make_stock, written
from tests.unit.models.test_project import (  # noqa: F401 - fixtures
    CONTRACT,
    Compiled,
    compiled,
    contract,
    problem,
)

NAMED = "format: {kind}\ntable: {table}\ncolumns: {{id: int, email: string}}\n"
AT = "format: parquet\npath: {path}\ncolumns: {{email: string}}\n"
EXPECTED = "columns that its contract hides would reach models. Read the clean table instead"
BIGQUERY = BigQueryConfig(project="own-project", bucket="own-bucket")


def own_rows(path: Path, **columns: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"email": ["ann@example.com"], **columns}), path)
    return path


def refusal(config: Config, text: str, lake: Lake | None = None) -> str:
    """Why a table is refused; '' of one that is not."""
    folder = config.path.parent
    try:
        declared = read_external(written(folder, text, "ext/stock.yaml"))
        look_at(declared, lake or Lake(config.lake), OwnPlaces.of(config))
    except ModelError as error:
        words = f"{error.message}. {error.next_step}"
        assert words.startswith(f"{folder / 'models' / 'ext' / 'stock.yaml'}:2:"), words
        return words
    return ""


# --- Iceberg, by name ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    ["s_d.people", "S_D.People", "s_d__raw.people", "s_d__clean.people", "s_d__stream.people",
     "s_d__clean__stream.people", "s_d__raw__stream.sales", "s_d.somebody_elses", '"s_d .people"',
     "ｓ_d.people"],
)  # fmt: skip
def test_a_namespace_of_the_contract(contract: Path, table: str) -> None:  # noqa: F811
    words = refusal(load_config(contract), NAMED.format(kind="iceberg", table=table))
    assert "stock.yaml:2:8: Mirrorlake fills" in words
    assert EXPECTED in words
    assert "own name: s_d__clean." in words


@pytest.mark.parametrize(
    "table",
    ["people.files", "s_d.people.history", "lake.s_d.people", "s_d.people.branch_x", "`s_d`.people",
     "s_d.people.snapshot_id_1", "other.s_d.people"],
)  # fmt: skip
def test_no_name_of_parts_or_of_another_catalog(contract: Path, table: str) -> None:  # noqa: F811
    text = NAMED.format(kind="iceberg", table=f"'{table}'")
    assert re.search(
        "is no table|can't be read yet|there is no table", refusal(load_config(contract), text)
    )


def test_a_table_of_the_mirror_under_another_name(contract: Path) -> None:  # noqa: F811
    config = load_config(contract)
    lake = Lake(config.lake)
    lake.make_namespace("ext")
    deduped = lake.catalog.load_table(("s_d", "people"))
    lake.catalog.register_table(("ext", "linked"), deduped.metadata_location)
    text = NAMED.format(kind="iceberg", table="ext.linked")
    assert "ext.linked is a table of the mirror under another name" in refusal(config, text)


@pytest.mark.parametrize(
    ("properties", "summary", "words"),
    [({"mirrorlake.table": "s.d.people"}, {}, "is made by a mirror"),
     ({}, {"mirrorlake.load-id": "1"}, "is made by a mirror"),
     ({}, {"mirrorlake.folded-through": "7"}, "is made by a mirror"),
     ({"mirrorlake.model": "a.b"}, {}, "is made here: model a.b does"), ({}, {}, "")],
)  # fmt: skip
def test_a_table_of_another_contract_file(
    contract: Path, properties: dict[str, str], summary: dict[str, str], words: str  # noqa: F811
) -> None:  # fmt: skip
    config = load_config(contract)
    lake = Lake(config.lake)
    table = make_stock(lake, **properties)
    kinds = pa.schema([("product", pa.string()), ("stock", pa.int64()), ("day", pa.date32())])
    rows = pa.table({"product": ["a"], "stock": [1], "day": [None]}, schema=kinds)
    table.append(rows, snapshot_properties=summary)
    text = "format: iceberg\ntable: ext.stock\ncolumns: {product: string}\n"
    found = refusal(config, text, lake)
    assert words in found
    assert bool(found) == bool(words)


# --- Parquet, by path ------------------------------------------------------------------------------


def test_paths_that_lead_into_the_lake(contract: Path) -> None:  # noqa: F811
    config, home = load_config(contract), contract.parent
    data = own_rows(home / "lake" / "s_d" / "people" / "data" / "a.parquet").parent
    (home / "linked").symlink_to(data)
    (home / "parent").symlink_to(home / "lake")
    (home / "exports").mkdir()
    inside = "lake/s_d/people/data"
    paths = [inside, f"./x/../{inside}", f"{home}/{inside}", f"{home}//lake/./s_d/people/data/",
             "linked", "parent/s_d/people/data", "exports/../linked", "lake", ".", "..",
             "../" * 40]  # fmt: skip
    for path in paths:
        words = refusal(config, AT.format(path=path))
        assert "stock.yaml:2:7: " in words, (path, words)
        assert EXPECTED in words, (path, words)
    for path in ("file:///x", f"file:{data}", "exports/*", "~/lake"):
        assert re.search(
            "it is a folder, gs|there is no folder", refusal(config, AT.format(path=path))
        )


def test_links_that_are_put_below_a_folder(contract: Path) -> None:  # noqa: F811
    config, home = load_config(contract), contract.parent
    data = own_rows(home / "lake" / "s_d" / "people" / "data" / "a.parquet")
    own_rows(home / "exports" / "own.parquet")
    text = AT.format(path="exports")
    assert refusal(config, text) == ""
    (home / "exports" / "b.parquet").symlink_to(data)
    assert f"{data} is in the lake" in refusal(config, text)
    (home / "exports" / "b.parquet").unlink()
    (home / "exports" / "own.parquet").unlink()
    (home / "exports" / "shop=1").symlink_to(data.parent)
    by_shop = text.replace("}", ", shop: int}") + "partition_by: shop\n"
    assert f"{data.parent} is in the lake" in refusal(config, by_shop)


def test_other_folders_with_rows_of_the_mirror(
    contract: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    home = contract.parent
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(home / "cache"))
    contract.write_text(
        CONTRACT
        + "  landed:\n    landing: {url: landing, cluster: c}\n    databases: {d: {tables: {t: {mode: snapshot, key: [id]}}}}\n"
    )
    config = load_config(contract)
    for path, what in (
        (".mirrorlake/bigquery/ext.stock/abc", "Mirrorlake's own folder"),
        (".mirrorlake/evidence", "Mirrorlake's own folder"),
        ("cache/spark", "Mirrorlake's cache"),
        ("landing/json/c/d/t/dq/20240101", "the landing of landed.d.t"),
        ("landing", "the landing of landed.d.t"),
    ):
        own_rows(home / path / "a.parquet")
        assert f"in {what}" in refusal(config, AT.format(path=path)).replace(" has ", " in "), path
    own_rows(home / "landing" / "other" / "a.parquet")
    assert refusal(config, AT.format(path="landing/other")) == ""


BUCKETS = [
    ("gs://b/lake", "gs://b/lake/s_d/people/data"),
    ("gs://b/lake", "s3://b/lake/s_d/people"),
    ("gs://b/lake/", "gs://B/lake/x"),
    ("gs://b/lake", "gs://b//lake/x"),
    ("gs://b/lake", "gs://b/other/../lake/x"),
    ("gs://b/lake", "gs://b/la%6Be/x"),
    ("gs://b/lake", "gs://b/lake"),
    ("gs://b/deep/lake", "gs://b/deep"),
    ("s3a://b/lake", "s3://b/lake/x"),
]


@pytest.mark.parametrize(("warehouse", "path"), BUCKETS)
def test_places_in_buckets(contract: Path, warehouse: str, path: str) -> None:  # noqa: F811
    config = load_config(contract).model_copy(
        update={"lake": LakeConfig.model_construct(warehouse=warehouse)}
    )
    declared = read_external(written(contract.parent, AT.format(path=path)))
    with pytest.raises(ModelError, match="the lake"):
        OwnPlaces.of(config).refuse(declared)


def test_what_only_looks_like_the_lake(contract: Path) -> None:  # noqa: F811
    config = load_config(contract)
    own_rows(contract.parent / "lake2" / "a.parquet")
    assert refusal(config, AT.format(path="lake2")) == ""
    update = {
        "lake": LakeConfig.model_construct(warehouse="gs://b/lake"),
        "added": {"bigquery": BIGQUERY},
    }
    for path in ("gs://b/lake2", "gs://c/lake/x", "gs://own-bucket/else"):
        declared = read_external(written(contract.parent, AT.format(path=path)))
        OwnPlaces.of(config.model_copy(update=update)).refuse(declared)
    staged = read_external(written(contract.parent, AT.format(path="gs://own-bucket/mirrorlake/x")))
    with pytest.raises(ModelError, match="what waits to be loaded into BigQuery"):
        OwnPlaces.of(config.model_copy(update=update)).refuse(staged)


def test_a_file_of_raw_wherever_it_lies(contract: Path) -> None:  # noqa: F811
    """A copy, a hard link or another mount: raw's own columns tell it, each file for itself."""
    config, home = load_config(contract), contract.parent
    raw = own_rows(home / "lake" / "raw.parquet", _mirror_load=["x"])
    (home / "exports").mkdir()
    os.link(raw, home / "exports" / "a.parquet")
    text = AT.format(path="exports")
    assert "a.parquet has _mirror_load, as only a mirror's own files have" in refusal(config, text)
    own_rows(home / "exports" / "z.parquet")
    declared = read_external(written(home, text))
    found = look_at(declared, Lake(config.lake), OwnPlaces.of(config))
    assert found.folder is not None
    with pytest.raises(LandingError, match="_mirror_load"):
        check_files(found.folder, list_files(found.folder))


# --- BigQuery --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("table", "is_ours"),
    [("s_d.people", True), ("own-project.s_d.people", True), ("s_d__raw.people", True),
     ("S_D__views_full.people", True), ("s_d__raw__views_clean.people", True),
     ("s_d__clean.people", True), ("own-project.partner.people", False),
     ("partner-project.s_d.people", False)],
)  # fmt: skip
def test_datasets_that_mirrorlake_fills(contract: Path, table: str, is_ours: bool) -> None:  # noqa: F811
    config = load_config(contract).model_copy(update={"added": {"bigquery": BIGQUERY}})
    declared = read_external(written(contract.parent, NAMED.format(kind="bigquery", table=table)))
    if not is_ours:
        OwnPlaces.of(config).refuse(declared)
        return
    with pytest.raises(ModelError, match=r"prices\.yaml:2:8: Mirrorlake fills") as caught:
        OwnPlaces.of(config).refuse(declared)
    assert "s_d__clean.people" in caught.value.next_step


def test_a_copy_of_raw_in_bigquery(tmp_path: Path) -> None:
    declared = read_external(written(tmp_path, NAMED.format(kind="bigquery", table="p-1.x.people")))
    there = TableSeen(
        BigQueryTable("p-1", "x", "people"), "TABLE", "EU",
        ({"name": "id"}, {"name": "_mirror_seq"}), "v", 0, 0, None, None,
    )  # fmt: skip
    with pytest.raises(ModelError, match=r"p-1\.x\.people has _mirror_seq"):
        OwnPlaces().refuse_look(ExternalLook(ExternalTable(declared, stored=there), ()))


# --- commands --------------------------------------------------------------------------------------


def test_models_over_it_do_not_compile_and_commands_end_with_the_error(
    contract: Path, compiled: Compiled  # noqa: F811
) -> None:  # fmt: skip
    written(contract.parent, NAMED.format(kind="iceberg", table="s_d.people"), "ext/stock.yaml")
    project = compiled(a__mails="SELECT email FROM ext.stock", a__ids="SELECT id FROM s_d.people")
    assert list(project.models) == ["a.ids"]
    assert problem(project).startswith("models/ext/stock.yaml:2:8: Mirrorlake fills s_d:")
    for command in ("plan", "run a.mails", "external check", "show ext.stock"):
        found = CliRunner().invoke(cli, command.split())
        said = " ".join(f"{found.stderr} {found.exception}".split())
        assert found.exit_code != 0, command
        assert "Read the clean table instead" in said, (command, said)


@pytest.mark.parametrize(
    "query",
    ["SELECT email FROM parquet.`{home}/lake/s_d/people`", "SELECT email FROM csv.`{home}/x`",
     "SELECT email FROM delta.`{home}/x`", "SELECT email FROM iceberg.`{home}/x`",
     "SELECT email FROM orc.`{home}/x`", "SELECT email FROM json.`file://{home}/x`",
     "SELECT email FROM other.s_d.people", "SELECT email FROM lake.s_d.people",
     "SELECT email FROM s_d.people.files", "SELECT email FROM `s_d.people`",
     "SELECT email FROM s_d__raw.people", "SELECT email FROM S_D__RAW.People"],
)  # fmt: skip
def test_a_query_names_no_path_and_no_layer_that_is_not_shown(
    compiled: Compiled,  # noqa: F811
    query: str,
) -> None:
    project = compiled(a__b=query.format(home=Path.cwd()))
    assert project.models == {}
    assert "models/a/b.sql:1:" in problem(project)
