"""Tables that BigQuery reads in the lake. The emulator has no table of four-part name: a stand-in
with the lake's rows is read in its place, by a server before it that puts one name for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from pyiceberg.types import UUIDType

from mirrorlake.cli.bigquery import print_published
from mirrorlake.config.settings import CatalogConfig
from mirrorlake.errors import BigQueryError, TypeRefused
from mirrorlake.operations.bigquery.check import estimate_check
from mirrorlake.operations.bigquery.due import find_unpublished
from mirrorlake.operations.status import status_of
from mirrorlake.operations.sync import sync_table
from mirrorlake.workspace import Workspace
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
