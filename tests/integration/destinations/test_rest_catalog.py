"""A lake whose catalog a REST server keeps: the layers, and answers that are lost."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pyiceberg.exceptions import NoSuchTableError

from demo.oracle import compare_table
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import CatalogFailed, CommitUnknown, LakeError
from mirrorlake.operations.loading.sync import sync_table
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.repairing.refold import refold_table
from mirrorlake.runtime.embedded.server import EmbeddedServer
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place
from tests.integration.contract_files import write_contract
from tests.integration.hands import (
    Hand,
    LakePart,
    another,
    branch_dropped,
    compacted,
    expired,
    old_catalog,
    old_lake,
    out_of_catalog,
    purged,
    row_added,
    row_deleted,
    set_back,
)
from tests.integration.projects import SparkBeside
from tests.support.command import COMMAND
from tests.support.rest_catalog import (
    CREDENTIAL,
    NO_ANSWER,
    Fault,
    RestCatalogServer,
    running_catalog,
)

TABLE = {
    "mode": "incremental",
    "key": ["id"],
    "cursor": "at",
    "verify": True,
    "columns": {"mail": {"pii": "mask"}, "a": {"pii": "show"}},
}
CREATE = (
    "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(10,2), mail VARCHAR(40),"
    " at DATETIME(6) NOT NULL DEFAULT UTC_TIMESTAMP(6), KEY (at))"
)
FIRST = "INSERT INTO t (id, a, mail) VALUES (1, 1.10, 'ann@x'), (2, NULL, ''), (3, -3, NULL)"
MORE = (
    "INSERT INTO t (id, a, mail) VALUES (4, 4, 'dan@x')",
    "UPDATE t SET a = a + 1, at = UTC_TIMESTAMP(6) WHERE id = 1",
)


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestCatalogServer]:
    folder = tmp_path_factory.mktemp("läke of rest")
    with running_catalog(folder, f"file://{folder}/unused") as server:
        yield server


@pytest.fixture
def config_path(
    tmp_path: Path,
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A contract of one table; the credential is nowhere but in the environment."""
    monkeypatch.setenv("CATALOG_CREDENTIAL", CREDENTIAL)
    catalog.faults.clear()
    return contract_file(tmp_path, server, database, catalog, {})


def contract_file(
    folder: Path,
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
    terms: dict[str, Any],
) -> Path:
    properties = {
        "credential": "${env:CATALOG_CREDENTIAL}",
        "oauth2-server-uri": f"{catalog.uri}/v1/oauth/tokens",
    }
    return write_contract(
        folder / "mirrorlake.yaml",
        server.port,
        {database: {"tables": {"t": {**TABLE, **terms}}}},
        lake={"warehouse": "lake", "catalog": {"uri": catalog.uri, "properties": properties}},
        ledger={"url": "sqlite:///ledger.db"},
    )


@pytest.fixture
def opened(config_path: Path, place: Place) -> Callable[[], Workspace]:
    """Workspaces of runs, one after another."""

    def open_one() -> Workspace:
        config = load_config(config_path)
        return Workspace.open(config, spark=SparkBeside(config, place.spark))

    return open_one


def sync(workspace: Workspace) -> None:
    sync_table(workspace, workspace.config.table("t"))


def is_exact(workspace: Workspace, server: EmbeddedServer, database: str) -> bool:
    """Deduped is MySQL's rows, each load is in raw once, and the ledger has nothing open."""
    contract = workspace.config.table("t")
    deduped = workspace.lake.load(Identifier(contract.namespaces.deduped, "t"))
    with server.admin() as admin:
        verdict = compare_table(admin, database, "t", contract.key, deduped)
    assert verdict.equal, verdict.describe()
    ledger = workspace.ledger
    loads = ledger.successful_loads(contract.name, 0)
    for name in {load.raw_table for load in loads}:
        raw = workspace.lake.load(Identifier(contract.namespaces.raw, name))
        assert raw is not None
        rows = raw.scan().to_arrow()
        assert set(rows["_mirror_load"].to_pylist()) <= {load.load_id for load in loads}
        assert rows.group_by(["id", "_mirror_load"]).aggregate([]).num_rows == rows.num_rows
        assert set(raw.refs()) == {"main"}
    return not [load for load in ledger.unsettled_loads(contract.name) if load.state == "pending"]


def test_every_layer_is_mysqls(
    opened: Callable[[], Workspace], sql: Callable[..., Any], server: EmbeddedServer, database: str
) -> None:
    sql(CREATE, FIRST)
    sync(opened())
    sql(*MORE, "ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
    workspace = opened()
    sync(workspace)
    assert is_exact(workspace, server, database)
    contract = workspace.config.table("t")
    clean = Identifier(contract.namespaces.clean, "t")
    rows = workspace.spark.get().sql(f"SELECT id, a, mail FROM {clean.sql}").collect()
    assert sorted(row.id for row in rows) == [1, 2, 3, 4]
    assert "ann@x" not in {row.mail for row in rows}
    refold_table(workspace, contract)
    assert is_exact(workspace, server, database)


# --- answers that are lost ------------------------------------------------------------------------

OFTEN = ("__raw", 502)


@pytest.mark.full
@pytest.mark.parametrize(
    ("layer", "status"),
    [
        pytest.param(layer, status, marks=() if (layer, status) == OFTEN else pytest.mark.full)
        for layer in ("__raw", "")
        for status in (500, 502, 503, 504, NO_ANSWER)
    ],
)
def test_a_commit_whose_answer_is_lost_is_made_once(
    layer: str,
    status: int,
    opened: Callable[[], Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
) -> None:
    sql(CREATE, FIRST)
    sync(opened())
    sql(*MORE)
    planted = Fault(f"s_{database}{layer}/", "now", status)
    catalog.faults.append(planted)
    with suppress(LakeError):
        sync(opened())
    assert planted.times == 0
    sync(opened())
    assert is_exact(opened(), server, database)


@pytest.mark.full
@pytest.mark.parametrize(
    "next_run", ["after it", pytest.param("before it", marks=pytest.mark.full)]
)
def test_a_commit_that_is_made_late_has_its_files(
    next_run: str,
    opened: Callable[[], Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
) -> None:
    """The server answers that it took too long, and makes it nevertheless."""
    sql(CREATE, FIRST)
    sync(opened())
    sql(*MORE)
    catalog.faults.append(Fault(f"s_{database}__raw/", "late", 504))
    with pytest.raises(CommitUnknown, match="whether the commit was made is not known"):
        sync(opened())
    if next_run == "after it":
        assert catalog.finish() == ["made"]
        sync(opened())
    else:
        sync(opened())
        assert catalog.finish() == ["refused"]
    sync(opened())
    assert is_exact(opened(), server, database)


@pytest.mark.full
def test_a_first_commit_that_was_never_made_is_made_by_the_next_run(
    opened: Callable[[], Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
) -> None:
    sql(CREATE, FIRST)
    catalog.faults.append(Fault(f"s_{database}__raw/", "never", 500))
    with pytest.raises(CommitUnknown):
        sync(opened())
    workspace = opened()
    assert recover_table(workspace, workspace.config.table("t")).errored == 1
    sync(opened())
    assert is_exact(opened(), server, database)


# --- servers that are not there -------------------------------------------------------------------


def told(config_path: Path, *arguments: str) -> str:
    """What a command says that ends with the lake's exit code, on one line."""
    result = CliRunner().invoke(cli, [*arguments, "--config", str(config_path)])
    assert isinstance(result.exception, LakeError), result.output
    assert result.exception.exit_code == 6
    assert CREDENTIAL.split(":")[1] not in str(result.exception)
    return str(result.exception)


def test_a_catalog_that_is_not_there_is_one_error(
    config_path: Path, catalog: RestCatalogServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = config_path.read_text()
    with monkeypatch.context() as other:
        other.setenv("CATALOG_CREDENTIAL", "lake:wrong")
        assert f"{catalog.uri} refuses this account" in told(config_path, "sync")
    ours = f"    uri: {catalog.uri}\n"
    assert ours in text
    config_path.write_text(text.replace(ours, "    uri: http://127.0.0.1:1\n"))
    assert "http://127.0.0.1:1 failed, or can't be reached" in told(config_path, "sync")
    config_path.write_text(text.replace(ours, f"    uri: {catalog.uri}/else\n"))
    assert "can't do what was requested" in told(config_path, "sync")


@pytest.mark.full
def test_a_catalog_that_goes_away_leaves_everything(
    opened: Callable[[], Workspace],
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
) -> None:
    sql(CREATE, FIRST)
    sync(opened())
    sql(*MORE)
    workspace = opened()
    tokens = set(catalog.tokens)
    port, workspace.lake.catalog.uri = catalog.port, "http://127.0.0.1:1"  # type: ignore[attr-defined]
    with pytest.raises(CatalogFailed, match="can't be reached"):
        sync(workspace)
    assert (catalog.port, catalog.tokens) == (port, tokens)
    sync(opened())
    assert is_exact(opened(), server, database)


# --- a process of its own -------------------------------------------------------------------------


def run(config_path: Path, *words: str) -> str:
    """A command in a process with a JVM of its own; what it printed. The credential stands in no
    process's command line."""
    command = [*COMMAND, *words, "--config", str(config_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        secret = CREDENTIAL.split(":")[1].encode()
        while process.poll() is None:
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    assert secret not in line.read_bytes(), line
            time.sleep(0.2)
        printed, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert secret not in printed + errors
    return printed.decode()


@pytest.mark.full
def test_commands_keep_a_lake_of_a_rest_catalog(
    config_path: Path,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
    opened: Callable[[], Workspace],
) -> None:
    """Mirrored, checked, looked after, its ledger lost and made again, and read by a model."""
    contract_file(config_path.parent, server, database, catalog, {"clean": "table"})
    table = f"s.{database}.t"
    sql(CREATE, FIRST)
    run(config_path, "sync")
    sql(*MORE)
    run(config_path, "sync")
    run(config_path, "check", table)
    run(config_path, "maintain")
    for file in config_path.parent.glob("ledger.db*"):
        file.unlink()
    run(config_path, "ledger", "rebuild")
    sql(
        "DELETE FROM t WHERE id = 2",
        "UPDATE t SET mail = 'e@x', at = UTC_TIMESTAMP(6) WHERE id = 3",
    )
    run(config_path, "sync")
    run(config_path, "repair", table, "--yes")
    run(config_path, "check", table)
    assert is_exact(opened(), server, database)
    model = config_path.parent / "models" / "m" / "sums.sql"
    model.parent.mkdir(parents=True)
    model.write_text(f"---\n{{}}\n---\nSELECT COUNT(*) AS n, SUM(a) AS a FROM s_{database}.t\n")
    run(config_path, "run", "m.sums")
    found = opened().lake.load(Identifier("m", "sums"))
    assert found is not None
    [row] = found.scan().to_arrow().to_pylist()
    assert tuple(row.values()) == sql("SELECT COUNT(*), SUM(a) FROM t")[0]


@pytest.mark.full
def test_it_says_which_lake_it_is_of(
    opened: Callable[[], Workspace],
    config_path: Path,
    sql: Callable[..., Any],
    catalog: RestCatalogServer,
) -> None:
    """Once it is asked to; that of another lake is told by doctor, by name."""

    def doctor() -> str:
        result = CliRunner().invoke(cli, ["doctor", "--json", "--config", str(config_path)])
        return str([x["detail"] for x in json.loads(result.stdout) if x["state"] == "broken"])

    sql(CREATE, FIRST)
    workspace = opened()
    sync(workspace)
    lake_id = workspace.lake.identity
    tables = catalog.catalog
    heads = workspace.ledger.lake_heads()
    spaces = sorted({head.namespace for head in heads})
    assert all("mirrorlake.lake" not in tables.load_namespace_properties(s) for s in spaces)
    opened()
    assert tables.load_namespace_properties(spaces[0])["mirrorlake.lake"] == lake_id
    catalog.asked.clear()
    opened()
    assert [one for one in catalog.asked if "properties" in one] == [], "it is not asked again"
    assert "another lake" not in doctor()
    tables.update_namespace_properties(spaces[0], updates={"mirrorlake.lake": "theirs"})
    assert "another lake" not in doctor(), "it names what we left"
    for head in heads:
        with suppress(NoSuchTableError):
            table = tables.load_table(head.name)
            with table.transaction() as transaction:
                transaction.set_properties({"comment": "x"})
    assert "is that of another lake: it says theirs, and the lake in" in doctor()
    assert lake_id in doctor()


# --- other hands ----------------------------------------------------------------------------------


UPKEEP = (expired, branch_dropped)
"""Of others: changes no row."""
HEALED = {
    "raw": (set_back, old_catalog, old_lake, purged, *UPKEEP),
    "deduped": (
        *(set_back, old_catalog, old_lake, row_deleted, row_added, out_of_catalog, purged),
        *(another, compacted, *UPKEEP),
    ),
}
REFUSED = {"raw": (row_deleted, row_added, compacted, out_of_catalog, another)}


@pytest.mark.full
@pytest.mark.parametrize(
    ("layer", "hand"),
    [
        pytest.param(layer, hand, id=f"{layer}-{hand.__name__}")
        for kinds in (HEALED, REFUSED)
        for layer, hands in kinds.items()
        for hand in hands
    ],
)
def test_what_other_hands_did_is_put_right_or_refused(
    layer: str,
    hand: Hand,
    opened: Callable[[], Workspace],
    config_path: Path,
    sql: Callable[..., Any],
    server: EmbeddedServer,
    database: str,
    catalog: RestCatalogServer,
    place: Place,
) -> None:
    """No database names the metadata files here: each table is opened and compared."""
    sql(CREATE, FIRST)
    workspace = opened()
    sync(workspace)
    contract = workspace.config.table("t")
    at = Identifier(contract.namespaces.deduped, "t")
    if layer == "raw":
        versions = workspace.ledger.schema_versions(contract.name)
        at = Identifier(contract.namespaces.raw, versions[-1].raw_table)
    beside = replace(place, lake=workspace.lake, spark=workspace.spark)
    rows = str(catalog.catalog.properties["uri"]).removeprefix("sqlite:///")
    before = LakePart(beside, at, database=rows).load().metadata_location
    sql(*MORE)
    sync(opened())
    part = LakePart(beside, at, before, database=rows)
    hand(part)
    sql("INSERT INTO t (id, a, mail) VALUES (5, 5, 'eve@x')")
    of_deduped = (compacted,) if layer == "deduped" else ()
    doctor = CliRunner().invoke(cli, ["doctor", "--json", "--config", str(config_path)])
    assert (str(at) in doctor.stdout) == (hand not in (*UPKEEP, *of_deduped))
    if hand in REFUSED.get(layer, ()):
        with pytest.raises(LakeError) as refused:
            sync(opened())
        said = str(refused.value)
        if found := re.findall(r"set its main back to version (\d+)", said):
            part.load().manage_snapshots().set_current_snapshot(snapshot_id=int(found[0])).commit()
        elif hand is another:
            lake = workspace.lake.catalog
            lake.drop_table(at.path)
            lake.rename_table((at.namespace, f"{at.name}_old"), at.path)
        else:
            assert "mirrorlake lake find" in said
            find = CliRunner().invoke(cli, ["lake", "find", "--config", str(config_path)])
            assert (find.exit_code, "1 registered" in find.output) == (0, True), find.output
    sync(opened())
    assert is_exact(opened(), server, database)
