"""The contracts that `init` proposes, and the file that it writes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import Config, load_config, parse_source_url
from mirrorlake.init.cli import init
from mirrorlake.init.render import password_variable, quoted, render_contract, source_name
from mirrorlake.init.suggest_tables import Almost, SuggestedTable, suggest_contract
from mirrorlake.sources.mysql.tables import Column, ForeignKey, Index, SourceTable
from tests.unit.tables import ID, PRIMARY, column, source_table

MODIFIED = Index("m", False, ("modified_at",))
ENVIRON = {"SHOP_PASSWORD": "x", "MIRRORLAKE_HASH_KEY": "k" * 32}
URL = parse_source_url("mysql://mirror:p%40ss@127.0.0.1:3307/shop")


def suggest(table: SourceTable) -> SuggestedTable:
    return suggest_contract(table, {})


@pytest.mark.parametrize(
    "name",
    [
        "modified_at",
        "updatedAt",
        "last_modified",
        "LastUpdate",
        "row_changed_on",
        "update_time",
        "mtime",
    ],
)
def test_a_time_of_change_that_leads_an_index_is_incremental(name: str) -> None:
    index = Index("m", False, (name, "id"))
    found = suggest(source_table("t", ID, column(name, "datetime"), indexes=(PRIMARY, index)))
    assert (found.mode, found.key, found.cursor) == ("incremental", ("id",), name)
    assert found.warnings == ()
    assert "the application must move it" in found.notes[0]


def test_keys_that_cant_be_told_apart_are_copied_whole() -> None:
    key = replace(column("k"), charset="big5", collation="big5_chinese_ci")
    indexes = (Index("PRIMARY", True, ("k",)), MODIFIED)
    found = suggest(source_table("t", key, column("modified_at", "datetime"), indexes=indexes))
    assert found.mode == "full"
    assert "k: under big5_chinese_ci, different characters have one weight" in found.notes[0]


def test_the_servers_own_time_of_change_is_preferred() -> None:
    auto = column("seen", "timestamp", extra="DEFAULT_GENERATED on update CURRENT_TIMESTAMP(6)")
    indexes = (PRIMARY, MODIFIED, Index("s", False, ("seen",)))
    found = suggest(source_table("t", ID, column("modified_at", "datetime"), auto, indexes=indexes))
    assert found.cursor == "seen"
    assert "the server moves it" in found.notes[0]


def test_composite_keys() -> None:
    indexes = (Index("PRIMARY", True, ("a", "b")), MODIFIED)
    found = suggest(
        source_table(
            "t", column("a"), column("b"), column("modified_at", "datetime"), indexes=indexes
        )
    )
    assert (found.mode, found.key) == ("incremental", ("a", "b"))


@pytest.mark.parametrize(
    ("modified", "indexes", "missing"),
    [
        (column("modified_at", "datetime", nullable=True), (PRIMARY, MODIFIED), "were NOT NULL"),
        (column("modified_at", "datetime"), (PRIMARY,), "an index began with modified_at"),
        (column("modified_at", "datetime"), (MODIFIED,), "the table had a unique key"),
        (
            column("modified_at", "datetime"),
            (PRIMARY, Index("m", False, ("id", "modified_at"))),
            "an index began with modified_at",
        ),
    ],
)
def test_what_is_missing_for_incremental_is_said(
    modified: Column, indexes: tuple[Index, ...], missing: str
) -> None:
    found = suggest(source_table("events", ID, modified, indexes=indexes))
    assert (found.mode, found.cursor) == ("full", None)
    assert missing in found.notes[0]


def test_an_index_that_serves_no_range_is_named() -> None:
    moved = column("modified_at", "datetime")
    found = suggest(source_table("t", ID, moved, indexes=(PRIMARY, replace(MODIFIED, ranged=0))))
    assert found.mode == "full"
    assert (
        "an index began with modified_at (m is a hash, or queries don't use it)" in found.notes[0]
    )
    assert found.almost == Almost("modified_at", False, False, False, False)


def test_a_day_is_too_coarse_for_a_time_of_change() -> None:
    found = suggest(
        source_table("t", ID, column("modified_at", "date"), indexes=(PRIMARY, MODIFIED))
    )
    assert found.mode == "full"


def test_a_log_is_appended_by_its_key() -> None:
    found = suggest(source_table("events", ID, column("created_at", "datetime")))
    assert (found.mode, found.key, found.cursor) == ("append", ("id",), "id")
    assert found.created == "created_at"
    assert any("never sees an update" in w.text for w in found.warnings)


def test_a_log_without_a_growing_key_is_appended_by_its_time() -> None:
    indexes = (Index("c", False, ("created_at",)),)
    table = source_table("audit_log", column("created_at", "datetime"), indexes=indexes)
    found = suggest(table)
    assert (found.mode, found.key, found.cursor) == ("append", (), "created_at")
    assert found.created is None


@pytest.mark.parametrize(
    "table",
    [
        source_table("orders", ID, column("created_at", "datetime")),
        source_table("events", ID, column("status"), column("created_at", "datetime")),
        source_table("events", ID, column("processed_at", "datetime", nullable=True)),
        source_table("events", column("id", "bigint"), column("created_at", "datetime")),
        source_table("kinds", ID),
    ],
)
def test_unsure_is_full(table: SourceTable) -> None:
    assert suggest(table).mode == "full"


def test_full_says_when_append_would_do() -> None:
    table = source_table("orders", ID, column("created_at", "datetime"))
    assert "mode: append with cursor: created_at" in suggest(table).notes[0]
    assert "once an index begins with it" in suggest(table).notes[0]
    indexes = (PRIMARY, Index("c", False, ("created_at",)))
    indexed = source_table("orders", ID, column("created_at", "datetime"), indexes=indexes)
    assert suggest(indexed).notes[0].endswith("reads less")


def test_changes_that_move_no_cursor_are_warned_of() -> None:
    keys = (
        ForeignKey(("a", "b"), "CASCADE", "SET NULL"),
        ForeignKey(("c",), "RESTRICT", "CASCADE"),
        ForeignKey(("d",), "SET NULL", "NO ACTION"),
    )
    modified = column("modified_at", "datetime")
    found = suggest(source_table("t", ID, modified, indexes=(PRIMARY, MODIFIED), foreign_keys=keys))
    assert [re.split(" (?:changes|deletes)", warned.text)[0] for warned in found.warnings] == [
        "ON DELETE CASCADE on c",
        "ON UPDATE CASCADE on a, b",
        "ON DELETE SET NULL on a, b",
        "ON UPDATE SET NULL on d",
    ]
    assert suggest(source_table("t", ID, foreign_keys=keys)).warnings == ()


@pytest.mark.parametrize(
    "default",
    ["0000-00-00 00:00:00", "'0000-00-00 00:00:00'", "'1970-01-01 00:00:01'", "2000-01-01"],
)
@pytest.mark.parametrize("extra", ["", "on update current_timestamp()"])
def test_a_time_that_begins_with_a_constant_is_no_cursor(default: str, extra: str) -> None:
    """A row inserted without it lies behind every window, and would be lost until a check."""
    modified = column("modified_at", "datetime", default=default, extra=extra)
    found = suggest(source_table("t", ID, modified, indexes=(PRIMARY, MODIFIED)))
    assert (found.mode, found.cursor, found.almost) == ("full", None, None)
    constant = default.strip("'")
    assert f"modified_at had no default like '{constant}'" in found.notes[0]
    indexes = (PRIMARY, MODIFIED, Index("u", False, ("updated_at",)))
    other = column("updated_at", "datetime", default="current_timestamp()")
    beside = suggest(source_table("t", ID, modified, other, indexes=indexes))
    assert (beside.mode, beside.cursor) == ("incremental", "updated_at")
    born = column("created_at", "datetime", default=default)
    log = source_table("audit_log", born, indexes=(Index("c", False, ("created_at",)),))
    assert suggest(log).mode == "full"


@pytest.mark.parametrize("default", [None, "current_timestamp()", "CURRENT_TIMESTAMP(6)", "now()"])
def test_a_time_that_a_clock_gives_is_a_cursor(default: str | None) -> None:
    modified = column("modified_at", "datetime", default=default)
    found = suggest(source_table("t", ID, modified, indexes=(PRIMARY, MODIFIED)))
    assert (found.mode, found.cursor) == ("incremental", "modified_at")


def test_no_snapshot_no_key_and_no_exact_type_are_warned_of() -> None:
    odd = Column("x", 1, "vector", "vector(9)", False, None, None, None, None, 9, None, "", "")
    found = suggest(source_table("t", odd, indexes=(), engine="MyISAM"))
    assert len(found.warnings) == 3
    assert "no unique key" in found.warnings[0].text
    assert "engine MyISAM has no snapshot" in found.warnings[1].text
    assert "column x vector(9) can't be kept exactly" in found.warnings[2].text


def test_hash_asks_for_a_table() -> None:
    found = suggest(source_table("t", ID, column("email"), column("first_name")))
    assert found.clean == "table"
    assert [(s.column, s.rule.pii) for s in found.rules] == [
        ("email", "hash"),
        ("first_name", "drop"),
    ]
    assert suggest(source_table("t", ID, column("first_name"))).clean is None


CARDS = ["4111111111111111", "5500000000000004", "4012888888881881", "6011111111111117"]
CARDS += ["3530111333300000"]


@pytest.mark.parametrize(
    ("key", "samples", "reason"),
    [
        (column("ssn"), [], "its name says an official number"),
        (column("card_no"), [], "its name says a card number"),
        (column("session_id"), [], "its name says a secret"),
        (column("pan"), CARDS, "5 of 5 sampled values are card numbers"),
        (column("k", "bigint"), CARDS, "5 of 5 sampled values are card numbers"),
        (column("k", "decimal"), CARDS, "5 of 5 sampled values are card numbers"),
    ],
)
def test_a_key_that_looks_personal_stays_the_key_and_is_hashed_in_clean(
    key: Column, samples: list[str], reason: str
) -> None:
    key = replace(key, precision=20, scale=0)
    indexes = (Index("PRIMARY", True, (key.name,)), MODIFIED)
    table = source_table("t", key, column("modified_at", "datetime"), indexes=indexes)
    found = suggest_contract(table, {key.name: samples})
    assert (found.mode, found.key, found.clean) == ("incremental", (key.name,), "table")
    assert [(s.column, s.rule.pii, s.rule.pci) for s in found.rules] == [(key.name, "hash", None)]
    [question] = found.warnings
    assert question.text.startswith(f"DECIDE on {key.name}: {reason}")
    assert "raw and deduped hold it, clean shows its hash" in question.text
    assert question.column == key.name


def test_without_spark_clean_is_a_view_and_nothing_is_hashed() -> None:
    columns = (column("id", "int"), column("email"), column("modified_at", "datetime"))
    table = source_table("t", *columns, indexes=(Index("PRIMARY", True, ("id",)), MODIFIED))
    assert suggest_contract(table, {}).clean == "table"
    found = suggest_contract(table, {}, hashes=False)
    assert (found.clean, [s.rule.pii for s in found.rules]) == (None, ["drop"])
    assert found.rules[0].reason.endswith(
        "not installed (extra mirrorlake[spark]), so clean is a view"
    )


def test_without_spark_nothing_is_said_of_a_keys_hash() -> None:
    indexes = (Index("PRIMARY", True, ("ssn",)), MODIFIED)
    table = source_table("t", column("ssn"), column("modified_at", "datetime"), indexes=indexes)
    found = suggest_contract(table, {}, hashes=False)
    assert [s.rule.pii for s in found.rules] == ["drop"]
    assert "raw and deduped hold it, clean shows nothing of it" in found.warnings[0].text


def test_a_key_without_a_hash_is_left_out_of_a_view(tmp_path: Path) -> None:
    """A clean table is kept by its key, so nothing of such a table can be hashed."""
    indexes = (Index("PRIMARY", True, ("session_id",)),)
    columns = (column("session_id", "binary"), column("email"), column("card_number"))
    found = suggest(source_table("t", *columns, indexes=indexes))
    assert (found.key, found.clean) == (("session_id",), None)
    said = [(s.column, s.rule.pii, s.rule.pci) for s in found.rules]
    assert said == [
        ("session_id", "drop", None),
        ("email", "drop", None),
        ("card_number", None, "never"),
    ]
    assert "clean shows nothing of it" in found.warnings[0].text
    assert "not hashed: a key column is dropped" in found.rules[1].reason
    contract = load(tmp_path, render_contract("shop", URL, [found])).table("t")
    assert (contract.key, contract.clean) == (("session_id",), "view")


def test_a_key_of_identifiers_is_hashed_without_a_question() -> None:
    indexes = (Index("PRIMARY", True, ("email",)),)
    found = suggest(source_table("t", column("email"), indexes=indexes))
    assert [(s.column, s.rule.pii) for s in found.rules] == [("email", "hash")]
    assert found.warnings == ()


def test_a_payload_is_not_dropped_for_a_few_values() -> None:
    table = source_table("t", ID, column("payload", "longtext"))
    samples = ["nothing personal"] * 151 + ["see a@example.com"] * 4
    found = suggest_contract(table, {"payload": samples})
    assert found.rules == ()
    [question] = found.warnings
    assert "DECIDE on payload: 4 of 155 sampled values hold an e-mail address" in question.text
    half = suggest_contract(table, {"payload": samples[141:151] + samples[-4:] * 3})
    assert [(s.column, s.rule.pii) for s in half.rules] == [("payload", "drop")]


def load(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, environ=ENVIRON)


def test_the_file_says_what_was_suggested(tmp_path: Path) -> None:
    found = [
        suggest(source_table("events", ID, column("created_at", "datetime"))),
        suggest(
            source_table(
                "customers",
                ID,
                column("email"),
                column("card_number"),
                column("modified_at", "datetime"),
                indexes=(PRIMARY, MODIFIED),
            )
        ),
        suggest(source_table("kinds", column("a"), indexes=(), database="other")),
    ]
    text = render_contract("shop", URL, found)
    assert text == render_contract("shop", URL, found[::-1])
    assert max(map(len, text.splitlines())) <= 100
    assert "p@ss" not in text
    config = load(tmp_path, text)
    assert len(config.tables) == 3
    for suggested in found:
        contract = config.table(suggested.table)
        for field in ("database", "mode", "key", "cursor", "created"):
            assert getattr(contract, field) == getattr(suggested, field)
        assert contract.clean == (suggested.clean or "view")
        assert contract.columns == {s.column: s.rule for s in suggested.rules}
        assert all(suggestion.reason in text for suggestion in suggested.rules)
    source = config.sources["shop"]
    assert (source.host, source.port, source.user, source.tls) == (
        "127.0.0.1",
        3307,
        "mirror",
        "off",
    )


def test_a_server_without_tables_or_password(tmp_path: Path) -> None:
    url = parse_source_url("mysql://mirror@db.example.com?ca=/x/y.pem")
    text = render_contract("shop", url, [])
    assert "password:" not in text
    config = load(tmp_path, text)
    assert config.tables == ()
    assert config.sources["shop"].tls == url.tls


def test_databases_whose_namespaces_would_meet_get_their_own(tmp_path: Path) -> None:
    names = ["my-db", "my_db", "MY.db", "my_db__raw", "my_db_2"]
    found = [suggest(source_table("t", ID, database=name)) for name in names]
    config = load(tmp_path, render_contract("shop", URL, found))
    assert len({t.namespaces.deduped.lower() for t in config.tables}) == len(names)


def test_two_tables_of_one_dotted_name_leave_one_out(tmp_path: Path) -> None:
    found = [
        suggest(source_table("b.c", ID, database="a")),
        suggest(source_table("c", ID, database="a.b")),
        suggest(source_table("d", ID, database="a.b")),
    ]
    text = render_contract("shop", URL, found)
    assert "Left out: c" in text
    assert [t.name for t in load(tmp_path, text).tables] == ["shop.a.b.c", "shop.a.b.d"]


NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=64
) | st.sampled_from(
    ["null", "~", "no", "on", "2020", "1:30", "<<", "=", "- a", "a: b", "#x", "'", '"', " "]
)


@given(NAMES)
def test_a_quoted_name_is_read_back_by_every_reader(name: str) -> None:
    assert yaml.safe_load(f"{{{quoted(name)}: [{quoted(name)}]}}") == {name: [name]}


@given(st.lists(NAMES, min_size=4, max_size=4))
def test_any_names_survive_the_file(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    database, table, key, cursor = names
    indexes = (Index("PRIMARY", True, (key,)), Index("m", False, (cursor,)))
    moves = column(cursor, "timestamp", extra="on update current_timestamp()")
    distinct = key.casefold() != cursor.casefold()
    columns = (column(key, "int"), moves) if distinct else (moves,)
    found = suggest(source_table(table, *columns, indexes=indexes, database=database))
    config = load(tmp_path_factory.mktemp("c"), render_contract("shop", URL, [found]))
    (contract,) = config.tables
    assert (contract.database, contract.table) == (database, table)
    assert (contract.key, contract.cursor) == (found.key, found.cursor)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("mysql://u@db.example.com/My-Shop", "my_shop"),
        ("mysql://u@db.example.com", "db_example_com"),
        ("mysql://u@127.0.0.1", "mysql_127_0_0_1"),
        ("mysql://u@h/%F0%9F%98%80", "mysql"),
    ],
)
def test_a_source_is_named_after_its_database_or_host(url: str, expected: str) -> None:
    assert source_name(parse_source_url(url)) == expected
    assert password_variable(expected) == f"{expected.upper()}_PASSWORD"


@pytest.mark.parametrize("name", ["so urce", "Shop", "", "1st", "a.b"])
def test_a_sources_name_is_refused_before_a_server_is_looked_at(name: str) -> None:
    refused = CliRunner().invoke(init, ["--from", "mysql://u@192.0.2.1/shop", "--name", name])
    assert refused.exit_code == 2
    assert f"write {name!r} with lower-case letters, digits and underscores" in " ".join(
        refused.output.split()
    )
