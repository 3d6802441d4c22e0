"""DeclaredPermissions from a file, by Google's own client: on the emulator, and on a server that does what
Google documents and the emulator does not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from google.cloud import bigquery
from hypothesis import HealthCheck, given, settings

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import BigQueryError, ConfigError, MirrorlakeError
from mirrorlake.failpoints import OF_ACCESS
from mirrorlake.ledger import Ledger
from mirrorlake.permissions.access_changes import TriedAccess
from mirrorlake.permissions.access_entries import entry_of, grant_of
from mirrorlake.permissions.access_requests import AccessRequests
from mirrorlake.permissions.compare import (
    OpenPermissions,
    apply_permissions,
    plan_permissions,
)
from mirrorlake.permissions.declared_datasets import DatasetPermissions
from mirrorlake.permissions.grants import AUTHORISED, OWNER, Grant
from mirrorlake.permissions.ledger import AccessChanges
from mirrorlake.permissions.permissions_file import DeclaredPermissions, load_permissions
from mirrorlake.runtime.google import clients
from tests.integration.contract_files import write_contract
from tests.support.bigquery.access_server import Datasets
from tests.support.bigquery.emulator import BUCKET, PROJECT, GoogleCloud
from tests.support.bigquery.grants import RUNNER, owned

TABLES = {"db": {"tables": {"t": {"mode": "full", "key": ["id"], "publish": ["lake", "bigquery"]}}}}
FILE = """datasets:
  {0}:
    principals:
      group:platform@example.com: owner
      serviceAccount:runner@p.iam.gserviceaccount.com: [owner]
      group:analysts@example.com: reader
"""
DECLARED = {
    ("group:platform@example.com", "owner"),
    (RUNNER, "owner"),
    ("group:analysts@example.com", "reader"),
}
PLATFORM = {"role": "OWNER", "groupByEmail": "platform@example.com"}
MINE = {"role": "OWNER", "userByEmail": RUNNER.partition(":")[2]}
STRANGER = {"role": "READER", "userByEmail": "stranger@example.com"}


def contract(folder: Path) -> Path:
    return write_contract(
        folder / "mirrorlake.yaml", 1, TABLES, bigquery={"project": PROJECT, "bucket": BUCKET}
    )


def said(path: Path, *words: str, code: int = 0) -> str:
    found = CliRunner().invoke(cli, ["permissions", *words, "--config", str(path)])
    ended = found.exception.exit_code if isinstance(found.exception, MirrorlakeError) else None
    assert (found.exit_code if ended is None else ended) == code, found.output
    return found.stdout or str(found.exception)


def test_plan_apply_verify_on_the_emulator(cloud: GoogleCloud, tmp_path: Path) -> None:
    for name in ("s_db", "s_db__views_clean", "other"):
        cloud.client().create_dataset(name)
    path = contract(tmp_path)
    file = tmp_path / "permissions.yaml"
    file.write_text(
        FILE.format("s_db") + FILE.format("s_db__views_clean").partition("\n")[2], "utf-8"
    )
    views = Grant("dataset:local.s_db__views_clean", AUTHORISED)
    planned, _ = json.loads(said(path, "plan", "--json"))
    assert {(one["principal"], one["role"]) for one in planned["adds"]} == {
        *DECLARED,
        (views.principal, views.role),
    }
    removed = [one["principal"] for one in planned["removes"]]
    assert removed == ["special:projectOwners", "special:projectReaders", "special:projectWriters"]
    assert "- special:projectOwners owner" in said(path, "verify", code=9)
    assert len(cloud.client().get_dataset("s_db").access_entries) == 3
    assert "+ group:analysts@example.com reader" in said(path, "apply")
    entries = [entry.to_api_repr() for entry in cloud.client().get_dataset("s_db").access_entries]
    grants = {grant_of(entry) for entry in entries}
    assert grants == load_permissions(file, PROJECT).datasets[0].grants | {views}
    for word in ("plan", "apply", "verify"):
        assert "+" not in said(path, word)
    _, change = json.loads(said(path, "log", "--json"))
    assert (change["state"], change["resource"]) == ("applied", "local.s_db")
    assert change["runner"] == "user:local-bigquery@localhost"
    assert "- special:projectReaders reader" in said(path, "log")
    _grant_by_hand(cloud.client(), "s_db", STRANGER)
    assert "- user:stranger@example.com reader" in said(path, "verify", code=9)
    file.write_text(FILE.format("other"), "utf-8")
    said(path, "apply")
    (tmp_path / "models" / "ext").mkdir(parents=True)
    clicks = tmp_path / "models" / "ext" / "clicks.yaml"
    clicks.write_text("format: bigquery\ntable: streamed.clicks\ncolumns: {n: bigint}\n")
    undeclared = said(path, "verify", code=10)
    assert "s_db: Mirrorlake fills it, and nobody declares who may read it" in undeclared
    assert "streamed: somebody else (ext.clicks) fills it, and nobody declares" in undeclared
    clicks.write_text("format: bigquery\ntable: another.streamed.clicks\ncolumns: {n: bigint}\n")
    assert "streamed" not in said(path, "verify", code=10)
    # A dataset that nobody knows of is no dataset that is well.
    clicks.write_text("format: bigquery\ntable: a.b.c.d.e\n")
    assert "clicks.yaml:1:1: columns: is missing" in said(path, "verify", code=2)
    clicks.unlink()
    file.write_text(FILE.format("nowhere"), "utf-8")
    for word in ("plan", "apply", "verify"):
        assert "there is no dataset local.nowhere" in said(path, word, code=6)


def _grant_by_hand(client: bigquery.Client, name: str, entry: dict[str, Any]) -> None:
    dataset = client.get_dataset(name)
    dataset.access_entries = [
        *dataset.access_entries,
        bigquery.AccessEntry.from_api_repr(entry),
    ]
    client.update_dataset(dataset, ["access_entries"])


def test_the_emulator_refuses_a_change_of_what_moved(cloud: GoogleCloud, tmp_path: Path) -> None:
    cloud.client().create_dataset("s_moved")
    warehouse = _opened(contract(tmp_path))
    read = warehouse.access("s_moved")
    assert read is not None
    _grant_by_hand(cloud.client(), "s_moved", STRANGER)
    assert not warehouse.write_access(read, [Grant("group:p@example.com", OWNER)])
    assert len(cloud.client().get_dataset("s_moved").access_entries) == 4


def _opened(path: Path) -> AccessRequests:
    config = load_config(path, secrets="when used").written_section(BigQueryConfig)
    assert config is not None
    return AccessRequests.open(config)


@pytest.fixture
def there(access: Datasets) -> Datasets:
    """One dataset, which the platform and the account of these tests own."""
    access.put("d", [PLATFORM, MINE])
    return access


@pytest.fixture
def client(there: Datasets, tmp_path: Path) -> AccessRequests:
    return _opened(contract(tmp_path))


def declared(client: AccessRequests, text: str, folder: Path) -> OpenPermissions:
    path = folder / "permissions.yaml"
    path.write_text(text, "utf-8")
    return of(client, load_permissions(path, PROJECT), folder)


def of(client: AccessRequests, permissions: DeclaredPermissions, folder: Path) -> OpenPermissions:
    config = load_config(folder / "mirrorlake.yaml", secrets="when used")
    return OpenPermissions(config, permissions, client, None)


@pytest.fixture
def applied(
    client: AccessRequests, ledger: Ledger, tmp_path: Path
) -> Callable[..., list[TriedAccess]]:
    def apply(text: str = FILE.format("d")) -> list[TriedAccess]:
        return apply_permissions(declared(client, text, tmp_path), ledger)

    return apply


def now(there: Datasets, dataset: str = "d") -> set[Grant]:
    return {grant_of(entry) for entry in there.access[dataset]}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(owned, owned)
def test_any_state_becomes_any_other_by_one_request(
    there: Datasets,
    client: AccessRequests,
    ledger: Ledger,
    tmp_path: Path,
    first: frozenset[Grant],
    second: frozenset[Grant],
) -> None:
    mine = {grant for grant in first if grant.principal == RUNNER}
    there.put("d", [entry_of(grant) for grant in first])
    there.patches.clear()
    wanted = DatasetPermissions("d", second | mine, "f:1:1")
    for changes in (len({first, wanted.grants}) - 1, 0):
        [tried] = apply_permissions(of(client, DeclaredPermissions((wanted,)), tmp_path), ledger)
        assert tried.error is None
        assert now(there) == wanted.grants
        assert len(there.patches) == changes
        there.patches.clear()


def test_a_change_at_the_same_time_is_planned_again(
    there: Datasets, applied: Callable[..., list[TriedAccess]], ledger: Ledger
) -> None:
    def meddle(dataset: str) -> None:
        there.before_patch = lambda dataset: None
        there.put(dataset, [*there.access[dataset], STRANGER])

    there.before_patch = meddle
    [tried] = applied()
    assert tried.done is not None
    assert [one["principal"] for one in tried.done.removes] == ["user:stranger@example.com"]
    assert Grant("user:stranger@example.com", "reader") not in now(there)
    states = [(one.state, len(one.removes)) for one in AccessChanges(ledger).newest_first()]
    assert states == [("applied", 1), ("refused", 0)]


def test_a_dataset_that_is_always_changed_is_an_error(
    there: Datasets, applied: Callable[..., list[TriedAccess]], ledger: Ledger
) -> None:
    there.before_patch = lambda dataset: there.put(dataset, [*there.access[dataset], STRANGER])
    [tried] = applied()
    assert isinstance(tried.error, BigQueryError)
    assert tried.error.retryable
    assert "is not as declared after 3 changes" in str(tried.error)
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["refused"] * 3


def test_an_answer_that_was_lost_is_found_by_the_next_run(
    there: Datasets,
    applied: Callable[..., list[TriedAccess]],
    ledger: Ledger,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "PATIENCE", 0.0)
    there.lost = 1
    [tried] = applied()
    assert tried.error is not None
    assert "whether it was changed is not known" in str(tried.error)
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["pending"]
    [tried] = applied()
    assert tried.done is not None
    assert not tried.done.moves
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["applied"]


@pytest.mark.full
def test_a_request_that_is_sent_again_is_no_change_of_somebody_else(
    there: Datasets, applied: Callable[..., list[TriedAccess]], ledger: Ledger
) -> None:
    """Its first answer was lost; the second says that the etag is an old one."""
    there.lost = 1
    [tried] = applied()
    assert len(there.patches) == 2
    assert tried.done is not None
    assert [one["principal"] for one in tried.done.adds] == ["group:analysts@example.com"]
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["applied"]


@pytest.mark.parametrize("name", OF_ACCESS)
def test_a_run_that_dies_leaves_a_record_that_the_next_one_ends(
    name: str, there: Datasets, applied: Callable[..., list[TriedAccess]], ledger: Ledger
) -> None:
    pid = os.fork()
    if pid == 0:
        os.environ["MIRRORLAKE_FAILPOINT"] = name
        try:
            applied()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    [change] = AccessChanges(ledger).newest_first()
    assert change.state == "pending"
    applied()
    assert {(one.principal, one.role) for one in now(there)} == DECLARED
    states = [one.state for one in AccessChanges(ledger).newest_first()]
    assert states == (["applied", "unknown"] if name == "access.begun" else ["applied"])


def test_a_principal_that_google_does_not_know_changes_nothing(
    there: Datasets, applied: Callable[..., list[TriedAccess]], ledger: Ledger
) -> None:
    there.unknown = {"analysts@example.com"}
    there.put("e", [PLATFORM, MINE, STRANGER])
    text = FILE.format("d") + "  e: {principals: {group:platform@example.com: owner, "
    first, second = applied(text + "serviceAccount:runner@p.iam.gserviceaccount.com: owner}}\n")
    assert "IAM setPolicy failed for Dataset d: no such principal" in str(first.error)
    assert second.done is not None
    assert len(now(there)) == 2
    assert now(there, "e") == now(there)
    assert [one.state for one in AccessChanges(ledger).newest_first("local.d")] == ["refused"]


def test_whoever_applies_it_is_not_locked_out(
    there: Datasets,
    client: AccessRequests,
    applied: Callable[..., list[TriedAccess]],
    tmp_path: Path,
) -> None:
    there.put("a", [PLATFORM, STRANGER])
    head = (
        "datasets:\n  a: {principals: {group:platform@example.com: owner}}\n  d:\n    principals:"
    )
    for mine in ("", "\n      serviceAccount:Runner@p.iam.gserviceaccount.com: writer"):
        text = f"{head}\n      group:platform@example.com: owner{mine}\n"
        words = rf"permissions.yaml:3:3: datasets.d: applying this would take owner from {RUNNER}"
        with pytest.raises(ConfigError, match=words):
            applied(text)
        with pytest.raises(ConfigError, match=words):
            plan_permissions(declared(client, text, tmp_path))
    assert there.patches == []
    more = "roles/bigquery.admin"
    applied(f"{head} {{group:platform@example.com: owner, {RUNNER}: {more}}}\n")
    assert now(there) == {Grant("group:platform@example.com", OWNER), Grant(RUNNER, more)}


def test_what_is_not_shown_is_not_taken_for_nobody(
    there: Datasets, applied: Callable[..., list[TriedAccess]]
) -> None:
    there.hidden = True
    with pytest.raises(BigQueryError, match=r"does not show who has access to it\. Give"):
        applied()
    there.hidden = False
    there.put("d", [PLATFORM, {**STRANGER, "condition": {"expression": "true"}}])
    with pytest.raises(BigQueryError, match=r"dataset local\.d: it has an entry with a condition"):
        applied()
    assert there.patches == []
