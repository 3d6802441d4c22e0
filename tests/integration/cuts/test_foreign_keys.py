"""Foreign keys at a cut: orphans are counted, and nothing is said of what was not looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from mirrorlake.cuts import make, orphans
from mirrorlake.cuts.foreign_keys import read_keys
from mirrorlake.cuts.ledger import Cut, CutKey, Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.operations.loading.sync_tables import sync_tables
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
LOG: dict[str, Any] = {"mode": "binlog", "key": ["id"]}
CI, BIN = "utf8mb4_unicode_ci", "utf8mb4_bin"
PARENTS = f"""CREATE TABLE parents (
    id INT PRIMARY KEY, a BIGINT UNSIGNED, b DECIMAL(10,2), word VARCHAR(20) COLLATE {CI},
    mark CHAR(4) COLLATE {BIN}, bytes VARBINARY(8), day DATE, at TIMESTAMP(3) NULL,
    kind ENUM('x','y'), hidden INT,
    UNIQUE (a, b), UNIQUE (word), UNIQUE (mark), UNIQUE (bytes), UNIQUE (day), UNIQUE (at),
    UNIQUE (kind), UNIQUE (hidden))"""
CHILDREN = """CREATE TABLE {name} (
    id INT PRIMARY KEY, parent INT, a BIGINT UNSIGNED, b DECIMAL(10,2),
    word VARCHAR(40) COLLATE {ci}, mark CHAR(4) COLLATE {bin}, bytes VARBINARY(8), day DATE,
    at TIMESTAMP(3) NULL, kind ENUM('x','y'), hidden INT, elder INT,
    CONSTRAINT {name}_id FOREIGN KEY (parent) REFERENCES parents (id),
    CONSTRAINT {name}_pair FOREIGN KEY (a, b) REFERENCES parents (a, b),
    CONSTRAINT {name}_word FOREIGN KEY (word) REFERENCES parents (word),
    CONSTRAINT {name}_mark FOREIGN KEY (mark) REFERENCES parents (mark),
    CONSTRAINT {name}_bytes FOREIGN KEY (bytes) REFERENCES parents (bytes),
    CONSTRAINT {name}_day FOREIGN KEY (day) REFERENCES parents (day),
    CONSTRAINT {name}_at FOREIGN KEY (at) REFERENCES parents (at),
    CONSTRAINT {name}_kind FOREIGN KEY (kind) REFERENCES parents (kind),
    CONSTRAINT {name}_hidden FOREIGN KEY (hidden) REFERENCES parents (hidden),
    CONSTRAINT {name}_elder FOREIGN KEY (elder) REFERENCES {name} (id),
    CONSTRAINT {name}_elsewhere FOREIGN KEY (parent) REFERENCES others (id))"""
DECIDED = ("id", "pair", "mark", "bytes", "day", "at", "kind", "elder")
"""Keys of which the lake's values decide."""


@pytest.fixture
def family(sql: Sql, engine_for: EngineFor) -> Workspace:
    """Tables that refer to parents by columns of many types: children of which each has its
    parents, strays of which one has none, and one with a date that is no date."""
    sql("CREATE TABLE others (id INT PRIMARY KEY)", PARENTS)
    for name in ("children", "strays"):
        sql(CHILDREN.format(name=name, ci=CI, bin=BIN))
    sql("CREATE TABLE dateless (id INT PRIMARY KEY, day DATE,"
        " CONSTRAINT dateless_day FOREIGN KEY (day) REFERENCES parents (day))")  # fmt: skip
    same = "SELECT 1, 1, p.a, p.b, p.word, p.mark, p.bytes, p.day, p.at, p.kind, p.hidden, 1"
    sql(
        "SET foreign_key_checks = 0",
        "INSERT INTO parents VALUES (1, 18446744073709551615, 1.10, 'Straße', 'm', x'0001',"
        " '2024-05-01', '2024-05-01 00:00:00.125', 'y', 1)",
        f"INSERT INTO children {same} FROM parents p",
        f"INSERT INTO strays {same} FROM parents p",
        # NULL in any of a key's columns refers to nothing.
        "INSERT INTO children (id, a, elder) VALUES (2, 7, NULL), (3, NULL, 1)",
        # The server finds this one's parent, the lake's bytes do not.
        "INSERT INTO children (id, word) VALUES (4, 'STRASSE')",
        "INSERT INTO strays (id, parent, a, b, word, mark, bytes, day, at, kind, elder) VALUES"
        " (5, 9, 18446744073709551614, 1.10, 'none', 'M', x'01', '2024-05-02',"
        " '2024-05-01 00:00:00.126', 'x', 77)",
        # Without a place in the lake's type, and NULL there; to the server it is none.
        "INSERT INTO dateless VALUES (1, '0000-00-00'), (2, '2024-05-01')",
        "SET foreign_key_checks = 1",
    )
    never = {"columns": {"hidden": {"pci": "never"}}}
    names = ("parents", "children", "strays")
    return engine_for({**dict.fromkeys(names, LOG | never), "dateless": LOG})


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


def test_keys_of_many_types_hold_and_each_orphan_is_counted(family: Workspace) -> None:
    found, proved = cut_now(family), cut_now(family, prove=True)
    for name in DECIDED:
        for keys in (found, proved):
            one = keys[f"children_{name}"]
            assert (one.verdict, one.orphans) == ("holds", 0), (name, one.words)
        stray, known = found[f"strays_{name}"], proved[f"strays_{name}"]
        assert (stray.verdict, stray.orphans, stray.in_mysql) == ("orphans", 1, None), name
        assert (known.verdict, known.orphans, known.in_mysql) == ("as in MySQL", 1, 1), name
    assert found["children_pair"].parent_columns == ("a", "b")
    # Under a collation MySQL's own count decides, of tables that are equal.
    for name, orphans_there, verdict in (("children", 0, "holds"), ("strays", 1, "as in MySQL")):
        one, known = found[f"{name}_word"], proved[f"{name}_word"]
        assert (one.verdict, one.orphans, CI in one.words) == ("not compared", None, True)
        assert (known.verdict, known.orphans) == (verdict, orphans_there), known.words
    assert (found["dateless_day"].verdict, proved["dateless_day"].orphans) == ("not compared", 1)
    for name in ("children_hidden", "strays_hidden"):
        assert "without hidden" in proved[name].words
        assert (proved[name].verdict, proved[name].in_mysql) == ("not compared", None)
    assert not {name for name in found if "elsewhere" in name}  # its parent is not mirrored


@pytest.mark.full
def test_a_child_that_is_further_than_its_parent_has_orphans(
    sql: Sql, engine_for: EngineFor, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `refuse_elsewhere` prevents, the count finds, with and without a proof."""
    word = f"word VARCHAR(9) COLLATE {CI}"
    sql(f"CREATE TABLE accounts (id INT PRIMARY KEY, {word}, UNIQUE (word))")
    sql("INSERT INTO accounts VALUES (1, 'w1')")
    sql(f"CREATE TABLE bookings (id INT PRIMARY KEY, account INT NOT NULL, {word},"
        " CONSTRAINT of_account FOREIGN KEY (account) REFERENCES accounts (id),"
        " CONSTRAINT of_word FOREIGN KEY (word) REFERENCES accounts (word))")  # fmt: skip
    bank = engine_for({"accounts": LOG, "bookings": LOG})
    for one in sync_tables(bank, bank.config.tables):
        assert one.error is None
    follow, added = make.follow_tables, iter(range(2, 9))

    def torn(workspace: Workspace, contracts: Any, **end: Any) -> Any:
        if not end:
            return follow(workspace, contracts)
        accounts, bookings = contracts
        done = follow(workspace, [accounts], **end)
        number = next(added)
        sql(f"INSERT INTO accounts VALUES ({number}, 'w{number}')")
        sql(f"INSERT INTO bookings VALUES ({number}, {number}, 'W{number}')")
        return done | follow(workspace, [bookings])

    monkeypatch.setattr(make, "follow_tables", torn)
    monkeypatch.setattr(make, "refuse_elsewhere", lambda *_: None)
    made = command("cut", "s", "--json", workspace=bank)
    key, word = json.loads(made.stdout)["foreign_keys"]["keys"]
    assert (made.exit_code, key["orphans"], key["in_mysql"]) == (10, 1, None)
    assert (word["verdict"], word["orphans"]) == ("not compared", None)
    proved = command("cut", "s", "--prove", "--lock", workspace=bank)
    assert (proved.exit_code, "1 row has no parent; in MySQL 0" in proved.output) == (9, True)
    assert "of_account (account) → " in proved.output
    # MySQL's 0 is of other rows than the cut's.
    word = json.loads(command("cuts", "--json", workspace=bank).stdout)[0]["foreign_keys"]["keys"][
        1
    ]
    assert (word["verdict"], word["orphans"], word["in_mysql"]) == ("not compared", None, 0)
    monkeypatch.undo()


@pytest.mark.full
def test_rows_that_mysql_has_no_more_are_neither_parents_nor_orphans(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql("CREATE TABLE parents (id INT PRIMARY KEY)", "INSERT INTO parents VALUES (1), (2)")
    modes = {"flagged": "flag", "kept": "ignore"}
    for name in modes:
        sql(
            f"CREATE TABLE {name} (id INT PRIMARY KEY, parent INT,"
            f" CONSTRAINT of_{name} FOREIGN KEY (parent) REFERENCES parents (id))",
            f"INSERT INTO {name} VALUES (1, 1), (2, 2)",
        )
    tables = {name: LOG | {"deletes": deletes} for name, deletes in modes.items()}
    workspace = engine_for({"parents": LOG | {"deletes": "flag"}, **tables})
    assert {key.verdict for key in cut_now(workspace).values()} == {"holds"}
    sql(*(f"DELETE FROM {name} WHERE id = 2" for name in (*modes, "parents")))
    for prove in (False, True):
        found = cut_now(workspace, prove=prove)
        assert (found["of_flagged"].verdict, found["of_flagged"].orphans) == ("holds", 0)
        assert found["of_kept"].verdict == "not compared"
        assert "deletes: ignore" in found["of_kept"].words
    contract = workspace.config.table("parents").model_copy(update={"deletes": "ignore"})
    seen = read_keys(workspace, [contract, *workspace.config.tables[1:]])
    assert all("s." in one.why and "deletes: ignore" in one.why for one in seen.found)


def test_keys_that_the_account_may_not_see_are_not_said_to_hold(
    server: EmbeddedServer,
    sql: Sql,
    database: str,
    engine_for: EngineFor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SELECT on each column reads a table whole, and hides its keys. The log of such a table is not
    followed, and it is in no cut; here the account has no more for a moment."""
    sql(
        "CREATE TABLE parents (id INT PRIMARY KEY)",
        "CREATE TABLE children (id INT PRIMARY KEY COMMENT '\n CONSTRAINT `x` FOREIGN KEY (',"
        " parent INT, CONSTRAINT `k``in` FOREIGN KEY (parent) REFERENCES parents (id))",
    )
    name, table, read = f"n{database}"[:20], f"{database}.children", make.read_keys
    rights = "REPLICATION SLAVE, REPLICATION CLIENT, PROCESS"
    server.create_user(name, PASSWORD, {"*.*": rights, f"{database}.*": "SELECT"})
    with server.admin() as admin, admin.cursor() as cursor:
        if "MariaDB" not in str(admin.get_server_info()):
            cursor.execute(f"GRANT SELECT ON performance_schema.* TO {name}@'%'")
    workspace = engine_for({"parents": LOG, "children": LOG}, {"user": name})

    def revoked(*arguments: Any) -> Any:
        sql(f"REVOKE SELECT ON {database}.* FROM {name}@'%'")
        sql(f"GRANT SELECT ON {database}.parents TO {name}@'%'")
        sql(f"GRANT SELECT (id, parent) ON {table} TO {name}@'%'")
        seen = read(*arguments)
        sql(f"GRANT SELECT ON {database}.* TO {name}@'%'")
        return seen

    for reading, expected in ((read, (["k`in"], ())), (revoked, ([], (f"s.{table}",)))):
        monkeypatch.setattr(make, "read_keys", reading)
        made = make_cut(workspace, "s", CutTerms(), lambda _: None)
        make.drop_cut(workspace, made.cut)
        keys = made.cut.foreign_keys
        assert (made.left_out, keys is None) == ({}, False)
        assert keys is not None
        assert ([key.name for key in keys.keys], keys.hidden) == expected


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
    sql(
        "SET foreign_key_checks = 0",
        "DELETE FROM parents WHERE id % 1000 = 0",
        "SET foreign_key_checks = 1",
    )
    (key,) = cut_now(engine_for({"parents": LOG, "children": LOG})).values()
    assert (key.verdict, key.orphans) == ("orphans", 1000)
