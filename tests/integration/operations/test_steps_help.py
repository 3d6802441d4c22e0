"""The steps that errors advise, taken one after another on one table: each helps."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from mirrorlake.config import TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import (
    ConfigError,
    LakeError,
    LandingError,
    MirrorlakeError,
    ProofError,
    SchemaError,
)
from mirrorlake.landing.check import check_snapshots
from mirrorlake.landing.decisions import skip_snapshots
from mirrorlake.landing.fold.publish import roll_table_back
from mirrorlake.landing.land import fold_snapshots
from mirrorlake.landing.rolled_back import find_withdrawn
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.operations.repairing.repair import repair_table
from mirrorlake.operations.tenants.checks import check_tenants
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.counts import count_rows
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.serving.clean_version import open_clean
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.lake_tables import deduped_of as lake_deduped_of
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.landing.test_landing import IDS, Feed, line
from tests.integration.tenants import Tenants

TERMS: dict[str, Any] = {"mode": "incremental", "key": ["id"], "cursor": "at"}


def test_a_sync_that_is_advised_helps(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    def opened(**more: Any) -> tuple[Workspace, TableContract]:
        workspace = engine_for({"t": {**TERMS, **more}})
        return workspace, workspace.config.table("t")

    def helps(workspace: Workspace, contract: TableContract) -> None:
        sync_table(workspace, contract)
        assert check_table(workspace, contract, Ask()).verdict == "equal"

    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, v INT, at DATETIME NOT NULL, KEY (at))",
        "INSERT INTO t VALUES (1, 1, '2020-01-01'), (2, 2, '2020-01-01')",
    )
    now = opened(repair="off")
    with pytest.raises(LakeError, match=r"is not there. .*`mirrorlake sync` it"):
        open_clean(*now)
    with pytest.raises(ProofError, match=r"not mirrored yet: .* Sync it first"):
        check_table(*now, Ask())
    with pytest.raises(ConfigError, match=r"no load of it succeeded, .* Sync it first"):
        refold_table(*now)
    helps(*now)
    assert open_clean(*now).table().num_rows == 2
    with pytest.raises(ConfigError, match=r"repair: off. Set repair to ask or auto"):
        repair_table(*now, Ask())
    now = opened()
    assert repair_table(*now, Ask()).outcome == "equal"
    sql("ALTER TABLE t ADD COLUMN w INT DEFAULT 7")
    with pytest.raises(SchemaError, match=r"than were loaded: w was added. Sync it first"):
        check_table(*now, Ask())
    with pytest.raises(SchemaError, match=r"other columns than were loaded. Sync it first"):
        refold_table(*now)
    helps(*now)
    refold_table(*now)
    now = opened(deletes="flag")
    with pytest.raises(ProofError, match=r"deletes are to be flagged, .* Sync it first"):
        check_table(*now, Ask())
    helps(*now)
    workspace, contract = now
    # As after an edit that makes a column another one: renamed away, it is rebuilt from raw.
    deduped = contract.namespaces.deduped
    workspace.lake.catalog.rename_table((deduped, "t"), (deduped, "away"))
    with pytest.raises(ProofError, match=r"not mirrored yet: .* Sync it first"):
        check_table(*now, Ask())
    helps(*now)
    view = Identifier(contract.namespaces.clean, "t")
    workspace.spark.get().sql(f"CREATE OR REPLACE VIEW {view.sql} AS SELECT 1 AS id")
    with pytest.raises(LakeError, match=r"it may show what the contract hides. Sync the table"):
        open_clean(*now)
    helps(*now)
    assert open_clean(*now).table().num_rows == 2


@dataclass(frozen=True)
class Edit:
    """A table and a contract that are refused, and what makes them right.

    Attributes:
        columns: of the table, beside its key; what the contract says of it.
        says: of the refusal, with its next step.
        run: statements that the step names, of MySQL.
        write: what the step has written in the contract; None takes a setting out.
    """

    columns: str
    terms: dict[str, Any]
    says: str
    run: str = ""
    write: dict[str, Any] = field(default_factory=dict[str, Any])


FULL: dict[str, Any] = {"mode": "full", "key": ["id"]}
NAMED = "at DATETIME NOT NULL, KEY (at)"
EDITS = {
    "a cursor that can be NULL": Edit(
        "at DATETIME, KEY (at)", TERMS, "Declare at NOT NULL in MySQL",
        run="ALTER TABLE t MODIFY at DATETIME NOT NULL",
    ),
    "a cursor that can be NULL, and has no index": Edit(
        "at DATETIME", TERMS, "Declare at NOT NULL in MySQL and add an index on it",
        run="ALTER TABLE t MODIFY at DATETIME NOT NULL, ADD KEY (at)",
    ),
    "a cursor that can be NULL, as a copy": Edit(
        "at DATETIME, KEY (at)", TERMS, "or use mode full", write=FULL | {"cursor": None},
    ),
    "a cursor without an index": Edit(
        "at DATETIME NOT NULL", TERMS, "Add an index on at in MySQL",
        run="ALTER TABLE t ADD KEY (at)",
    ),
    "a cursor of text": Edit(
        "w VARCHAR(9) NOT NULL, at DATETIME NOT NULL, KEY (w), KEY (at)", TERMS | {"cursor": "w"},
        "Name an integer, DATE, DATETIME or TIMESTAMP column", write={"cursor": "at"},
    ),
    "a cursor of keys for changes": Edit(
        NAMED, TERMS | {"cursor": "id"}, "Name the column that changes with every update",
        write={"cursor": "at"},
    ),
    "no key": Edit(NAMED, TERMS | {"key": []}, "mode incremental needs the columns of a unique key", write={"key": ["id"]}),
    "no key that MySQL keeps unique": Edit(
        f"n INT NOT NULL, {NAMED}", TERMS | {"key": ["n"]}, "Name the columns of its primary key",
        write={"key": ["id"]},
    ),
    "a created that is no time": Edit(
        f"n INT, {NAMED}", TERMS | {"created": "n"}, "or leave `created` out", write={"created": None},
    ),
    "a mask of a number": Edit(
        "n INT", FULL | {"columns": {"n": {"pii": "mask"}}}, "Use null, drop or hash",
        write={"columns": {"n": {"pii": "null"}}},
    ),
    "a name of Iceberg's": Edit(
        "_pos INT", FULL, "Give _pos a `name_in_lake` and a `pii` rule under `columns`",
        write={"columns": {"_pos": {"name_in_lake": "place", "pii": "show"}}},
    ),
    "a name of Iceberg's, left out": Edit(
        "_pos INT", FULL, "write `{pci: never}` for it to leave it out",
        write={"columns": {"_pos": {"pci": "never"}}},
    ),
    "another name in the lake that is taken": Edit(
        "a INT, b INT", FULL | {"columns": {"a": {"name_in_lake": "b", "pii": "show"}}}, "Choose another name_in_lake",
        write={"columns": {"a": {"name_in_lake": "c", "pii": "show"}}},
    ),
    "a rule for a column that is not there": Edit(
        "mail INT", FULL | {"columns": {"male": {"pii": "drop"}}}, "Its columns are: id, mail",
        write={"columns": {"mail": {"pii": "drop"}}},
    ),
    "an entity without an index": Edit(
        f"who VARCHAR(9) NOT NULL, born DATE, {NAMED}",
        TERMS | {"mode": "append", "entity": {"token": "who", "created": "born"}},
        "Add an index on (who, born) in MySQL", run="ALTER TABLE t ADD KEY (who, born)",
    ),
    "a token that can be NULL": Edit(
        f"who VARCHAR(9), w INT NOT NULL, born DATE, KEY (w), {NAMED}",
        TERMS | {"mode": "append", "entity": {"token": "who", "created": "born"}},
        "Name a column that is NOT NULL", write={"entity": {"token": "w", "created": "born"}},
    ),
    "hours of a date": Edit(
        "at DATE NOT NULL, KEY (at)", TERMS | {"partition": "hour"}, "Choose `partition: day`",
        write={"partition": "day"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", EDITS)
def test_an_edit_that_is_advised_helps(
    case: str, sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    edit = EDITS[case]
    sql(f"CREATE TABLE t (id INT PRIMARY KEY, {edit.columns})")

    def resolved(terms: dict[str, Any]) -> None:
        terms = {name: value for name, value in terms.items() if value is not None}
        workspace = engine_for({"t": terms})
        contract = workspace.config.table("t")
        source = workspace.config.sources[contract.source]
        with session(source, contract.database) as connection:
            resolve_table(workspace, contract, connection)

    with pytest.raises(MirrorlakeError) as refused:
        resolved(edit.terms)
    assert edit.says in str(refused.value)
    if edit.run:
        sql(edit.run)
    resolved(edit.terms | edit.write)


def test_a_new_copy_that_is_advised_helps(
    sql: Callable[..., Any], engine_for: Callable[..., Workspace]
) -> None:
    """Of a ledger that was lost, and rebuilt, nobody knows how many rows a copy read."""
    sql("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1), (2)")
    workspace = engine_for({"t": FULL})
    contract = workspace.config.table("t")
    load = sync_table(workspace, contract).load_id
    with sqlite3.connect(make_url(workspace.config.ledger.url).database or "") as ledger:
        ledger.execute("UPDATE loads SET receipt = NULL WHERE load_id = ?", (load,))
    with pytest.raises(ProofError, match="Sync it: a new copy records it"):
        count_rows(workspace, contract)
    sync_table(workspace, contract)
    assert count_rows(workspace, contract).verdict == "equal"


@pytest.mark.full
def test_steps_that_are_advised_of_tenants_help(
    place: Place, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenants = Tenants(server, place, f"t{uuid.uuid4().hex[:8]}")
    for name in ("a", "b"):
        tenants.make(name, "id INT PRIMARY KEY, n INT", "(1, 1)", "(2, 2)")

    def of_ledger(change: Callable[[Workspace, TenantTable], None]) -> None:
        with tenants.opened() as opened:
            change(*opened)

    def check() -> str:
        with tenants.opened() as opened:
            return check_tenants(*opened).verdict

    def spark(statement: str) -> None:
        with tenants.opened() as (workspace, _):
            workspace.spark.get().sql(statement)

    def forget_fold(workspace: Workspace, table: TenantTable) -> None:
        known = workspace.ledger.tenants(table.name).values()
        workspace.ledger.record_tenants(table.name, [replace(one, folded=None) for one in known])

    def forget_making(workspace: Workspace, table: TenantTable) -> None:
        for name in workspace.ledger.definitions(""):
            if str(deduped_of(table)) in name:
                workspace.ledger.forget_definition(name)
        deduped = deduped_of(table)
        workspace.ledger.forget_lake_heads([(deduped.namespace, deduped.name)])

    try:
        with pytest.raises(ConfigError, match=r"has no tenant that was read. `mirrorlake sync`"):
            check()
        tenants.sync()
        assert check() == "equal"
        with tenants.opened() as (_, table):
            deduped = deduped_of(table)
        # Rows were lost between raw and what readers were to see.
        of_ledger(forget_fold)
        with monkeypatch.context() as patch:
            patch.setattr("mirrorlake.merge.tenant_layer.count_rows", lambda *_: {})
            with pytest.raises(
                LakeError, match="and sync again: these tenants are then read again"
            ):
                tenants.sync()
        assert tenants.sync().read
        assert check() == "equal"
        # A colleague's ledger, which did not make deduped, and a column of another type.
        of_ledger(forget_making)
        tenants.run("a", "ALTER TABLE orders MODIFY n VARCHAR(9)")
        with pytest.raises(LakeError, match=rf"Rename {deduped} .*, then sync again"):
            tenants.sync()
        spark(f"ALTER TABLE {deduped.sql} RENAME TO {deduped.namespace}.away")
        tenants.sync()
        assert check() == "equal"
    finally:
        tenants.close()


@pytest.mark.full
def test_steps_that_are_advised_of_snapshots_help(place: Place) -> None:
    feed = Feed(place, f"h{uuid.uuid4().hex[:6]}", complete="marker")
    with pytest.raises(LakeError, match=r"Fold one first: `mirrorlake land`"):
        check_snapshots(feed.workspace, feed.contract)
    with pytest.raises(LandingError, match=r"has not landed. .*or run `mirrorlake land`"):
        fold_snapshots(feed.workspace, feed.contract, [IDS[0]])
    for number in range(2):
        feed.land(IDS[number], [line(number)])
    feed.arrive()
    assert check_snapshots(feed.workspace, feed.contract).verdict == "equal"
    table = feed.workspace.lake.load(lake_deduped_of(feed.contract))
    assert table is not None
    folder = Path(table.location().removeprefix("file://")) / "fold"
    newest = max(
        (one for one in folder.rglob("*") if one.is_file()), key=lambda p: p.stat().st_mtime
    )
    newest.rename(newest.with_suffix(".lost"))
    with pytest.raises(LakeError, match=r"can't be read .*Bring the file back"):
        check_snapshots(feed.workspace, feed.contract)
    newest.with_suffix(".lost").rename(newest)
    assert check_snapshots(feed.workspace, feed.contract).verdict == "equal"
    with pytest.raises(LandingError, match=r"is published already. .*--rollback"):
        skip_snapshots(feed.workspace, feed.contract, [str(IDS[1])])
    with feed.workspace.leased(feed.contract) as leased:
        roll_table_back(
            leased.lake, leased.ledger, lake_deduped_of(feed.contract), lease=leased.held_lease()
        )
        find_withdrawn(leased.lake, leased.ledger, feed.contract)
    assert skip_snapshots(feed.workspace, feed.contract, [str(IDS[1])]) == [IDS[1]]
