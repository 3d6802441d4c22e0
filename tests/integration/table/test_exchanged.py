"""Columns that are renamed into each other in MySQL, past a rule that hides one of them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.schema_changes.exchanged_columns import accept_columns
from mirrorlake.operations.status.status import status_of
from mirrorlake.preflight.tables import preflight
from mirrorlake.workspace import Workspace
from tests.integration.table.test_new_columns import clean_columns

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
CONTRACT = {"mode": "incremental", "key": ["id"], "cursor": "at"}
CREATE = """CREATE TABLE {name} (id INT PRIMARY KEY, mail VARCHAR(30), note VARCHAR(30),
    card VARCHAR(30), at DATETIME NOT NULL, KEY (at))"""
SWAP = "RENAME COLUMN mail TO note, RENAME COLUMN note TO mail"
NEVER_READ = "RENAME COLUMN card TO note, RENAME COLUMN note TO card"
TAKEN = "DROP COLUMN note, RENAME COLUMN mail TO note"
MOVED = "MODIFY note VARCHAR(30) AFTER id"
ALL = {"mail": {"pii": "mask"}, "card": {"pci": "never"}}


@pytest.mark.full
def test_hidden_values_are_not_shown_under_the_other_name(
    sql: Sql, engine_for: EngineFor, caplog: pytest.LogCaptureFixture
) -> None:
    """Held out where the rows tell of an exchange, or nothing; shown where they tell of none."""
    changes = {"swapped": SWAP, "never": NEVER_READ, "moved": MOVED, "empty": MOVED, "taken": TAKEN}
    for name in changes:
        rows = f"INSERT INTO {name} VALUES " + ", ".join(
            f"({n}, 'ann{n}@example.com', 'note {n}', '411{n}', '2020-01-0{n}')"
            for n in range(1, 6)
        )
        sql(CREATE.format(name=name), *([rows] if name != "empty" else []))

    def workspace(columns: dict[str, Any] = ALL, **others: Any) -> Workspace:
        terms = {n: CONTRACT | {"columns": columns} | others.get(n, {}) for n in changes}
        terms["never"]["clean"] = "table"
        return engine_for(terms)

    def sync(of: Workspace, name: str) -> tuple[set[str], str]:
        """What clean has of the columns, and all that it shows."""
        caplog.clear()
        contract = of.config.table(name)
        sync_table(of, contract)
        held = status_of(of.config, of.ledger, [contract])[0].held_columns
        names = {"mail", "note"} & set(clean_columns(of, contract))
        assert not names & set(held)
        return names, str(
            of.spark.get().table(f"lake.{contract.namespaces.clean}.{name}").collect()
        )

    first = workspace()
    for name in changes:
        assert sync(first, name)[0] == {"mail", "note"}
        if name != "taken":
            (found,) = preflight(first, f"ALTER TABLE {name} {changes[name]}")
            words = [f.words for f in found.findings if f.severity == "breaks"]
            is_named = any("leaves both out" in line for line in words)
            assert is_named == (name in ("swapped", "never")), (name, words)
            assert bool(words) == is_named
        sql(f"ALTER TABLE {name} {changes[name]}")
    with caplog.at_level(logging.WARNING):
        names, rows = sync(first, "swapped")
        assert names == set()
        assert "example.com" not in rows
        assert "note may have what mail had: held out of clean" in caplog.text
        assert "example.com" not in sync(first, "swapped")[1]  # nor by a later sync
        names, rows = sync(first, "never")
        assert names == {"mail"}
        assert "411" not in rows
        names, rows = sync(first, "moved")
        assert names == {"mail", "note"}
        assert "note 1" in rows
        assert "may have what" not in caplog.text
        assert sync(first, "empty")[0] == set()
    # What is left of the contract: MySQL has no `mail` any more.
    after = workspace(taken={"columns": {"card": {"pci": "never"}}})
    names, rows = sync(after, "taken")
    assert names == set()
    assert "example.com" not in rows
    # A person decides: by the rules, or by a word.
    ruled = {"note": {"pii": "mask"}, "mail": {"pii": "show"}, "card": {"pci": "never"}}
    names, rows = sync(workspace(swapped={"columns": ruled}), "swapped")
    assert names == {"mail", "note"}
    assert "note 1" in rows
    assert "ann1@" not in rows
    assert accept_columns(first, first.config.table("empty")) == (("mail", "note"),)
    assert sync(first, "empty")[0] == {"mail", "note"}
