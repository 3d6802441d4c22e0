"""Faults in raw and in clean, which a comparison of deduped with MySQL can't see: `check` names each
of them, with its exit code, and the next step that it gives helps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from pyiceberg.catalog.sql import SqlCatalog

from dagster_mirrorlake.checks.layers import clean_verdict, raw_verdict
from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import TableContract
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.storage.durable import local_path
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.errors import LakeDamaged
from mirrorlake.operations.loading.fold import fold_table
from mirrorlake.operations.loading.sync import reload_days, sync_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place, lake_rows

EngineFor = Callable[..., Workspace]
Sql = Callable[..., Any]
PEOPLE = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "clean": "table",
    "columns": {
        "mail": {"pii": "hash"},
        "phone": {"pii": "mask"},
        "born": {"pii": "null"},
        "note": {"pii": "drop"},
    },
}
VISITS = {"mode": "append", "cursor": "at", "columns": {"page": {"pii": "mask"}}}


def make(sql: Sql, workspace: Workspace) -> None:
    sql(
        "CREATE TABLE people (id INT PRIMARY KEY, mail VARCHAR(60), phone VARCHAR(20), born DATE, "
        "note VARCHAR(20), cash DECIMAL(12,2), seen DATETIME, at DATETIME(6) NOT NULL, KEY (at))",
        "INSERT INTO people SELECT seq, CONCAT('m', seq, '@example.com'), CONCAT('+49 ', seq * 7), "
        "IF(seq % 5, '1990-01-01', '0000-00-00'), 'n', seq / 3, "
        "IF(seq % 7, '2026-01-01', '0000-00-00'), NOW(6) - INTERVAL 3 HOUR FROM seq_1_to_40",
        "CREATE TABLE visits (page VARCHAR(20), at DATETIME(6) NOT NULL, KEY (at))",
        "INSERT INTO visits SELECT 'a/page', NOW(6) - INTERVAL 3 HOUR FROM seq_1_to_5",
    )
    for contract in workspace.config.tables:
        sync_table(workspace, contract)


class World:
    def __init__(self, workspace: Workspace, sql: Sql, server: MariaDB) -> None:
        self.workspace, self.sql, self.server = workspace, sql, server

    def contract(self, table: str) -> TableContract:
        return next(c for c in self.workspace.config.tables if c.table == table)

    def run(self, *command: str) -> Any:
        return CliRunner().invoke(cli, [*command, "--config", str(self.workspace.config.path)])

    def check(self, table: str) -> tuple[int, dict[str, Any]]:
        """The exit code, and each layer's verdict with what differs in it."""
        found = self.run("check", table, "--json")
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        said = json.loads(found.output)
        return found.exit_code, {one["layer"]: one for one in said.get("layers", ())}

    def of(self, layer: str, table: str) -> Identifier:
        contract = self.contract(table)
        if layer == "raw":
            (version,) = self.workspace.ledger.schema_versions(contract.name)
            return Identifier(contract.namespaces.raw, version.raw_table)
        space = contract.namespaces.clean if layer == "clean" else contract.namespaces.deduped
        return Identifier(space, table)

    def plant(self, layer: str, table: str, *statements: str) -> None:
        for statement in statements:
            self.workspace.spark.run(statement.format(t=self.of(layer, table).sql))


@pytest.fixture
def world(
    server: MariaDB, sql: Sql, engine_for: EngineFor, monkeypatch: pytest.MonkeyPatch
) -> World:
    workspace = engine_for({"people": PEOPLE, "visits": VISITS})
    monkeypatch.setattr("mirrorlake.workspace.LazySpark", lambda *_: workspace.spark)
    monkeypatch.setattr("mirrorlake.workspace.Workspace.close", lambda _: None)
    make(sql, workspace)
    return World(workspace, sql, server)


@pytest.mark.full
def test_a_check_of_the_whole_table_proves_every_layer(world: World) -> None:
    """Each fault is planted, found with exit code 9, and taken away by the step that is told."""
    for table in ("people", "visits"):
        code, layers = world.check(table)
        assert (code, {n: one["verdict"] for n, one in layers.items()}) == (
            0, dict.fromkeys(("deduped", "raw", "clean"), "equal")
        ), layers  # fmt: skip
    assert world.run("check", "people", "--next").exit_code == 0
    assert "were not looked at" in world.run("check", "people", "--next").output

    # Under Dagster a table that has not changed is not read again.
    people = world.contract("people")
    assert raw_verdict(world.workspace, people, whole=False)[0]
    judged = [clean_verdict(world.workspace, people, whole=False) for _ in range(2)]
    assert [passed for passed, *_ in judged] == [True, True]
    assert "has changed since" in str(judged[1][2])

    # A clean table: doubled, lost, wrong, unmasked, unhashed.
    world.plant(
        "clean",
        "people",
        "INSERT INTO {t} SELECT * FROM {t} WHERE id = 1",
        "DELETE FROM {t} WHERE id = 2",
        "UPDATE {t} SET cash = cash + 1 WHERE id = 3",
        "UPDATE {t} SET phone = '+49 28' WHERE id = 4",
        "UPDATE {t} SET mail = 'm5@example.com', born = DATE'1990-01-01' WHERE id = 5",
    )
    code, layers = world.check("people")
    assert (code, layers["deduped"]["verdict"], layers["raw"]["verdict"]) == (9, "equal", "equal")
    assert layers["clean"]["verdict"] == "different"
    passed, metadata, words, _ = clean_verdict(world.workspace, people, whole=False)
    assert not passed
    assert "rows of deduped are not in clean" in str(words)
    assert "mirrorlake refold" in metadata["next step"]
    assert sorted(layers["clean"]["differences"]) == [
        "changed in clean (id=3): `cash` not as the rules make deduped's row",
        "changed in clean (id=4): `phone` not as the rules make deduped's row",
        "changed in clean (id=5): `born`, `mail` not as the rules make deduped's row",
        "extra in clean (id=1): deduped has no such row, or not so often",
        "missing in clean (id=2): deduped has this row",
    ]
    said = world.run("check", "people").output
    assert "mirrorlake refold" in said
    assert "m5@example.com" not in said
    proofs = json.loads(world.run("proof", "people", "--layers", "--json").output)
    assert {p["layer"]: p["verdict"] for p in proofs} == {"raw": "equal", "clean": "different"}
    refold_table(world.workspace, world.contract("people"))
    assert world.check("people")[0] == 0

    # A view that somebody replaced: by another query, and by other names of its columns.
    clean, raw = (world.of("clean", "visits"), world.contract("visits").namespaces.raw)
    own = read_view(world.workspace.lake, clean)
    assert own is not None
    for replaced in (
        f"CREATE OR REPLACE VIEW {clean.sql} AS SELECT * FROM {world.of('deduped', 'visits').sql}",
        f"CREATE OR REPLACE VIEW {clean.sql} (at, page, `{ORIGINAL}`) AS {own.sql}",
        f"DROP VIEW {clean.sql}",
    ):
        world.workspace.spark.run(replaced)
        code, layers = world.check("visits")
        assert (code, layers["clean"]["verdict"]) == (9, "different"), replaced
        sync_table(world.workspace, world.contract("visits"))  # nothing is new in MySQL
        made = read_view(world.workspace.lake, clean)
        assert made is not None
        assert (made.sql, made.schema.column_names) == (own.sql, own.schema.column_names)
        assert world.check("visits")[0] == 0
    edit_by_hand(world, clean)
    code, layers = world.check("visits")
    assert (code, layers["clean"]["verdict"]) == (9, "different")
    sync_table(world.workspace, world.contract("visits"))
    assert world.check("visits")[0] == 0
    over_raw = Identifier(raw, "visits")
    world.workspace.spark.run(f"CREATE OR REPLACE VIEW {over_raw.sql} AS SELECT 1 AS page")
    assert world.check("visits")[1]["raw"]["verdict"] == "different"
    sync_table(world.workspace, world.contract("visits"))
    assert world.check("visits")[0] == 0


def edit_by_hand(world: World, view: Identifier) -> None:
    """Let a view show its pages unmasked, in its metadata file: Hadoop's checksum beside it is then
    wrong, and Spark can't read it any more."""
    assert isinstance(world.workspace.lake.catalog, SqlCatalog)
    find = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = :n AND table_name = :t"
    with world.workspace.lake.catalog.engine.connect() as connection:
        at = connection.scalar(sa.text(find), {"n": view.namespace, "t": view.name})
    path = local_path(str(at))
    assert path is not None
    text = path.read_text()
    edited = re.sub(r"CASE WHEN `page` IS NULL .*? END\) END AS", "`page` AS", text)
    assert edited != text
    path.write_text(edited)


def data_files(world: World, table: str) -> list[Path]:
    raw = world.workspace.lake.load(world.of("raw", table))
    assert raw is not None
    paths = [local_path(task.file.file_path) for task in raw.scan().plan_files()]
    return [path for path in paths if path is not None]


@pytest.mark.full
def test_what_rotted_in_raw_or_was_put_there_is_never_folded(world: World) -> None:
    contract = world.contract("people")
    (path,) = data_files(world, "people")
    sound = path.read_bytes()
    # A sound Parquet file with other values: no reader would notice.
    rows = pq.read_table(path)
    at = rows.schema.get_field_index("phone")
    other = rows.set_column(at, rows.schema.field(at), rows["mail"])
    pq.write_table(other, path, compression="zstd")
    code, layers = world.check("people")
    assert (code, layers["raw"]["verdict"]) == (9, "different")
    assert str(path) in str(layers["raw"]["differences"])
    before = lake_rows(world.workspace, contract.namespaces.deduped, "people")
    with pytest.raises(LakeDamaged, match="its raw table"):
        refold_table(world.workspace, contract)
    assert lake_rows(world.workspace, contract.namespaces.deduped, "people") == before
    path.write_bytes(sound)
    assert world.check("people")[0] == 0

    # A row that no load read, under the number of one: a fold of it would take it for MySQL's.
    world.plant("raw", "people", "INSERT INTO {t} SELECT * FROM {t} WHERE id = 1")
    code, layers = world.check("people")
    assert (code, layers["raw"]["verdict"]) == (9, "different")
    world.sql("UPDATE people SET cash = 5, at = NOW(6) WHERE id = 1")
    with pytest.raises(LakeDamaged, match="no load wrote it"):
        sync_table(world.workspace, contract)
    foreign = next(p for p in data_files(world, "people") if p.name.startswith("0000"))
    # As the error says: out with that file.
    world.plant("raw", "people", f"DELETE FROM {{t}} WHERE _file LIKE '%{foreign.name}'")
    sync_table(world.workspace, contract)
    assert world.check("people")[0] == 0
    refold_table(world.workspace, contract)
    deduped = world.workspace.lake.load(world.of("deduped", "people"))
    assert deduped is not None
    with world.server.admin() as admin:
        verdict = compare_table(admin, contract.database, "people", contract.key, deduped)
    assert verdict.equal, verdict.describe()


@pytest.mark.full
def test_the_repair_of_a_row_and_a_reload_leave_raw_proved(world: World, place: Place) -> None:
    """Tombstones and files that a reload replaces are recorded as any other."""
    contract = world.contract("people")
    day = datetime.now(UTC).date() - timedelta(days=2)
    world.sql(
        f"UPDATE people SET at = '{day} 01:00' WHERE id < 5", "DELETE FROM people WHERE id = 9"
    )
    reload_days(world.workspace, contract, day, day)
    fold_table(world.workspace, contract)
    assert world.run("repair", "people", "--deletes", "--yes").exit_code == 0
    code, layers = world.check("people")
    assert (code, layers["raw"]["verdict"], layers["clean"]["verdict"]) == (0, "equal", "equal")
