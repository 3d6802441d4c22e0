"""Columns that may have been exchanged, by the ledger's word, and a person's word about them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.schema_changes.exchanged_columns import exchanged_since
from mirrorlake.operations.schema_changes.recorded_contracts import record_contract
from mirrorlake.operations.status.status import status_of
from mirrorlake.table.columns.exchanged import exchanged_name, record_exchanged
from mirrorlake.table.columns.source_columns import SourceColumn, record_source_columns

CONTRACT = """
version: 1
lake: {warehouse: lake}
ledger: {url: "sqlite:///ledger.db"}
sources:
  s:
    host: 127.0.0.1
    user: mirror
    password: "${env:NO_SUCH_PASSWORD}"
    databases:
      d:
        tables:
          people: {mode: full, key: [id], columns: {email: {pii: mask}}}
"""
TYPES = {"id": "int", "email": "varchar(9)", "nick": "varchar(9)"}


@pytest.fixture
def contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_SUCH_PASSWORD", "x")
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    return path


class _Table:
    """What is asked of a source's table here: its columns."""

    def __init__(self, *names: str) -> None:
        self.columns = [_Column(name) for name in names]


class _Column:
    def __init__(self, name: str) -> None:
        self.name, self.column_type = name, TYPES[name]


def test_a_rule_in_the_same_release_decides_before_anything_is_held(contract: Path) -> None:
    config = load_config(contract)
    ledger, people = Ledger(config.ledger.url), config.table("people")
    columns = [SourceColumn(name, kind) for name, kind in TYPES.items()]
    record_source_columns(ledger, people, columns)
    record_contract(ledger, people)

    def found(rules: str = "{email: {pii: mask}}", *names: str) -> Any:
        contract.write_text(before.replace("{email: {pii: mask}}", rules))
        table: Any = _Table(*(names or ("id", "nick", "email")))
        return exchanged_since(ledger, load_config(contract).table("people"), table)

    before = contract.read_text()
    assert found("{email: {pii: mask}}", "id", "email", "nick") == ()
    assert found() == (("email", "nick"),)
    assert found("{email: {pii: show}, nick: {pii: mask}}") == ()
    assert found("{email: {pii: mask}, nick: {pii: show}}") == ()
    # That a rule is taken out decides nothing.
    assert found("{}") == (("email", "nick"),)
    assert found("{}", "id", "nick") == (("email", "nick"),)


def test_a_person_says_that_the_rules_are_right(
    contract: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CONFIG", str(contract))
    config = load_config(contract)
    ledger, people = Ledger(config.ledger.url), config.table("people")
    arguments = ["accept", "--columns", "people"]
    refused = CliRunner().invoke(cli, arguments).exception
    assert isinstance(refused, ConfigError)
    assert "table s.d.people: no column is held out of clean because" in str(refused)
    record_exchanged(ledger, people, [("email", "born")])
    ran = CliRunner().invoke(cli, [*arguments, "--json"])
    assert json.loads(ran.stdout) == {"table": "s.d.people", "columns": [["email", "born"]]}
    assert ledger.definition(exchanged_name(people)) is None
    assert status_of(config, ledger, [people])[0].held_columns == ()
    record_exchanged(ledger, people, [("email", "born")])
    words = CliRunner().invoke(cli, arguments).stdout
    assert words.startswith("s.d.people: born, email: by the contract's rules in clean again")
