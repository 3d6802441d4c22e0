"""Cuts in BigQuery: tables that stay as of one moment of MySQL's, and go when the cut goes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.ledger import Publications
from mirrorlake.bigquery.named_versions import VersionsThere
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.cuts import make
from mirrorlake.cuts.drop import drop_cut
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, MadeCut, make_cut
from mirrorlake.cuts.published import drop_gone, publish_cut
from mirrorlake.errors import BigQueryError
from mirrorlake.failpoints import OF_BIGQUERY, OF_NAMED_VERSIONS
from mirrorlake.ledger import Ledger
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.operations.publishers import PublishedVersions
from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import checked, published
from tests.integration.conftest import Place, share_session
from tests.support.bigquery.cloud import Cloud

Sql = Callable[..., Any]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
BANK = ("current", "savings")
EMAIL = "ann@example.org"


def said(_: str) -> None: ...


@pytest.fixture
def bank_for(sql: Sql, mirror: Callable[..., Workspace]) -> Iterator[Callable[..., Workspace]]:
    """Two tables whose sums add up to 2,000, with the e-mail of each account's owner, in a source
    whose cuts are to be in BigQuery."""
    for name in BANK:
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, amount INT NOT NULL, email VARCHAR(40))",
            f"INSERT INTO {name} SELECT seq, 100, '{EMAIL}' FROM seq_1_to_10",
        )

    ledgers = list[Ledger]()

    def make(columns: dict[str, Any], **settings: Any) -> Workspace:
        workspace = mirror({name: LOG | {"columns": columns} | settings for name in BANK})
        path = workspace.config.path
        path.write_text(path.read_text() + "\ncuts: {sources: {s: {publish: true}}}\n")
        mine = {contract.name for contract in workspace.config.tables}
        for cut in Cuts(workspace.ledger).all("s"):  # of other tests
            if not mine & {*cut.names}:
                Cuts(workspace.ledger).forget(cut.name)
        ledgers.append(workspace.ledger)
        return replace(workspace, config=load_config(path))

    yield make
    # The ledger is many tests', most of which have no BigQuery to take tables away from.
    for ledger in ledgers:
        for one in VersionsThere(ledger).all():
            VersionsThere(ledger).forget(one)


@pytest.fixture
def bank(bank_for: Callable[..., Workspace]) -> Workspace:
    return bank_for({"email": {"pii": "mask"}})


def cut_of(workspace: Workspace, **terms: Any) -> MadeCut:
    return make_cut(workspace, "s", CutTerms(**terms), said)


def loaded(workspace: Workspace) -> None:
    """A sync, and a load of all tables into BigQuery."""
    for one in sync_tables(workspace, workspace.config.tables):
        assert one.error is None, one.error
    for name in BANK:
        assert published(workspace, name).state in ("success", "unchanged")


def transfer(sql: Sql) -> None:
    sql(
        "UPDATE current SET amount = amount - 1 WHERE id <= 3",
        "UPDATE savings SET amount = amount + 1 WHERE id <= 3",
    )


def sums(cloud: Cloud, dataset: str, suffix: str = "") -> list[int]:
    """What readers see of the two tables."""
    client = cloud.client()
    names = [f"{dataset}__views_clean.{name}{suffix}" for name in BANK]
    queries = [f"SELECT SUM(amount) AS found FROM `{name}`" for name in names]
    return [row["found"] for query in queries for row in client.query_and_wait(query)]


def names_there(cloud: Cloud, dataset: str) -> set[str]:
    """Tables and views that have the name of a cut."""
    spaces = (dataset, f"{dataset}__views_clean", f"{dataset}__views_full")
    found = [str(one.table_id) for space in spaces for one in cloud.client().list_tables(space)]
    return {name for name in found if "__at_" in name or "__stage_" in name}


def command(place: Place, monkeypatch: pytest.MonkeyPatch, *words: str, of: Workspace) -> Result:
    share_session(place, monkeypatch)
    return CliRunner().invoke(cli, [*words, "--config", str(of.config.path)])


def test_tables_stay_as_of_the_cut_and_go_with_it(
    bank: Workspace, sql: Sql, cloud: Cloud, dataset: str, place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    loaded(bank)
    transfer(sql)
    made = command(place, monkeypatch, "cut", "s", "--name", "one", "--json", of=bank)
    assert made.exit_code == 0, made.exception or made.output
    view = f"{dataset}__views_clean.current__at_one"
    (reads,) = (
        text
        for table, text in json.loads(made.stdout)["published"]["there"].items()
        if table.endswith(".current")
    )
    assert reads.endswith(f".{view}`")
    # The table was brought to the cut's version by what changed, and no row was loaded for the cut.
    database = bank.config.tables[0].database
    loads = [one for name, one in Publications(bank.ledger).newest().items() if database in name]
    assert [one.staged for one in loads] == [3, 3]
    with pytest.raises(Exception, match=r"(?i)snapshot"):
        cloud.client().query_and_wait(f"DELETE FROM `{dataset}.current__at_one` WHERE TRUE")
    for _ in range(2):
        assert sums(cloud, dataset, "__at_one") == [997, 1003]
        transfer(sql)
        loaded(bank)
    assert sums(cloud, dataset) == [991, 1009]
    rows = [dict(row.items()) for row in cloud.client().query_and_wait(reads)]
    assert (len(rows), EMAIL in repr(rows), rows[0]["email"][:4]) == (10, False, "****")
    shown = command(place, monkeypatch, "at", "one", "--json", of=bank)
    assert reads in [one["read"].get("BigQuery") for one in json.loads(shown.stdout)["tables"]]
    # A second one beside it; each goes with its cut.
    second = cut_of(bank, name="two", keep=timedelta(0))
    assert second.published.missing == {}
    assert len(names_there(cloud, dataset)) == 4
    dropped = command(place, monkeypatch, "cuts", "--drop", "one", of=bank)
    assert dropped.exit_code == 0, dropped.exception or dropped.output
    assert names_there(cloud, dataset) == {"current__at_two", "savings__at_two"}
    cut_of(bank, name="three")
    assert names_there(cloud, dataset) == {"current__at_three", "savings__at_three"}
    assert checked(bank, "current").verdict == "equal"


@pytest.mark.full
def test_what_a_dead_run_left_is_finished_out_of_the_lake(
    bank: Workspace, sql: Sql, cloud: Cloud, dataset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BigQuery's tables have moved on by then: the cut's rows are loaded, and nothing else."""
    transfer(sql)
    with monkeypatch.context() as patch:
        patch.setattr(make, "publish_cut", lambda *_: PublishedVersions())
        first = cut_of(bank, name="first")
    assert {one.state for one in VersionsThere(bank.ledger).of("first")} == {"pending"}
    for _ in range(2):
        transfer(sql)
        loaded(bank)
    assert names_there(cloud, dataset) == set()
    second = cut_of(bank, name="second")
    assert second.published.missing == {}
    assert sums(cloud, dataset, "__at_first") == [997, 1003]
    assert sums(cloud, dataset, "__at_second") == sums(cloud, dataset) == [991, 1009]
    assert {"__stage_" in name for name in names_there(cloud, dataset)} == {False}
    assert cloud.objects() == []
    drop_cut(bank, first.cut)
    assert drop_gone(bank) == {}
    assert names_there(cloud, dataset) == {"current__at_second", "savings__at_second"}


@pytest.mark.full
def test_a_bigquery_that_fails_fails_no_cut(
    bank: Workspace, sql: Sql, cloud: Cloud, dataset: str, place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    loaded(bank)

    def fail(*_: Any) -> None:
        raise BigQueryError("Google said no")

    with monkeypatch.context() as patch:
        patch.setattr(BigQuery, "run", fail)
        made = command(place, patch, "cut", "s", "--name", "first", of=bank)
    assert (made.exit_code, made.output.count("not published: ")) == (10, 2), made.output
    assert "Google said no" in made.output
    assert [cut.name for cut in Cuts(bank.ledger).all("s")] == ["first"]
    read = command(place, monkeypatch, "at", "first", of=bank)
    assert "BigQuery   it is not there yet" in read.output
    transfer(sql)
    assert cut_of(bank, name="second").published.missing == {}
    assert sums(cloud, dataset, "__at_first") == [1000, 1000]
    assert sums(cloud, dataset, "__at_second") == [997, 1003]
    # Nor does it keep a cut from being dropped; what is left there goes later.
    (first, _) = Cuts(bank.ledger).all("s")
    with monkeypatch.context() as patch:
        patch.setattr(BigQuery, "drop", fail)
        gone = command(place, patch, "cuts", "--drop", "first", of=bank)
        assert (gone.exit_code, "Google said no" in gone.output) == (10, True), gone.output
        assert [cut.name for cut in Cuts(bank.ledger).all("s")] == ["second"]
        # A cut of that name, made again, shows nothing of the older one.
        again = cut_of(bank, name=first.name)
        assert len(again.published.missing) == 2
    assert sums(cloud, dataset, "__at_first") == [1000, 1000]
    cut_of(bank, name="third")
    assert sums(cloud, dataset, "__at_first") == [997, 1003]


def without_ledger(
    workspace: Workspace, place: Place, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """The same contract with a ledger that was made again from the lake alone."""
    path, folder = workspace.config.path, place.folder
    text = path.read_text()
    assert text.count("sqlite:///ledger.db") == 1
    path.write_text(text.replace("sqlite:///ledger.db", f"sqlite:///{path.stem}-again.db"))
    assert not folder.joinpath(f"{path.stem}-again.db").exists()
    rebuilt = command(place, monkeypatch, "ledger", "rebuild", of=workspace)
    assert rebuilt.exit_code == 0, rebuilt.exception or rebuilt.output
    return Workspace.open(load_config(path), spark=place.spark)


@pytest.mark.full
def test_a_ledger_that_was_lost_finds_tables_of_cuts_again(
    bank: Workspace, sql: Sql, cloud: Cloud, dataset: str, place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """By what they say of themselves: none is made again, all go with their cuts, and what says
    nothing stays."""
    loaded(bank)
    transfer(sql)
    with monkeypatch.context() as patch:
        patch.setattr(make, "publish_cut", lambda *_: PublishedVersions())
        cut_of(bank, name="loaded")
    transfer(sql)
    loaded(bank)
    for name in ("one", "two"):
        assert cut_of(bank, name=name).published.missing == {}
    tables = [f"{dataset}.{name}__at_{cut}" for name in BANK for cut in ("loaded", "one", "two")]

    def made() -> list[Any]:
        return [cloud.client().get_table(name).created for name in tables]

    before = dict(zip(tables, made(), strict=True))
    theirs = cloud.client().get_table(f"{dataset}.savings__at_two")
    theirs.description = None
    cloud.client().update_table(theirs, ["description"])
    lost = without_ledger(bank, place, monkeypatch)
    read = command(place, monkeypatch, "at", "one", of=lost)
    assert "BigQuery   it is not there yet" in read.output
    # Dropped before anybody looked for them.
    transfer(sql)
    assert sums(cloud, dataset, "__at_loaded") == [997, 1003]
    assert sums(cloud, dataset, "__at_one") == [994, 1006]
    dropped = command(place, monkeypatch, "cuts", "--drop", "loaded", of=lost)
    assert dropped.exit_code == 0, dropped.exception or dropped.output
    assert not any("__at_loaded" in name for name in names_there(cloud, dataset))
    found = cut_of(lost, name="three").published
    ((table, why),) = found.missing.items()
    assert (table.endswith("savings at two"), "Mirrorlake did not make it" in why) == (True, True)
    tables = [name for name in tables if "__at_loaded" not in name]
    assert made() == [before[name] for name in tables]
    assert {one.state for one in VersionsThere(lost.ledger).of("one")} == {"there"}
    assert sums(cloud, dataset, "__at_one") == [994, 1006]
    assert sums(cloud, dataset, "__at_three") == [991, 1009]
    for cut in Cuts(lost.ledger).all("s"):
        drop_cut(lost, cut)
    assert drop_gone(lost) == {}
    assert names_there(cloud, dataset) == {"savings__at_two"}


@pytest.mark.full
@pytest.mark.parametrize("rule", ["drop", "null", "hash"])
def test_a_rule_that_comes_holds_for_cuts_that_are_there(
    rule: str, bank_for: Callable[..., Workspace], cloud: Cloud, dataset: str
) -> None:
    shown = bank_for({"email": {"pii": "show"}})
    loaded(shown)
    assert cut_of(shown, name="one").published.missing == {}
    view = f"{dataset}__views_clean.current__at_one"
    rows = [dict(row.items()) for row in cloud.client().query_and_wait(f"SELECT * FROM `{view}`")]
    assert rows[0]["email"] == EMAIL
    ruled = bank_for({"email": {"pii": rule}}, clean="table" if rule == "hash" else "view")
    loaded(ruled)
    if rule == "null":
        query = f"SELECT * FROM `{view}`"
        rows = [dict(row.items()) for row in cloud.client().query_and_wait(query)]
        assert {row["email"] for row in rows} == {None}
    else:
        left = {"drop": set(), "hash": {"current__at_one", "savings__at_one"}}[rule]
        assert names_there(cloud, dataset) == left  # without hashes there is no view


@pytest.mark.full
def test_the_rule_is_there_before_the_table_is_loaded(
    bank_for: Callable[..., Workspace], sql: Sql, cloud: Cloud, dataset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    shown = bank_for({"email": {"pii": "show"}})
    loaded(shown)
    cut_of(shown, name="one")
    transfer(sql)
    ruled = bank_for({"email": {"pii": "mask"}})
    for one in sync_tables(ruled, ruled.config.tables):
        assert one.error is None
    written = BigQuery.write_view

    def fail(self: BigQuery, view: Any, text: str) -> None:
        if "__at_" not in str(view):
            raise BigQueryError("Google said no", retryable=True)
        written(self, view, text)

    monkeypatch.setattr(BigQuery, "write_view", fail)
    with pytest.raises(BigQueryError, match="Google said no"):
        published(ruled, "current")
    rows = cloud.client().list_rows
    assert next(iter(rows(f"{dataset}.current")))["email"] == EMAIL
    view = f"SELECT email FROM `{dataset}__views_clean.current__at_one`"
    assert EMAIL not in [row["email"] for row in cloud.client().query_and_wait(view)]


@pytest.mark.full
def test_a_column_that_was_renamed_since_is_not_shown(
    bank_for: Callable[..., Workspace], sql: Sql, cloud: Cloud, dataset: str
) -> None:
    shown = bank_for({"email": {"pii": "show"}})
    loaded(shown)
    cut_of(shown, name="one")
    sql(*(f"ALTER TABLE {name} CHANGE email mail VARCHAR(40)" for name in BANK))
    moved = bank_for({"mail": {"pii": "mask", "renamed_from": "email"}})
    loaded(moved)
    view = cloud.client().query_and_wait(f"SELECT * FROM `{dataset}__views_clean.current__at_one`")
    assert [*next(iter(view)).keys()] == ["id", "amount"]
    hidden = bank_for({"mail": {"pii": "drop", "renamed_from": "email"}})
    loaded(hidden)
    assert names_there(cloud, dataset) == set()


@pytest.mark.full
def test_a_table_of_somebody_elses_is_left_alone(
    bank: Workspace, cloud: Cloud, dataset: str
) -> None:
    client = cloud.client()
    client.query_and_wait(f"CREATE TABLE `{dataset}.current__at_one` AS SELECT 7 AS mine")
    made = cut_of(bank, name="one")
    ((table, why),) = made.published.missing.items()
    assert (table.endswith(".current"), "Mirrorlake did not make it" in why) == (True, True)
    drop_cut(bank, made.cut)
    assert drop_gone(bank) == {}
    assert names_there(cloud, dataset) == {"current__at_one"}


def killed(workspace: Workspace, cut: MadeCut, point: str) -> None:
    """Publish a cut in a process of its own that is killed at a failpoint."""
    pid = os.fork()
    if pid == 0:
        os.environ["MIRRORLAKE_FAILPOINT"] = point
        try:
            publish_cut(Workspace.open(load_config(workspace.config.path)), cut.cut)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


@pytest.mark.full
@pytest.mark.parametrize("moved_on", [False, True])
@pytest.mark.parametrize("point", [*OF_NAMED_VERSIONS, *OF_BIGQUERY])
def test_a_run_that_dies_is_finished_by_the_next_cut(
    point: str, moved_on: bool, bank: Workspace, sql: Sql, cloud: Cloud, dataset: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    loaded(bank)
    transfer(sql)
    with monkeypatch.context() as patch:
        patch.setattr(make, "publish_cut", lambda *_: PublishedVersions())
        first = cut_of(bank, name="first")
    if moved_on:
        transfer(sql)
        loaded(bank)
    killed(bank, first, point)
    transfer(sql)
    second = cut_of(bank, name="second")
    assert second.published.missing == {}
    assert sums(cloud, dataset, "__at_first") == [997, 1003]
    expected = [991, 1009] if moved_on else [994, 1006]
    assert sums(cloud, dataset, "__at_second") == sums(cloud, dataset) == expected
    assert not any("__stage_" in name for name in names_there(cloud, dataset))
    assert cloud.objects() == []
