"""Policies of rows and of columns from a file, on a server that does what Google documents."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirrorlake.config import load_config
from mirrorlake.config.table_rows import DeclaredRows, DeclaredValues, TableRows
from mirrorlake.destinations.bigquery.client import open_bigquery
from mirrorlake.destinations.bigquery.column_policies import identifier_of, policy_name
from mirrorlake.destinations.bigquery.names import BigQueryTable
from mirrorlake.destinations.bigquery.row_policies import RowPolicy
from mirrorlake.errors import BigQueryError, ConfigError
from mirrorlake.failpoints import OF_ACCESS
from mirrorlake.ledger import Ledger
from mirrorlake.operations.bigquery.access_changes import TriedAccess
from mirrorlake.operations.bigquery.permissions import (
    apply_permissions,
    open_declared,
    plan_permissions,
    verify_declared,
)
from mirrorlake.operations.bigquery.table_rows import TableAccess, open_tables
from tests.integration.contract_files import write_contract
from tests.integration.operations.bigquery.test_groups import said
from tests.support.bigquery.access_server import Datasets
from tests.support.bigquery.emulator import BUCKET, PROJECT
from tests.support.bigquery.grants import RUNNER
from tests.support.bigquery.policies import policies

OWNER = {"role": "OWNER", "groupByEmail": "platform@example.com"}
MINE = {"role": "OWNER", "userByEmail": RUNNER.partition(":")[2]}
FILE = """datasets:
  d:
    principals: {{group:platform@example.com: owner, {runner}: owner}}
    tables:
      t:
        rows:
          everything: {{to: [group:platform@example.com], where: "true"}}
          europe:
            to: [group:eu@example.com, {runner}]
            where: {where}
"""
COLUMNS = """datasets:
  d:
    principals: {group:platform@example.com: owner, %s: owner}
    tables:
      t:
        columns:
          region:
            values: [group:platform@example.com]
            masked: [group:analysts@example.com]
            mask: SHA256
"""
TABLE = BigQueryTable("local", "d", "t")
VALUES, MASKED = (policy_name(TABLE, "region", masked=masked) for masked in (False, True))
PEOPLE = ("group:a@x.de", "group:b@x.de", "serviceAccount:m@p.iam.gserviceaccount.com")

_people = st.frozensets(st.sampled_from(PEOPLE), min_size=1)
_column = st.builds(
    lambda values, masked, mask: DeclaredValues(
        values, masked - values, mask if masked - values else "", "f:1:1"
    ),
    _people,
    _people,
    st.sampled_from(("SHA256", "ALWAYS_NULL")),
)
columns = st.dictionaries(st.sampled_from(("region", "n")), _column)
ALL = ("TRUE", ["group:platform@example.com"])
EUROPE = ("region = 'EU'", ["group:eu@example.com", RUNNER])


def file(where: str = "region = 'EU'") -> str:
    return FILE.format(runner=RUNNER, where=where)


@pytest.fixture
def there(access: Datasets) -> Datasets:
    """One table in a dataset, which the account of these tests owns."""
    access.put("d", [OWNER, MINE])
    access.tables.put("d.t", {})
    return access


@pytest.fixture
def path(tmp_path: Path, there: Datasets) -> Path:
    full = {"mode": "full", "key": ["id"], "publish": ["lake", "bigquery"]}
    section = {"project": PROJECT, "bucket": BUCKET}
    tables = {"db": {"tables": {"u": full, "v": full}}}
    (tmp_path / "permissions.yaml").write_text(file())
    return write_contract(tmp_path / "mirrorlake.yaml", 1, tables, bigquery=section)


@pytest.fixture
def tables(path: Path) -> TableAccess:
    config = load_config(path, secrets="when used").bigquery
    assert config is not None
    return open_tables(open_bigquery(config))


@pytest.fixture
def applied(path: Path, ledger: Ledger) -> Callable[..., TriedAccess]:
    def apply(text: str | None = None) -> TriedAccess:
        declared = path.parent / "permissions.yaml"
        declared.write_text(text or file())
        config = load_config(path, secrets="when used")
        return apply_permissions(open_declared(config, declared), ledger)[0]

    return apply


@pytest.mark.full
@settings(
    max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(policies, policies)
def test_any_state_becomes_any_other_in_one_pass(
    there: Datasets,
    tables: TableAccess,
    ledger: Ledger,
    first: list[RowPolicy],
    second: list[RowPolicy],
) -> None:
    there.tables.put("d.t", {one.name: (one.where, sorted(one.to)) for one in first})
    declared = TableRows(
        "d", "t", {one.name: DeclaredRows(one.to, one.where, "f:1:1") for one in second}, "f:1:1"
    )
    tables.apply(ledger, RUNNER, declared)
    wanted = {one.name: (one.where, sorted(one.to)) for one in second}
    assert there.tables.policies["d.t"] == wanted
    there.tables.statements.clear()
    assert not tables.apply(ledger, RUNNER, declared).moves
    assert there.tables.statements == []


def test_policies_are_planned_applied_and_verified(there: Datasets, path: Path) -> None:
    shown = f"d.t\n  + group:eu@example.com rows of europe: {EUROPE[0]}\n"
    assert shown in said(path, "plan")
    assert shown in said(path, "verify", code=9)
    assert there.tables.policies["d.t"] == {}
    assert shown in said(path, "apply")
    assert there.tables.policies["d.t"] == {"everything": ALL, "europe": EUROPE}
    # Of a dataset that Mirrorlake fills nothing is declared.
    for word, code in (("plan", 0), ("apply", 0), ("verify", 10)):
        assert "+" not in said(path, word, code=code)
    log = said(path, "log")
    assert f"table:local.d.t\n  + group:eu@example.com rows of europe: {EUROPE[0]}" in log
    # As Google may write it, and one that nobody declared.
    there.tables.policies["d.t"]["europe"] = ("region='EU'", EUROPE[1])
    assert "d.t: as declared" in said(path, "verify", code=10)
    there.tables.policies["d.t"]["asia"] = ("region = 'AS'", [])
    assert "- nobody rows of asia: region = 'AS'" in said(path, "verify", code=9)
    there.tables.policies["d.t"]["europe"] = ("region != 'EU'", EUROPE[1])
    said(path, "apply")
    assert there.tables.policies["d.t"] == {"everything": ALL, "europe": EUROPE}


def test_a_table_that_declares_no_rows_has_no_policy(
    there: Datasets, applied: Callable[..., TriedAccess]
) -> None:
    there.tables.put("d.t", {"everything": ALL, "europe": EUROPE})
    applied(file().partition("        rows:")[0].replace("t:\n", "t: {}\n"))
    assert there.tables.statements == ["DROP ALL ROW ACCESS POLICIES ON `local.d.t`"]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("country = 'EU'", "names the column country, which the table does not have. The table"),
        ("j IS NULL", "names the column j, which is JSON there"),
        ("region = ", r"of policy europe of d.t can't be read as a condition at '='"),
    ],
)
def test_a_condition_that_cannot_be_is_named_with_its_place(
    where: str, words: str, there: Datasets, applied: Callable[..., TriedAccess]
) -> None:
    there.tables.fields["d.t"].append({"name": "j", "type": "JSON"})
    with pytest.raises(ConfigError, match=rf"permissions.yaml:8:11: the condition.*{words}"):
        applied(file(where))
    assert there.tables.statements == []


def test_a_view_has_no_policies(there: Datasets, applied: Callable[..., TriedAccess]) -> None:
    there.tables.views.add("d.t")
    with pytest.raises(ConfigError, match=r"permissions.yaml:5:7: local.d.t is a view, and only"):
        applied(file())
    assert there.tables.statements == []


def test_what_would_hide_or_show_rows_unseen_is_refused(
    there: Datasets, path: Path, applied: Callable[..., TriedAccess]
) -> None:
    with pytest.raises(ConfigError, match=r":5:7: nobody would see all rows of d\.t"):
        applied(file().replace('"true"', "region = 'US'"))
    filled = file().replace("  d:\n", "  s_db:\n").replace("      t:\n", "      u:\n")
    with pytest.raises(ConfigError, match=r":5:7: table s_db\.u is filled by Mirrorlake"):
        applied(filled)
    both = filled + filled.partition("    tables:\n")[2].replace("u:", "v:")
    with pytest.raises(ConfigError, match=r"s_db\.u, .*: table s_db\.v are filled by Mirrorlake"):
        applied(both)
    with pytest.raises(BigQueryError, match=r"there is no table local\.d\.gone"):
        applied(file().replace("      t:\n", "      gone:\n"))
    assert there.tables.statements == []
    there.tables.put("s_db.u", {"by_hand": EUROPE})
    there.put("s_db", [OWNER, MINE])
    applied(filled.partition("        rows:")[0].replace("u:\n", "u: {}\n"))
    assert there.tables.policies["s_db.u"] == {}


def test_a_refused_policy_is_recorded_and_holds_up_no_other(
    there: Datasets, applied: Callable[..., TriedAccess], ledger: Ledger
) -> None:
    there.tables.unknown = {"group:eu@example.com"}
    tried = applied()
    assert "no such principal" in str(tried.error)
    assert there.tables.policies["d.t"] == {"everything": ALL}
    assert [one.state for one in ledger.access_changes("table:local.d.t")] == ["refused", "applied"]


def test_a_statement_whose_answer_was_lost_is_run_again(
    there: Datasets, applied: Callable[..., TriedAccess], ledger: Ledger
) -> None:
    there.tables.lost = 1
    assert applied().error is None
    assert len(there.tables.statements) == 3
    assert {one.state for one in ledger.access_changes("table:local.d.t")} == {"applied"}
    assert there.tables.policies["d.t"] == {"everything": ALL, "europe": EUROPE}


@pytest.mark.full
@pytest.mark.parametrize("name", OF_ACCESS)
def test_a_run_that_dies_leaves_a_record_that_the_next_one_ends(
    name: str, there: Datasets, applied: Callable[..., TriedAccess], ledger: Ledger
) -> None:
    pid = os.fork()
    if pid == 0:
        os.environ["MIRRORLAKE_FAILPOINT"] = name
        try:
            applied()
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert applied().error is None
    assert there.tables.policies["d.t"] == {"everything": ALL, "europe": EUROPE}
    states = {one.state for one in ledger.access_changes("table:local.d.t")}
    assert states == ({"applied", "unknown"} if name == "access.begun" else {"applied"})


def test_a_grant_that_cannot_be_declared_is_never_removed_unseen(
    there: Datasets, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.tables.put("d.t", {"everything": ALL})
    binding = {"role": "roles/x", "members": ["group:a@x.de"]}
    monkeypatch.setattr(there.tables, "iam", lambda table, name: {"bindings": [binding]})
    declared = open_declared(
        load_config(path, secrets="when used"), path.parent / "permissions.yaml"
    )
    words = "table local.d.t: its row access policy everything has a grant that Mirrorlake does not"
    with pytest.raises(BigQueryError, match=words):
        plan_permissions(declared)


@pytest.mark.full
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(columns, columns)
def test_any_columns_become_any_others_in_one_pass(
    there: Datasets,
    tables: TableAccess,
    ledger: Ledger,
    first: dict[str, DeclaredValues],
    second: dict[str, DeclaredValues],
) -> None:
    server = there.data_policies
    for wanted in (first, second, {}):
        before = {at: server.raw(names) for at, names in server.columns.items() if names}
        server.exposed.clear()
        declared = TableRows("d", "t", {}, "f:1:1", wanted)
        tables.apply(ledger, RUNNER, declared)
        after = {
            ("d.t", name): {identifier_of(who) for who in one.values}
            for name, one in wanted.items()
        }
        assert {at: server.raw(names) for at, names in server.columns.items() if names} == after
        masks = {
            policy_name(TABLE, name, masked=True): (
                one.mask,
                sorted(identifier_of(who) for who in one.masked),
            )
            for name, one in wanted.items()
            if one.masked
        }
        assert masks == {
            name: (one["dataMaskingPolicy"]["predefinedExpression"], one["grantees"])
            for name, one in server.policies.items()
            if "dataMaskingPolicy" in one
        }
        for at in before.keys() & after.keys():
            # At no moment is the column without a policy, or shown to anybody else.
            assert all(now[at] <= before[at] | after[at] for now in server.exposed)
        server.statements.clear()
        assert not tables.apply(ledger, RUNNER, declared).moves
        assert server.statements == []
    assert server.policies == {}


def test_columns_are_planned_applied_and_verified(
    there: Datasets,
    path: Path,
) -> None:
    server = there.data_policies
    (path.parent / "permissions.yaml").write_text(COLUMNS % RUNNER)
    shown = (
        "d.t\n  + group:analysts@example.com SHA256 of column region\n"
        "  + group:platform@example.com values of column region\n"
    )
    assert shown in said(path, "plan")
    assert shown in said(path, "verify", code=9)
    assert server.statements == []
    assert shown in said(path, "apply")
    assert [one.partition(" ")[0] for one in server.statements] == [
        *("CREATE", "GRANT", "CREATE", "GRANT", "ALTER"),
    ]
    assert server.columns["d.t", "region"] == [MASKED, VALUES]
    assert server.policies[MASKED]["grantees"] == ["principalSet://goog/group/analysts@example.com"]
    assert "d.t: as declared" in said(path, "verify", code=10)
    # By hand: somebody more, and a policy of somebody else's.
    server.policies[VALUES]["grantees"].append("principal://goog/subject/eve@example.com")
    server.policies["theirs"] = {"dataPolicyType": "RAW_DATA_ACCESS_POLICY", "grantees": []}
    server.columns["d.t", "n"] = ["theirs"]
    found = said(path, "verify", code=9)
    assert "- user:eve@example.com values of column region" in found
    assert "- policy:theirs on column n" in found
    said(path, "apply")
    assert "d.t: as declared" in said(path, "verify", code=10)
    assert server.columns["d.t", "n"] == []
    assert "theirs" in server.policies
    (path.parent / "permissions.yaml").write_text(
        (COLUMNS % RUNNER).replace("SHA256", "EMAIL_MASK")
    )
    assert "- group:analysts@example.com SHA256 of column region" in said(path, "apply")
    assert server.policies[MASKED]["dataMaskingPolicy"] == {"predefinedExpression": "EMAIL_MASK"}
    there.tables.fields["d.t"][1]["policyTags"] = {"names": ["projects/p/…/policyTags/1"]}
    with pytest.raises(BigQueryError, match=r"its column n has a policy tag, which can't be"):
        verify_declared(load_config(path, secrets="when used"))


def test_a_column_that_is_not_there_is_named_with_its_place(
    there: Datasets,
    tables: TableAccess,
) -> None:
    one = DeclaredValues(frozenset({"group:a@x.de"}), frozenset(), "", "f:7:11")
    with pytest.raises(ConfigError, match=r"f:7:11: d\.t has no column emial\. The table has n, r"):
        tables.plan(TableRows("d", "t", {}, "f:5:7", {"emial": one}))
    assert there.data_policies.statements == []
