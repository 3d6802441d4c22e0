"""Foreign keys at a cut: orphans are counted, and nothing is said of what was not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from demo.embedded import EmbeddedServer
from mirrorlake.cuts import make, orphans
from mirrorlake.cuts.ledger import Cut, CutKey, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.workspace import Workspace

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
CI, BIN = "utf8mb4_unicode_ci", "utf8mb4_bin"
UNCHECKED = "SET foreign_key_checks = 0"
PARENTS = f"""CREATE TABLE parents (
    id INT PRIMARY KEY, a BIGINT UNSIGNED, b DECIMAL(10,2), word VARCHAR(20) COLLATE {CI},
    mark CHAR(4) COLLATE {BIN}, bytes VARBINARY(8), day DATE, at TIMESTAMP(3) NULL,
    kind ENUM('x','y'), hidden INT,
    UNIQUE (a, b), UNIQUE (word), UNIQUE (mark), UNIQUE (bytes), UNIQUE (day), UNIQUE (at),
    UNIQUE (kind), UNIQUE (hidden))"""
CHILDREN = f"""CREATE TABLE children (
    id INT PRIMARY KEY, parent INT, a BIGINT UNSIGNED, b DECIMAL(10,2),
    word VARCHAR(40) COLLATE {CI}, mark CHAR(4) COLLATE {BIN}, bytes VARBINARY(8), day DATE,
    at TIMESTAMP(3) NULL, kind ENUM('x','y'), hidden INT, elder INT,
    CONSTRAINT by_id FOREIGN KEY (parent) REFERENCES parents (id),
    CONSTRAINT by_pair FOREIGN KEY (a, b) REFERENCES parents (a, b),
    CONSTRAINT by_word FOREIGN KEY (word) REFERENCES parents (word),
    CONSTRAINT by_mark FOREIGN KEY (mark) REFERENCES parents (mark),
    CONSTRAINT by_bytes FOREIGN KEY (bytes) REFERENCES parents (bytes),
    CONSTRAINT by_day FOREIGN KEY (day) REFERENCES parents (day),
    CONSTRAINT by_at FOREIGN KEY (at) REFERENCES parents (at),
    CONSTRAINT by_kind FOREIGN KEY (kind) REFERENCES parents (kind),
    CONSTRAINT by_hidden FOREIGN KEY (hidden) REFERENCES parents (hidden),
    CONSTRAINT by_elder FOREIGN KEY (elder) REFERENCES children (id),
    CONSTRAINT elsewhere FOREIGN KEY (parent) REFERENCES others (id))"""
COLUMNS = {
    **{"by_id": "parent", "by_pair": "a", "by_mark": "mark", "by_bytes": "bytes", "by_day": "day"},
    **{"by_at": "at", "by_kind": "kind", "by_elder": "elder"},
}
"""Keys of which the lake's values decide."""


@pytest.fixture
def family(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Children refer to parents by columns of many types; a row in three has no reference."""
    sql("CREATE TABLE others (id INT PRIMARY KEY)", "INSERT INTO others VALUES (1), (2)")
    sql(PARENTS, CHILDREN)
    sql("INSERT INTO parents VALUES (1, 18446744073709551615, 1.10, 'Straße', 'm', x'0001',"
        " '2024-05-01', '2024-05-01 00:00:00.125', 'y', 1)")  # fmt: skip
    sql("INSERT INTO children SELECT 1, 1, p.a, p.b, p.word, p.mark, p.bytes, p.day, p.at, p.kind,"
        " p.hidden, 1 FROM parents p")  # fmt: skip
    sql("INSERT INTO children (id, a, elder) VALUES (2, 7, NULL), (3, NULL, 1)")
    never = {"columns": {"hidden": {"pci": "never"}}}
    return engine_for({"parents": LOG | never, "children": LOG | never})


def keys_of(cut: Cut) -> dict[str, CutKey]:
    assert cut.foreign_keys is not None
    assert cut.foreign_keys.hidden == ()
    return {key.name: key for key in cut.foreign_keys.keys}


def cut_now(workspace: Workspace, *, prove: bool = False) -> dict[str, CutKey]:
    made = make_cut(workspace, "s", CutTerms(prove=prove, lock=True), lambda _: None)
    assert made.left_out == {}
    (cut,) = (one for one in Cuts(workspace.ledger).all() if one.name == made.cut.name)
    assert cut.foreign_keys == made.cut.foreign_keys
    make.drop_cut(workspace, cut)
    return keys_of(cut)


def test_keys_of_many_types_hold_and_each_orphan_is_counted(sql: Sql, family: Workspace) -> None:
    holding = cut_now(family)
    assert "elsewhere" not in holding  # its parent is not mirrored
    assert {n for n, key in holding.items() if key.verdict == "holds"} == {*COLUMNS, "by_word"}
    assert holding["by_pair"].parent_columns == ("a", "b")
    assert "without hidden" in holding["by_hidden"].words

    # The server finds this parent, the lake's bytes do not.
    sql("INSERT INTO children (id, word) VALUES (4, 'STRASSE')")
    found, proved = cut_now(family)["by_word"], cut_now(family, prove=True)["by_word"]
    assert (found.verdict, found.orphans, CI in found.words) == ("not compared", None, True)
    assert (proved.verdict, proved.orphans, proved.in_mysql) == ("holds", 0, 0), proved.words

    sql(UNCHECKED,
        "INSERT INTO children (id, parent, a, b, word, mark, bytes, day, at, kind, elder) VALUES"
        " (5, 9, 18446744073709551614, 1.10, 'none', 'M', x'01', '2024-05-02',"
        " '2024-05-01 00:00:00.126', 'x', 77)",
        "SET foreign_key_checks = 1")  # fmt: skip
    found, proved = cut_now(family), cut_now(family, prove=True)
    for name in COLUMNS:
        assert (found[name].verdict, found[name].orphans) == ("orphans", 1), name
        assert (proved[name].verdict, proved[name].in_mysql) == ("as in MySQL", 1), name
    assert found["by_word"].verdict == "not compared"
    assert (proved["by_word"].verdict, proved["by_word"].orphans) == ("as in MySQL", 1)
    # A value without a place in the lake's type is NULL there, and no NULL to the server.
    sql(UNCHECKED, "INSERT INTO children (id, day) VALUES (6, '0000-00-00')",
        "SET foreign_key_checks = 1")  # fmt: skip
    assert "kept as text" in cut_now(family)["by_day"].words


def test_a_child_that_is_further_than_its_parent_has_orphans(
    sql: Sql, engine_for: EngineFor, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `refuse_elsewhere` prevents, the count finds, with and without a proof."""
    sql("CREATE TABLE accounts (id INT PRIMARY KEY)", "INSERT INTO accounts VALUES (1)")
    sql("CREATE TABLE bookings (id INT PRIMARY KEY, account INT NOT NULL,"
        " CONSTRAINT of_account FOREIGN KEY (account) REFERENCES accounts (id))")  # fmt: skip
    bank = engine_for({"accounts": LOG, "bookings": LOG})
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    follow, added = make.follow_tables, iter(range(2, 9))

    def torn(workspace: Workspace, contracts: Any, end: Any) -> Any:
        accounts, bookings = contracts
        done = follow(workspace, [accounts], end=end)
        number = next(added)
        sql(f"INSERT INTO accounts VALUES ({number})")
        sql(f"INSERT INTO bookings VALUES ({number}, {number})")
        return done | follow(workspace, [bookings])

    monkeypatch.setattr(make, "follow_tables", torn)
    monkeypatch.setattr(make, "refuse_elsewhere", lambda *_: None)
    made = command("cut", "s", "--json", workspace=bank)
    (key,) = json.loads(made.stdout)["foreign_keys"]["keys"]
    assert (made.exit_code, key["orphans"], key["in_mysql"]) == (10, 1, None)
    proved = command("cut", "s", "--prove", "--lock", workspace=bank)
    assert (proved.exit_code, "1 row has no parent; in MySQL 0" in proved.output) == (9, True)
    assert "of_account (account) → " in proved.output
    monkeypatch.undo()


def test_keys_that_the_account_may_not_see_are_not_said_to_hold(
    server: EmbeddedServer, sql: Sql, database: str, engine_for: EngineFor,
) -> None:  # fmt: skip
    """SELECT on each column reads a table whole, and hides its keys, or parts of them."""
    sql("CREATE TABLE parents (a INT, id INT, PRIMARY KEY (id), UNIQUE (a, id))")
    sql("CREATE TABLE children (id INT PRIMARY KEY, a INT, parent INT,"
        " FOREIGN KEY (a, parent) REFERENCES parents (a, id))")  # fmt: skip
    name = f"n{database}"[:20]
    server.create_user(
        name,
        "p@ss w/örd%",
        {
            "*.*": "REPLICATION SLAVE, REPLICATION CLIENT, RELOAD, PROCESS",
            f"{database}.parents": "SELECT",
            f"{database}.children": "SELECT (id, a, parent)",
        },
    )
    workspace = engine_for({"parents": LOG, "children": LOG}, {"user": name})
    made = make_cut(workspace, "s", CutTerms(), lambda _: None)
    assert made.cut.foreign_keys is not None
    assert made.cut.foreign_keys.keys == ()
    assert made.cut.foreign_keys.hidden == (f"s.{database}.children",)


@pytest.mark.full
def test_keys_that_do_not_fit_in_memory_are_counted_too(
    sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orphans, "MEMORY", "32MB")
    monkeypatch.setattr(orphans, "AT_ONCE", 50_000)
    sql("CREATE TABLE parents (id BIGINT PRIMARY KEY)")
    sql("CREATE TABLE children (id BIGINT PRIMARY KEY, parent BIGINT NOT NULL,"
        " FOREIGN KEY (parent) REFERENCES parents (id))")  # fmt: skip
    digits = "(SELECT 0 d" + "".join(f" UNION ALL SELECT {n}" for n in range(1, 10)) + ")"
    numbers = " + ".join(f"d{n}.d * {10**n}" for n in range(6))
    many = " JOIN ".join(f"{digits} d{n}" for n in range(6))
    sql(f"INSERT INTO parents SELECT 1000003 * ({numbers}) FROM {many}")
    sql("INSERT INTO children SELECT id, id FROM parents")
    sql(UNCHECKED, "DELETE FROM parents WHERE id % 1000 = 0", "SET foreign_key_checks = 1")
    (key,) = cut_now(engine_for({"parents": LOG, "children": LOG})).values()
    assert (key.verdict, key.orphans) == ("orphans", 1000)
