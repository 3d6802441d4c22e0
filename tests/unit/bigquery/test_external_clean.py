"""What the view for readers shows of a table that services write in BigQuery."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.bigquery.external_clean import clean_view
from mirrorlake.errors import ModelError
from mirrorlake.models.files.external_table import ExternalDeclaration, read_external
from mirrorlake.runtime.google.tables import BigQueryTable

TABLE = BigQueryTable("proj", "app", "events")
EVENTS = """format: bigquery
table: proj.app.events
columns: {id: bigint, Email: string, card: string, born: date, note: string, tags: array<string>}
hidden: [email, card, born]
"""
THERE = [
    {"name": "id", "type": "INTEGER"},
    {"name": "Email", "type": "STRING"},
    {"name": "born", "type": "DATE"},
    {"name": "note", "type": "STRING"},
    {"name": "added", "type": "STRING"},
]


def declared(folder: Path, text: str) -> ExternalDeclaration:
    path = folder / "models" / "app" / "events.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return read_external(path)


def test_hidden_columns_are_there_only_as_a_rule_shows_them(tmp_path: Path) -> None:
    one = declared(tmp_path, EVENTS + "clean: {email: mask, born: null, Note: drop}")
    columns, sql = clean_view(one, TABLE, THERE)
    # Neither what is hidden without a rule, nor what the file does not declare.
    assert columns == ("id", "Email", "born", "tags")
    assert "card" not in sql
    assert "added" not in sql
    assert "note" not in sql
    assert "CAST(NULL AS DATE) AS `born`" in sql
    assert "********" in sql
    assert sql.endswith("FROM `proj.app.events`")
    assert one.checks == ("contract", "clean")


def test_an_empty_rule_is_a_view_without_what_is_hidden(tmp_path: Path) -> None:
    columns, _ = clean_view(declared(tmp_path, EVENTS + "clean: {}"), TABLE, THERE)
    assert columns == ("id", "note", "tags")
    assert declared(tmp_path, EVENTS).clean is None
    assert declared(tmp_path, EVENTS).checks == ("contract",)


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ("{e_mail: mask}", "5:9: clean.e_mail: there is no column e_mail"),
        ("{emial: mask}", "there is no column emial; did you mean"),
        ("{email: mask, EMAIL: show}", "5:22: clean.EMAIL: two rules are for one column"),
        ("{born: mask}", "a date can't be masked: a text alone"),
        ("{tags: null}", "a array<string> can't be emptied: drop it"),
        ("{card: hash}", "clean.card"),
        ("", "5:1: clean: has no value: {} is a view without rules"),
        ("{id: drop, note: drop, tags: drop}", "the view would have no column"),
    ],
)
def test_rules_that_can_not_be(tmp_path: Path, rules: str, words: str) -> None:
    with pytest.raises(ModelError) as raised:
        declared(tmp_path, EVENTS + f"clean: {rules}")
    assert words in str(raised.value)


def test_other_formats_have_no_such_view(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="this is for bigquery alone"):
        declared(tmp_path, "format: iceberg\ncolumns: {id: int}\nclean: {}\n")
