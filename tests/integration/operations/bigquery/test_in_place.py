"""Tables that BigQuery reads in the lake. The emulator has no table of four-part name: a stand-in
with the lake's rows is read in its place, by a server before it that puts one name for the other."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.types import UUIDType

from dagster_mirrorlake.assets.bigquery_figures import in_place_metadata
from dagster_mirrorlake.table import mirrored_tables
from demo.embedded import EmbeddedServer
from mirrorlake.cli.bigquery import print_published
from mirrorlake.config.settings import CatalogConfig
from mirrorlake.destinations.iceberg.durable import IMPLEMENTATION
from mirrorlake.errors import BigQueryError, TypeRefused
from mirrorlake.operations.bigquery.check import estimate_check
from mirrorlake.operations.bigquery.due import find_unpublished
from mirrorlake.operations.status import status_of
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
from tests.integration.contract_files import write_contract
from tests.integration.operations.bigquery.published import (
    checked,
    client_of,
    published,
    synced,
)
from tests.integration.operations.bigquery.test_views import (
    FULL,
    PEOPLE,
    PERSON,
    RULES,
    SECRETS,
    clean_here,
    shown,
)
from tests.support.bigquery.emulator import PROJECT, GoogleCloud
from tests.support.bigquery.shim import Shim, shim_before
from tests.support.command import COMMAND
from tests.support.gcs_process import emulator_process
from tests.support.google_tokens import running_tokens
from tests.support.rest_catalog import running_catalog

LAKE = "lake-project.company-lake"
HIDING = {name: rule for name, rule in RULES.items() if name != "card"}
"""Rules on columns that are in the lake; `pci: never` is of none."""


@pytest.fixture
def shim(cloud: GoogleCloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shim]:
    with shim_before(cloud.bigquery) as found:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", found.url)
        yield found


def in_place(workspace: Workspace) -> Workspace:
    """The same workspace, whose contract says that Google's catalog keeps the lake."""
    config = workspace.config
    google = CatalogConfig.model_construct(
        auth="google", project="lake-project", name="company-lake"
    )
    tables = tuple(one.model_copy(update={"bigquery_load": "none"}) for one in config.tables)
    lake = config.lake.model_copy(update={"catalog": google})
    return replace(workspace, config=config.model_copy(update={"tables": tables, "lake": lake}))


@pytest.fixture
def people(
    mirror: Callable[..., Workspace],
    sql: Callable[..., Any],
    cloud: GoogleCloud,
    dataset: str,
    shim: Shim,
) -> Callable[..., Workspace]:
    """A table that was loaded with all columns, to stand in for the lake's; and a workspace that
    reads it in place, by the rules."""
    sql(PERSON, *PEOPLE)
    synced(mirror({"t": FULL}, views=[]))
    shim.stand_ins[f"{LAKE}.{dataset}.t"] = f"{PROJECT}.{dataset}.t"

    def make(rules: dict[str, Any] | None = None, **bigquery: Any) -> Workspace:
        columns = HIDING if rules is None else rules
        return in_place(mirror({"t": {**FULL, "columns": columns}}, **bigquery))

    return make


def test_nothing_is_loaded_and_views_show_what_clean_shows(
    people: Callable[..., Workspace],
    cloud: GoogleCloud,
    dataset: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workspace = people(views=["clean", "full"])
    sync_table(workspace, workspace.config.table("t"))  # the lake's clean is made by the rules
    before = workspace.ledger.newest_publications()
    done = published(workspace)
    assert (done.state, done.why) == ("in place", "read in place: nothing is loaded")
    assert (done.how, done.loaded, done.rows, done.job) == (None, None, None, None)
    assert done.views == {"clean": "made", "full": "made"}
    assert workspace.ledger.newest_publications() == before
    print_published([done])
    assert "read in place: nothing is loaded" in capsys.readouterr().out
    found = shown(cloud, dataset)
    assert found == clean_here(workspace)
    hidden = [secret for secret in SECRETS if secret != "4111111111111111"]
    assert not any(secret in repr(found) for secret in hidden)
    assert published(workspace).views == {"clean": "unchanged", "full": "unchanged"}


def test_a_dropped_column_is_in_no_view(
    people: Callable[..., Workspace], cloud: GoogleCloud, dataset: str
) -> None:
    """In the lake it is there, and so are its original texts."""
    published(people({"born": {"pii": "drop"}}, views=["clean", "full"]))
    for kind in ("clean", "full"):
        rows = shown(cloud, dataset, kind)
        assert "born" not in rows[0]
        assert "1815-12-10" not in repr(rows)
        kept = {one["column"] for row in rows for one in row["_mirror_original"]}
        assert kept == {"day", "seen"}


@pytest.mark.full
def test_a_stricter_rule_holds_at_the_next_look(
    people: Callable[..., Workspace], cloud: GoogleCloud, dataset: str
) -> None:
    published(people({}))
    assert "ada.lovelace@example.com" in repr(shown(cloud, dataset))
    assert published(people({"email": {"pii": "null"}})).views == {"clean": "made"}
    assert "ada.lovelace@example.com" not in repr(shown(cloud, dataset))


def test_check_compares_what_is_read_with_the_lake(
    people: Callable[..., Workspace], sql: Callable[..., Any], mirror: Callable[..., Workspace]
) -> None:
    workspace = people()
    assert estimate_check(workspace, workspace.config.table("t"), client_of(workspace))
    found = checked(workspace)
    assert (found.verdict, found.words, found.rows) == ("equal", "", 3)
    [*_, proof] = workspace.ledger.layer_proofs(found.table)
    assert proof.verdict == "equal"
    # A reader that takes no notice of deletes shows the row that was.
    sql("UPDATE t SET note = 'other' WHERE id = 1")
    sync_table(workspace, workspace.config.table("t"))
    assert checked(workspace).verdict == "different"
    published(mirror({"t": FULL}, views=[]))
    assert checked(workspace).verdict == "equal"


def test_a_view_that_google_refuses_is_an_error_and_no_view(
    people: Callable[..., Workspace], cloud: GoogleCloud, dataset: str, shim: Shim
) -> None:
    """As Google says of such views, or where the catalog's table is not to be found."""
    published(people({}))
    shim.stand_ins.clear()
    with pytest.raises(BigQueryError, match=f"{dataset}__views_clean.t"):
        published(people())
    assert not [*cloud.client().list_tables(f"{dataset}__views_clean")]


@pytest.mark.full
def test_no_load_is_due_and_none_is_shown(people: Callable[..., Workspace]) -> None:

    workspace = people()
    contract = workspace.config.table("t")
    due = find_unpublished(
        *(workspace.config, workspace.lake.head, workspace.ledger, [contract], {}),
        datetime.now(UTC),
    )
    assert [*due] == []
    [status] = status_of(workspace.config, workspace.ledger, [contract])
    assert status.bigquery is None


@pytest.mark.full
def test_a_type_that_bigquery_has_not_is_refused(
    people: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = people()
    table = workspace.lake.catalog.load_table((workspace.config.table("t").namespaces.deduped, "t"))

    with table.update_schema() as update:
        update.add_column(("u",), UUIDType())
    with pytest.raises(TypeRefused, match="for which BigQuery has no exact type"):
        published(workspace)


def test_dagster_says_that_nothing_is_loaded(
    people: Callable[..., Workspace], dataset: str
) -> None:
    workspace = people()
    done = published(workspace)
    [table] = mirrored_tables(workspace.config.tables)
    spec = table.specs["bigquery"]
    assert "nothing is loaded" in str(spec.description)
    assert "dagster/table_name" not in spec.metadata
    told = in_place_metadata(workspace, table, done)
    assert told["this run"] == "read in place: nothing is loaded"
    assert told["dagster/table_name"] == f"{LAKE}.{dataset}.t"
    assert not {"dagster/row_count", "rows loaded", "jobs", "loaded"} & told.keys()
    columns = {one.name: one.type for one in told["dagster/column_schema"].columns}
    assert (columns["id"], columns["salary"]) == ("INTEGER", "BIGNUMERIC")
    assert columns["_mirror_original"] == "ARRAY<RECORD>"


@pytest.mark.full
def test_commands_over_a_lake_in_googles_catalog(
    tmp_path: Path,
    cloud: GoogleCloud,
    shim: Shim,
    dataset: str,
    database: str,
    server: EmbeddedServer,
    sql: Callable[..., Any],
    place: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The catalog on the tests' REST server, with Google's tokens; files in an emulator's bucket."""
    bucket, four_part = "company-lake", f"a-project.company-lake.{dataset}.t"
    shim.stand_ins[four_part] = f"{PROJECT}.{dataset}.stand_in"
    cloud.client().query_and_wait(
        f"CREATE TABLE `{PROJECT}.{dataset}.stand_in` AS SELECT 1 AS id, 'ann@x.example' AS mail"
    )
    sql("CREATE TABLE t (id INT PRIMARY KEY, mail VARCHAR(40))")
    sql("INSERT INTO t VALUES (1, 'ann@x.example')")
    with (
        running_tokens(tmp_path) as tokens,
        emulator_process(bucket) as host,
        running_catalog(
            tmp_path, f"gs://{bucket}", **{"gcs.service.host": host, "py-io-impl": IMPLEMENTATION}
        ) as catalog,
    ):
        catalog.accepts = tokens.accepts
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tokens.file))
        google = {"uri": catalog.uri, "auth": "google", "project": "a-project"}
        lake = {
            "warehouse": f"gs://{bucket}",
            "catalog": google | {"properties": {"gcs.service.host": host}},
        }
        table = {**FULL, "clean": "table", "bigquery": {"load": "none"}}
        path = write_contract(
            tmp_path / "mirrorlake.yaml",
            server.port,
            {database: {"tables": {"t": {**table, "columns": {"mail": {"pii": "mask"}}}}}},
            lake=lake,
            bigquery=cloud.section(),
            defaults={"verify": False, "publish": ["lake", "bigquery"]},
        )

        def run(*words: str) -> str:
            command = [*COMMAND, *words, "--config", str(path)]
            ran = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
            assert ran.returncode == 0, ran.stdout + ran.stderr
            return ran.stdout

        assert "read in place: nothing is loaded" in run("sync")
        assert shown(cloud, dataset)[0]["mail"] == "********le"
        assert "equal" in run("bigquery", "check")
        assert "unchanged" in run("bigquery", "publish", "--json")
        assert catalog.headers[0]["query"] == f"warehouse=gs://{bucket}"
        assert cloud.objects() == []
