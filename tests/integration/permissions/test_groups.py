"""Members of Google groups from a file, on a server that does what Google documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings

from mirrorlake.cli.main import cli
from mirrorlake.errors import BigQueryError, ConfigError, MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.permissions.access_changes import TriedAccess
from mirrorlake.permissions.declared_groups import GroupPermissions
from mirrorlake.permissions.group_directory import EMULATOR, GroupDirectory, open_groups
from mirrorlake.permissions.group_members import apply_groups, plan_groups, verify_groups
from mirrorlake.permissions.ledger import AccessChanges
from mirrorlake.runtime.google import clients
from tests.integration.contract_files import write_contract
from tests.support.bigquery.access_server import datasets_server
from tests.support.bigquery.emulator import BUCKET, PROJECT
from tests.support.bigquery.grants import RUNNER
from tests.support.bigquery.groups_server import Groups, groups_server
from tests.support.bigquery.members import directories, grants

A, B = "a@example.com", "b@example.com"
OWNED = {RUNNER: "owner"}
ANN, BOB = "user:ann@example.com", "user:bob@example.com"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> Iterator[Groups]:
    """A server with two groups, which whoever runs this owns."""
    monkeypatch.setattr(clients, "JOB_PATIENCE", 5.0)
    with groups_server() as found:
        monkeypatch.setenv(EMULATOR, found.url)
        found.put(A, OWNED)
        found.put(B, OWNED)
        yield found


@pytest.fixture
def directory(there: Groups) -> GroupDirectory:
    return open_groups(PROJECT)


def declared(groups: dict[str, dict[str, str]]) -> list[GroupPermissions]:
    return [GroupPermissions(one, grants(members), "f:1:1") for one, members in groups.items()]


def applied(
    directory: GroupDirectory, ledger: Ledger, groups: dict[str, dict[str, str]]
) -> list[TriedAccess]:
    return apply_groups(directory, ledger, RUNNER, plan_groups(directory, RUNNER, declared(groups)))


@pytest.mark.full
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(directories(), directories())
def test_any_state_becomes_any_other_in_one_pass(
    there: Groups,
    directory: GroupDirectory,
    ledger: Ledger,
    first: dict[str, dict[str, str]],
    second: dict[str, dict[str, str]],
) -> None:
    """Groups in one another change places, too; whoever applies it stays what it was."""
    for group in first:
        there.members.pop(group, None)
        there.put(group, first[group])
        if RUNNER in first[group]:
            second[group][RUNNER] = "owner"
    for _ in range(2):
        tried = applied(directory, ledger, second)
        assert [one.error for one in tried] == [None] * 3
        assert {group: there.now(group) for group in second} == second
        assert not [
            one
            for one in there.changes
            if one.startswith("DELETE") and RUNNER.partition(":")[2] in one
        ]
        states = {one.verdict for one in verify_groups(directory, declared(second))}
        assert states == {"as declared"}
    there.changes.clear()
    applied(directory, ledger, second)
    assert there.changes == []


def test_two_groups_change_places(there: Groups, directory: GroupDirectory, ledger: Ledger) -> None:
    """Neither may be in the other for a moment, whichever of them is written first."""
    for outer, other in ((A, B), (B, A)):
        there.put(outer, OWNED)
        there.put(other, OWNED | {f"group:{outer}": "member"})
        tried = applied(
            directory, ledger, {other: OWNED, outer: OWNED | {f"group:{other}": "member"}}
        )
        tried += applied(
            directory, ledger, {outer: OWNED, other: OWNED | {f"group:{outer}": "member"}}
        )
        assert [one.error for one in tried] == [None] * 4
        assert there.now(other) == OWNED | {f"group:{outer}": "member"}


def test_a_member_that_comes_goes_or_rises_is_one_request_each(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    there.put(A, {**OWNED, ANN: "member", BOB: "manager"})
    there.put_one(A, "user:cy@example.com", {"MEMBER", "MANAGER", "OWNER"})
    cy = {"user:cy@example.com": "member"}
    wanted = {**OWNED, ANN: "manager", f"group:{B}": "member", **cy}
    [tried] = applied(directory, ledger, {A: wanted})
    assert there.now(A) == wanted
    assert len(there.changes) == 4
    assert tried.done is not None
    removed = [f"{one['principal']} {one['role']}" for one in tried.done.removes]
    assert removed == [f"{ANN} member", f"{BOB} manager", "user:cy@example.com owner"]
    log = [(one.resource, one.state, len(one.adds)) for one in AccessChanges(ledger).newest_first()]
    assert sorted(log) == [(f"group:{A}", "applied", n) for n in (0, 1, 1, 1)]


def test_whoever_applies_it_is_not_locked_out_of_a_group(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    for mine in ({}, {RUNNER: "manager"}):
        words = f"f:1:1: groups.{A}: applying this would take owner from {RUNNER}"
        with pytest.raises(ConfigError, match=words):
            applied(directory, ledger, {B: {ANN: "owner", **OWNED}, A: {ANN: "owner", **mine}})
    assert there.changes == []


def test_owners_of_a_group_for_which_the_file_names_none_stay_and_are_said(
    there: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_contract(
        tmp_path / "mirrorlake.yaml", 1, {}, bigquery={"project": PROJECT, "bucket": BUCKET}
    )
    three = {ANN: "member", BOB: "member", "user:cy@example.com": "manager"}
    (tmp_path / "permissions.yaml").write_text(json.dumps({"groups": {A: three}}))
    there.put(A, {**OWNED, "user:eve@example.com": "member"})
    with datasets_server() as datasets:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", datasets.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", datasets.url)
        stays = f"  = {RUNNER} owner (the file names no owner)"
        for command, code in (("plan", 0), ("verify", 9), ("apply", 0), ("verify", 0)):
            assert stays in said(path, command, code=code)
    assert there.now(A) == {**OWNED, **three}
    assert len(there.changes) == 4, "eve goes, and nobody else"


def test_the_last_owner_of_a_group_is_not_made_a_member(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    there.put(A, {ANN: "owner"})
    with pytest.raises(ConfigError, match="applying this would remove its last owner"):
        applied(directory, ledger, {A: {ANN: "member", BOB: "member"}})
    assert there.changes == []


def test_one_that_fails_holds_up_no_other(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    there.unknown = {"ann@example.com"}
    there.put("outer@example.com", OWNED | {f"group:{B}": "member"})
    first, second = applied(
        directory,
        ledger,
        {
            B: {**OWNED, "group:outer@example.com": "member"},
            A: {**OWNED, ANN: "member", BOB: "member"},
        },
    )
    assert first.error is not None
    assert "Cyclic memberships are not allowed" in str(first.error)
    assert second.error is not None
    assert "Member not found" in str(second.error)
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["refused", "refused"]
    [tried] = applied(directory, ledger, {A: {**OWNED, BOB: "member"}})
    assert tried.error is None


def test_a_group_that_is_not_shown_is_an_error_and_not_empty(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    words = "group nobody@example.com: there is none, or this account may not manage its members"
    with pytest.raises(BigQueryError, match=words):
        applied(directory, ledger, {A: {ANN: "owner", **OWNED}, "nobody@example.com": OWNED})
    assert there.changes == []


def test_an_answer_that_was_lost_is_found_by_the_next_run(
    there: Groups, directory: GroupDirectory, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "PATIENCE", 0.0)
    there.lost = 1
    wanted = {A: {**OWNED, ANN: "member"}}
    [tried] = applied(directory, ledger, wanted)
    assert f"whether {ANN} was changed is not known" in str(tried.error)
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["pending"]
    [tried] = applied(directory, ledger, wanted)
    assert tried.done is not None
    assert not tried.done.moves
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["applied"]


def test_a_change_that_google_shows_hours_later_is_no_success(
    there: Groups, directory: GroupDirectory, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "JOB_PATIENCE", 0.0)
    plans = plan_groups(directory, RUNNER, declared({A: {**OWNED, ANN: "member"}}))
    there.late, there.before = 2, json.loads(json.dumps(there.members))
    [tried] = apply_groups(directory, ledger, RUNNER, plans)
    assert f"does not show yet what was requested: {ANN} member is missing" in str(tried.error)
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["applied"]
    # The next run may not see it either: what is there already is no error.
    there.late = 2
    applied(directory, ledger, {A: {**OWNED, ANN: "member"}})
    assert there.now(A) == {**OWNED, ANN: "member"}


@pytest.mark.full
def test_a_quota_of_seconds_and_a_late_answer_are_waited_for(
    there: Groups, directory: GroupDirectory, ledger: Ledger
) -> None:
    there.limited = 2
    plans = plan_groups(directory, RUNNER, declared({A: {**OWNED, ANN: "member"}}))
    there.late, there.lost = 2, 1
    [tried] = apply_groups(directory, ledger, RUNNER, plans)
    assert tried.error is None
    assert [one.state for one in AccessChanges(ledger).newest_first()] == ["unknown"]


def test_groups_are_planned_applied_and_verified_beside_datasets(
    there: Groups, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_contract(
        tmp_path / "mirrorlake.yaml", 1, {}, bigquery={"project": PROJECT, "bucket": BUCKET}
    )
    text = f"groups: {{{A}: {{{RUNNER}: owner, {ANN}: member}}}}"
    (tmp_path / "permissions.yaml").write_text(text)
    with datasets_server() as datasets:
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", datasets.url)
        monkeypatch.setenv("STORAGE_EMULATOR_HOST", datasets.url)
        assert f"group:{A}\n  + {ANN} member" in said(path, "plan")
        assert f"  + {ANN} member" in said(path, "verify", code=9)
        assert f"  + {ANN} member" in said(path, "apply")
        assert f"group:{A}: as declared" in said(path, "verify")
        assert f"group:{A}\n  + {ANN} member" in said(path, "log")
        there.put_one(A, "user:eve@example.com", {"MEMBER"})
        assert "- user:eve@example.com member" in said(path, "verify", code=9)


def said(path: Path, *words: str, code: int = 0) -> str:
    found = CliRunner().invoke(cli, ["permissions", *words, "--config", str(path)])
    ended = found.exception.exit_code if isinstance(found.exception, MirrorlakeError) else None
    assert (found.exit_code if ended is None else ended) == code, found.output
    return found.stdout
