"""Clean of tenants as a table: what the rules make of deduped, for every engine, with hashes.

Hashes are compared with HMAC-SHA256 of MySQL's own text, made here.
"""

from __future__ import annotations

import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mirrorlake.destinations.iceberg.model import history
from mirrorlake.errors import ConfigError
from mirrorlake.failpoints import OF_CLEAN_TENANTS, OF_TENANTS
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.operations.tenants.verdicts import TenantsChecked
from mirrorlake.operations.upkeep.maintain import maintain_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.table.lake_tables import clean_of, deduped_of
from tests.integration.conftest import HASH_KEY, Place
from tests.integration.tenants import Tenants
from tests.soak.runs import Order, Runner
from tests.support.readers import VIEW, reading

COLUMNS = "id INT PRIMARY KEY, email VARCHAR(40), phone VARCHAR(20), day DATE"
SETTLED_SECONDS = 3.2
"""After so long without a change, what a server shows says whether a table changed."""
RULES = {"email": {"pii": "hash"}, "phone": {"pii": "mask"}, "day": {"pii": "hash"}}


@pytest.fixture
def tenants(server: EmbeddedServer, place: Place) -> Iterator[Tenants]:
    made = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    made.contract |= {"clean": "table", "columns": RULES}
    made.file["privacy"] = {"hash_key": "${env:TEST_HASH_KEY}"}
    yield made
    made.close()


def rows(*numbers: int) -> list[str]:
    # A zero date has no place in its column: its text is kept beside it.
    return [f"({n}, 'n{n}@x', '55501{n:02}', '2026-00-0{n % 9}')" for n in numbers]


def hashed(text: str | None, key: str = HASH_KEY) -> str | None:
    if text is None:
        return None
    return hmac.new(key.encode(), text.encode(), hashlib.sha256).hexdigest()


def masked(text: str) -> str:
    return "*" * 8 + text[-2:]


def clean(tenants: Tenants, *columns: str) -> dict[str, list[tuple[Any, ...]]]:
    """Clean's rows by tenant, read by PyIceberg."""
    with tenants.opened() as (workspace, table):
        found = workspace.lake.load(clean_of(table))
        assert found is not None
        shown: dict[str, list[tuple[Any, ...]]] = {}
        for row in found.scan().to_arrow().to_pylist():
            cells = tuple(row[name] for name in columns)
            shown.setdefault(row["_mirror_database"], []).append(cells)
    return {database: sorted(cells, key=str) for database, cells in shown.items()}


def check(tenants: Tenants) -> TenantsChecked:
    with tenants.opened() as (workspace, table):
        return check_tenants(workspace, table)


def assert_clean(
    tenants: Tenants, *others: str, shown: Callable[[str], str | None] = masked
) -> None:
    """Clean is what the rules make of MySQL's rows, and the check says so.

    Args:
        shown: what the rule of ``phone`` makes of it; by itself it is masked.
    """
    names = ("id", "email", "phone", "CAST(day AS CHAR)", *others)
    expected = {
        database: sorted(
            (
                (i, hashed(email), shown(phone), hashed(day), *rest)
                for i, email, phone, day, *rest in found
            ),
            key=str,
        )
        for database, found in mysql(tenants, *names).items()
        if found
    }
    assert clean(tenants, "id", "email", "phone", "day", *others) == expected
    found = check(tenants)
    assert found.verdict == "equal", found


def mysql(tenants: Tenants, *expressions: str) -> dict[str, list[Any]]:
    listed = ", ".join(expressions)
    return {d: tenants.sql(f"SELECT {listed} FROM orders", database=d) for d in tenants.made}


@pytest.mark.full
def test_a_clean_table_has_what_the_rules_make_of_each_tenant(tenants: Tenants) -> None:
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    assert tenants.sync().failed == {}
    assert_clean(tenants)
    with tenants.opened() as (workspace, table):
        made = workspace.lake.load(clean_of(table))
        assert made is not None
        before = {f.file.file_path for f in made.scan().plan_files()}
    # Only what moved is written: a tenant that did not keeps its files.
    tenants.run("b", "UPDATE orders SET email = 'moved@x' WHERE id = 1")
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    assert_clean(tenants)
    with tenants.opened() as (workspace, table):
        made = workspace.lake.load(clean_of(table))
        assert made is not None
        kept = made.scan(f"_mirror_database = '{tenants.name('a')}'").plan_files()
        assert {f.file.file_path for f in kept} <= before
        heads = [s.snapshot_id for s in history(made)]
    assert tenants.sync().folded == 0
    with tenants.opened() as (workspace, table):
        made = workspace.lake.load(clean_of(table))
        assert made is not None
        assert [s.snapshot_id for s in history(made)] == heads
        maintain_table(workspace, table)
    assert_clean(tenants)


@pytest.mark.full
def test_shapes_and_columns_reach_a_clean_table_as_the_rules_say(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS + ", n INT", *(row.replace(")", ", 7)") for row in rows(1)))
    tenants.sync()
    # Wider, another type, a column that nobody decided on: all tenants, and nothing new is shown.
    tenants.make(
        "b", COLUMNS + ", n VARCHAR(9), secret INT", "(2, 'b@x', '5550199', NULL, '07', 42)"
    )
    assert tenants.sync().failed == {}
    assert clean(tenants, "id", "n") == {
        tenants.name("a"): [(1, "7")],
        tenants.name("b"): [(2, "07")],
    }
    with tenants.opened() as (workspace, table):
        made = workspace.lake.load(clean_of(table))
        assert made is not None
        assert "secret" not in made.schema().column_names
    assert check(tenants).verdict == "equal"
    tenants.contract["columns"] = {**RULES, "secret": {"pii": "show"}}
    tenants.sync()
    assert clean(tenants, "secret") == {tenants.name("a"): [(None,)], tenants.name("b"): [(42,)]}
    assert check(tenants).verdict == "equal"


@pytest.mark.full
def test_a_rule_that_comes_later_leaves_no_old_value(tenants: Tenants) -> None:
    tenants.contract["columns"] = {}
    tenants.make("a", COLUMNS, *rows(1, 2))
    tenants.sync()
    tenants.contract["columns"] = RULES
    tenants.sync()
    assert_clean(tenants)
    # Nor by an older version, whether main came of it or not.
    with tenants.opened() as (workspace, table):
        made = workspace.lake.load(clean_of(table))
        assert made is not None
        for snapshot in made.metadata.snapshots:
            shown = made.scan(snapshot_id=snapshot.snapshot_id).to_arrow()
            assert "n1@x" not in str(shown.to_pylist())
    tenants.contract |= {"clean": "view", "columns": {}}
    tenants.sync()
    assert [row["email"] for row in sorted(tenants.shown(), key=lambda r: r["id"])] == [
        "n1@x",
        "n2@x",
    ]
    tenants.contract |= {"clean": "table", "columns": RULES}
    tenants.sync()
    assert_clean(tenants)


@pytest.mark.full
def test_a_column_that_is_renamed_later_has_its_hashes(tenants: Tenants) -> None:
    tenants.contract["columns"] = {"mail": {"pii": "hash"}}
    tenants.make("old", "id INT PRIMARY KEY, mail VARCHAR(20)", "(1, 'old@x')")
    tenants.make("empty", "id INT PRIMARY KEY, mail VARCHAR(20)")
    tenants.sync()
    assert clean(tenants, "mail") == {tenants.name("old"): [(hashed("old@x"),)]}
    tenants.contract["columns"] = {"email": {"pii": "hash", "renamed_from": ["mail"]}}
    tenants.make("new", "id INT PRIMARY KEY, email VARCHAR(20)", "(1, 'new@x')")
    tenants.sync()
    assert clean(tenants, "email") == {
        tenants.name("old"): [(hashed("old@x"),)],
        tenants.name("new"): [(hashed("new@x"),)],
    }
    assert check(tenants).verdict == "equal"


@pytest.mark.full
def test_another_hash_key_is_refused(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.sync()
    tenants.environment["TEST_HASH_KEY"] = "another key of the tests, sixteen"
    with pytest.raises(ConfigError, match="one value would have two hashes"):
        tenants.sync()
    tenants.contract |= {"clean": "view", "columns": {}}
    tenants.sync()
    tenants.contract |= {"clean": "table", "columns": RULES}
    tenants.sync()
    key = tenants.environment["TEST_HASH_KEY"]
    assert clean(tenants, "email") == {tenants.name("a"): [(hashed("n1@x", key),)]}


@pytest.mark.full
def test_a_type_without_one_text_is_refused_for_its_tenant(tenants: Tenants) -> None:
    tenants.make("a", COLUMNS, *rows(1))
    tenants.make("f", COLUMNS.replace("email VARCHAR(40)", "email DOUBLE"), "(1, 1.5, '5', NULL)")
    done = tenants.sync()
    assert list(done.failed) == [f"s.{tenants.name('f')}"]
    assert "have one text" in done.failed[f"s.{tenants.name('f')}"]
    assert set(clean(tenants, "id")) == {tenants.name("a")}


@pytest.mark.full
def test_a_tenant_that_leaves_deduped_leaves_clean(tenants: Tenants) -> None:
    tenants.group["dropped"] = "remove"
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1))
    tenants.sync()
    tenants.drop("b")
    tenants.sync()
    assert set(clean(tenants, "id")) == {tenants.name("a"), tenants.name("c")}
    assert_clean(tenants)


@pytest.mark.full
def test_somebody_elses_writes_into_clean_are_found_and_put_right(tenants: Tenants) -> None:
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    time.sleep(SETTLED_SECONDS)
    tenants.sync()
    with tenants.opened() as (workspace, table):
        workspace.spark.get().sql(
            f"UPDATE {clean_of(table).sql} SET email = 'plain' WHERE id = 1"
            f" AND _mirror_database = '{tenants.name('b')}'"
        )
    found = {one.database: one for one in check(tenants).verdicts}
    assert found[tenants.name("a")].verdict == "equal"
    assert found[tenants.name("b")].verdict == "different"
    assert "not what its rules make of deduped's 2" in found[tenants.name("b")].words
    tenants.sync()
    assert_clean(tenants)
    with tenants.opened() as (workspace, table):
        workspace.spark.get().sql(f"DELETE FROM {deduped_of(table).sql} WHERE id = 2")
    tenants.sync()  # all is folded again, and clean made of that
    assert_clean(tenants)


CHANGES: tuple[dict[str, Any], ...] = (
    {"columns": {**RULES, "phone": {"pii": "drop"}}},
    {"columns": {**RULES, "phone": {"pii": "drop"}, "id": {"pii": "drop"}}},
    {"columns": {"email": {"pii": "null"}}},
    {"columns": {"email": {"pii": "mask"}}, "clean": "view"},
    {"columns": RULES, "clean": "table"},
)


@pytest.mark.full
def test_readers_have_an_answer_through_every_change_of_rules(tenants: Tenants) -> None:
    tenants.contract["columns"] = {}
    for name in ("a", "b"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    assert tenants.sync().failed == {}
    with tenants.opened() as (_, table):
        shown = clean_of(table)
    for change in CHANGES:
        tenants.contract |= change
        with reading(tenants.place.folder / "lake", *shown.path) as seen:
            assert tenants.sync().failed == {}
        assert (seen.wrong, seen.counts - {VIEW}) == ([], {4} if seen.counts != {VIEW} else set())
        assert check(tenants).verdict == "equal", change
        with tenants.opened() as (workspace, table):
            made = workspace.lake.load(shown)
            # What is made beside a view has no older answer.
            assert made is None or change is CHANGES[-1] or len(made.snapshots()) == 1
            assert workspace.spark.get().table(shown.sql).count() == 4
    assert_clean(tenants)


STEPS = tuple(step for step in (*OF_TENANTS, *OF_CLEAN_TENANTS) if step != "tenants.shown")
OFTEN = ("tenants.clean_marked",)


@pytest.mark.full
@pytest.mark.parametrize(
    "step", [s if s in OFTEN else pytest.param(s, marks=pytest.mark.full) for s in STEPS]
)
def test_a_run_that_is_killed_at_any_step_leaves_clean_whole(
    step: str, tenants: Tenants, runner: Runner
) -> None:
    """Readers see a state that was committed; the next run completes what is missing."""
    for name in ("a", "b", "c"):
        tenants.make(name, COLUMNS, *rows(1, 2))
    tenants.sync()
    before = clean(tenants, "id", "email")
    tenants.run("a", "UPDATE orders SET email = 'moved@x'")
    if step == "tenants.clean_replaced":  # where a rule takes values away
        tenants.contract["columns"] = {**RULES, "phone": {"pii": "null"}}
    order = Order(tenants.write(), "orders", "tenants", failpoint=step)
    assert runner.run(order).code == -9
    seen = clean(tenants, "id", "email")
    moved = {**before, tenants.name("a"): [(n, hashed("moved@x")) for n in (1, 2)]}
    assert seen == (moved if step in OF_CLEAN_TENANTS[-2:] else before)
    assert check(tenants).verdict != "different"
    # While it was dead another type came: all of it is written again.
    tenants.make("d", COLUMNS.replace("id INT", "id BIGINT"), *rows(3))
    assert runner.run(order).code == -9
    assert tenants.sync().failed == {}
    taken = step == "tenants.clean_replaced"
    assert_clean(tenants, shown=(lambda _: None) if taken else masked)
    with tenants.opened() as (workspace, table):
        assert not [n for n in workspace.lake.branches(clean_of(table)) if n != "main"]
