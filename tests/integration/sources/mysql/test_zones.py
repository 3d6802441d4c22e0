"""A server that is not on UTC: its zone is taken by `init`, and another one is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.errors import ConfigError
from mirrorlake.operations.loading.sync import load_table
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.sources.mysql.sessions.zones import (
    name_of_zone,
    read_server_zone,
    refuse_other_zone,
)
from mirrorlake.workspace import Workspace
from tests.integration.conftest import PASSWORD, USER, Place, connected
from tests.integration.contract_files import write_contract
from tests.integration.sources.mysql.test_open_transactions import source_at
from tests.support.mysql8 import MySQL8

Sql = Callable[..., Any]
EngineFor = Callable[..., Workspace]
MOVING = {"mode": "incremental", "key": ["id"], "cursor": "modified_at"}
TABLE = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0, modified_at DATETIME(6) NOT NULL "
    "DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6), KEY (modified_at))"
)


@contextmanager
def server_setting(sql: Sql, name: str, value: str) -> Iterator[None]:
    ((kept,),) = sql(f"SELECT @@global.{name}")
    sql(f"SET GLOBAL {name} = %s", values=(value,))
    try:
        yield
    finally:
        sql(f"SET GLOBAL {name} = %s", values=(kept,))


def test_a_server_behind_utc(
    server: MariaDB,
    database: str,
    sql: Sql,
    engine_for: EngineFor,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What `init` writes misses no change, and what says another zone is refused."""
    sql(TABLE)
    with server_setting(sql, "time_zone", "-05:00"):
        with connected(server, database) as application, application.cursor() as cursor:
            cursor.execute("INSERT INTO t (id) VALUES (1), (2)")
        url = f"mysql://{USER}:p%40ss%20w%2F%C3%B6rd%25@127.0.0.1:{server.port}/{database}"
        output = tmp_path / "mirrorlake.yaml"
        cli(["init", "--from", url, "--output", str(output)], standalone_mode=False)
        said = " ".join(capsys.readouterr().out.split())
        assert "its own time zone (-05:00): time_zone is -05:00." in said
        found = load_config(output, environ={f"{database.upper()}_PASSWORD": PASSWORD})
        (source,) = found.sources.values()
        assert source.time_zone == "-05:00"

        workspace = engine_for({"t": MOVING})
        contract = workspace.config.table("t")
        with pytest.raises(ConfigError, match="changes would be missed") as caught:
            load_table(workspace, contract)
        assert "Write `time_zone: -05:00` in source s" in str(caught.value)
        assert workspace.ledger.last_load(contract.name) is None

        workspace = engine_for({"t": MOVING}, {"time_zone": source.time_zone})
        contract = workspace.config.table("t")
        load_table(workspace, contract)
        with connected(server, database) as application, application.cursor() as cursor:
            cursor.execute("UPDATE t SET n = 1 WHERE id = 2")
        assert load_table(workspace, contract).rows == 2


@pytest.mark.parametrize("recorded", [True, False])
def test_what_was_read_in_another_zone_is_read_again(
    recorded: bool, place: Place, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    """Also where the load was an older release's, which let any zone pass and did not keep it."""
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    workspace = engine_for({"t": MOVING})
    contract = workspace.config.table("t")
    load_table(workspace, contract)
    if not recorded:
        with closing(sqlite3.connect(place.folder / "ledger.db")) as ledger, ledger:
            forget = (
                "UPDATE loads SET receipt = json_remove(receipt, '$.meaning') WHERE table_name = ?"
            )
            assert ledger.execute(forget, (contract.name,)).rowcount == 1
    with server_setting(sql, "time_zone", "-05:00"):
        workspace = engine_for({"t": MOVING}, {"time_zone": "-05:00"})
        assert load_table(workspace, contract).window == "initial"
        assert load_table(workspace, contract).window == "live"


def test_an_application_with_a_clock_of_its_own_is_taken_at_its_word(
    sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE, "INSERT INTO t (id) VALUES (1)")
    with server_setting(sql, "time_zone", "+09:00"):
        workspace = engine_for({"t": MOVING}, {"time_zone_of": "application"})
        contract = workspace.config.table("t")
        load_table(workspace, contract)
        sql("UPDATE t SET n = 1")
        assert load_table(workspace, contract).rows == 1


def test_a_timestamp_needs_no_zone(sql: Sql, engine_for: EngineFor) -> None:
    sql(TABLE.replace("DATETIME", "TIMESTAMP"), "INSERT INTO t (id) VALUES (1)")
    with server_setting(sql, "time_zone", "+09:00"):
        workspace = engine_for({"t": MOVING})
        load_table(workspace, workspace.config.table("t"))


def test_a_zone_that_each_connection_is_given(
    server: MariaDB, database: str, sql: Sql, engine_for: EngineFor
) -> None:
    sql(TABLE)
    # `init_connect` is not for accounts that may do everything.
    grants = {f"{database}.*": "ALL", "*.*": "PROCESS, REPLICATION CLIENT"}
    server.create_user("plain", PASSWORD, grants)
    workspace = engine_for({"t": MOVING}, {"user": "plain"})
    with (
        server_setting(sql, "init_connect", "SET time_zone = '-08:00'"),
        pytest.raises(ConfigError, match=r"\(-08:00\)"),
    ):
        load_table(workspace, workspace.config.table("t"))


ZONES = (
    # the zone of the server's machine, what init calls it, what it is not although it is so today
    ("UTC", "UTC", "+01:00"),
    ("Europe/Berlin", "Europe/Berlin", None),
    ("America/New_York", "America/New_York", "Etc/GMT+5"),
    ("Asia/Kolkata", "Asia/Kolkata", "Asia/Kathmandu"),
    ("XYZ-01:20", "+01:20", "+01:00"),
)


@pytest.mark.full
@pytest.mark.parametrize("kind", [MariaDB, MySQL8])
@pytest.mark.parametrize(("zone", "name", "other"), ZONES)
def test_the_zone_of_the_servers_machine(
    kind: type[MariaDB],
    zone: str,
    name: str,
    other: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TZ", zone)
    with kind.start(tmp_path, extra_args=["--default-time-zone=SYSTEM"]) as server:
        server.create_user(USER, PASSWORD)
        source = source_at(server.port)
        with session(source) as connection:
            found = read_server_zone(connection, source)
            assert name_of_zone(found) == name
            right = source.model_copy(update={"time_zone": name})
            refuse_other_zone(connection, right, "t", "c")
            now = datetime.now(UTC)
            winter = "+01:00" if zone == "Europe/Berlin" and _offset(now) == "1:00:00" else "UTC"
            wrong = source.model_copy(update={"time_zone": other or winter})
            with pytest.raises(ConfigError, match="SYSTEM, "):
                refuse_other_zone(connection, wrong, "t", "c")


def _offset(now: datetime) -> str:
    return str(now.astimezone(ZoneInfo("Europe/Berlin")).utcoffset() or timedelta())


def test_doctor_shows_a_zone_that_is_another_one(
    server: MariaDB, database: str, sql: Sql, place: Place, tmp_path: Path
) -> None:
    path = write_contract(tmp_path / "mirrorlake.yaml", server.port, {database: {}})
    with server_setting(sql, "time_zone", "-05:00"):
        [source] = [p for p in diagnose_contract(path) if p.name == "source s: time zone"]
    assert source.state == "missing"
    assert "time_zone is UTC, and the server's own is -05:00" in source.detail
