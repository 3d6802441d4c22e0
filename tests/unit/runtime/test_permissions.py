"""`lake.permissions`: the process's umask, what Spark is told, and what the doctor finds open."""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import mirrorlake.cli
import mirrorlake.runtime.permissions as permissions_module
from dagster_mirrorlake.resources import LedgerResource
from mirrorlake.cli.main import cli
from mirrorlake.config import load_config
from mirrorlake.config.settings import LakeConfig
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.spark.settings import catalog_settings
from mirrorlake.destinations.iceberg.warehouse.identity import open_lake
from mirrorlake.ledger import Ledger
from mirrorlake.operations.status.doctor import diagnose_contract
from mirrorlake.operations.status.file_permissions import look_at_permissions
from mirrorlake.runtime.launch import hidden_settings
from mirrorlake.runtime.permissions import Permissions, Umask, find_wider, held, narrowing

MODES: dict[Permissions, tuple[int, int]] = {
    "private": (0o600, 0o700),
    "group": (0o640, 0o750),
    "open": (0o644, 0o755),
}


@pytest.fixture(autouse=True)
def usual_umask(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin with what most machines have, as a process in which nobody holds a umask yet."""
    monkeypatch.setattr(permissions_module, "_PROCESS", Umask())
    before = os.umask(0o022)
    yield
    os.umask(before)


def contract(folder: Path, permissions: Permissions | None = None) -> Path:
    path = folder / "mirrorlake.yaml"
    lake = f"lake: {{permissions: {permissions}}}\n" if permissions else ""
    path.write_text(f"version: 1\n{lake}sources: {{s: {{host: 127.0.0.1, user: u}}}}\n")
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def current() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


def test_private_is_the_default(tmp_path: Path) -> None:
    assert load_config(contract(tmp_path)).lake.permissions == "private"


@pytest.mark.parametrize("permissions", MODES)
def test_files_and_folders_that_are_made_while_it_is_held(
    tmp_path: Path, permissions: Permissions
) -> None:
    release = Umask().hold(permissions)
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "file").touch()
    release()
    file, folder = MODES[permissions]
    assert mode(tmp_path / "file") == file
    assert {mode(tmp_path / "a"), mode(tmp_path / "a" / "b")} == {folder}


def test_the_process_has_its_own_umask_back_when_nobody_holds_one() -> None:
    os.umask(0o002)
    umask = Umask()
    release = umask.hold("private")
    assert current() == 0o077
    release()
    release()
    assert current() == 0o002
    umask.hold("group")()
    assert current() == 0o002


def test_of_two_that_are_held_the_narrower_is_in_force() -> None:
    umask = Umask()
    first, second, third = umask.hold("group"), umask.hold("private"), umask.hold("group")
    assert current() == 0o077
    first()
    assert current() == 0o077
    second()
    assert current() == 0o027
    third()
    assert current() == 0o022


@pytest.mark.parametrize(("permissions", "umask"), [("private", "077"), ("group", "027"), ("open", "022")])  # fmt: skip
def test_hadoop_is_told_the_same(tmp_path: Path, permissions: Permissions, umask: str) -> None:
    lake = Lake(LakeConfig(warehouse=str(tmp_path), permissions=permissions))
    assert catalog_settings(lake)["spark.hadoop.fs.permissions.umask-mode"] == umask


def test_every_command_opens_its_contract_where_its_umask_is_set() -> None:
    folder = Path(mirrorlake.cli.__file__).parent
    assert [f.name for f in folder.glob("*.py") if "load_config(" in f.read_text("utf-8")] == [
        "contract.py"
    ]


def test_what_a_command_makes_is_private(tmp_path: Path) -> None:
    ran = CliRunner().invoke(cli, ["gaps", "--config", str(contract(tmp_path))])
    assert (tmp_path / ".mirrorlake" / "ledger.db").exists(), ran.output
    assert mode(tmp_path / ".mirrorlake") == 0o700
    assert mode(tmp_path / ".mirrorlake" / "ledger.db") == 0o600


def test_what_a_resource_of_dagster_makes_is_private(tmp_path: Path) -> None:
    assert LedgerResource(config_path=str(contract(tmp_path))).ledger
    assert mode(tmp_path / ".mirrorlake" / "ledger.db") == 0o600


def test_settings_with_secrets_are_their_owners_alone_in_every_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRRORLAKE_CACHE", str(tmp_path))
    release = Umask().hold("open")
    with hidden_settings({"a.password": "secret"}):
        (file,) = (tmp_path / "tmp").glob(f"spark-settings-{os.getpid()}-*")
        assert mode(file) == 0o600
    release()


@pytest.mark.parametrize("permissions", MODES)
def test_what_is_open_wider_is_found_and_the_command_narrows_it(
    tmp_path: Path, permissions: Permissions
) -> None:
    place = tmp_path / "a läke"
    (place / "t").mkdir(parents=True)
    (place / "t" / "fits").touch()
    (place / "t" / "wide").touch()
    (place / "link").symlink_to(tmp_path)
    file, folder = MODES[permissions]
    for path, bits in ((place, folder), (place / "t", folder | 0o002), (place / "t" / "fits", file), (place / "t" / "wide", file | 0o020)):  # fmt: skip
        path.chmod(bits)
    tmp_path.chmod(0o777)
    found = find_wider([place, tmp_path / "absent"], permissions)
    assert (found.looked, found.unseen) == (4, ())
    assert set(found.wider) == {place / "t", place / "t" / "wide"}
    subprocess.run(shlex.split(narrowing([place], permissions)), check=True)
    assert find_wider([place], permissions).wider == ()
    assert (mode(place / "t" / "wide"), mode(place / "t")) == (file, folder)
    assert mode(tmp_path) == 0o777, "a link was followed"


def test_the_doctor_names_what_is_open_and_the_command_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    path = contract(tmp_path)
    data = tmp_path / ".mirrorlake" / "lake" / "t" / "data.parquet"
    ledger, beside = (tmp_path / ".mirrorlake" / name for name in ("ledger.db", "ledger.db-wal"))
    evidence = tmp_path / ".mirrorlake" / "evidence"
    os.umask(0o077)
    data.parent.mkdir(parents=True)
    evidence.mkdir()
    for file in (data, ledger, beside):
        file.touch()
    names = ["permissions of the lake", "permissions of the ledger", "permissions of evidence"]
    config = load_config(path)
    pieces = look_at_permissions(config)
    assert [(p.name, p.state) for p in pieces] == [(name, "ok") for name in names]
    assert pieces[0].detail == "private: 3 files and folders looked at"
    data.chmod(0o644)
    beside.chmod(0o604)
    lake, database, kept = look_at_permissions(config)
    assert (lake.state, database.state, kept.state) == ("broken", "broken", "ok")
    assert lake.detail == (
        f"private: 3 files and folders looked at; 1 open wider, {data} first: "
        f"run chmod -R go-rwx {data.parents[1]}"
    )
    assert database.detail.endswith(f"{beside} first: run chmod -R go-rwx {ledger} {beside}")
    assert (mode(data), mode(beside)) == (0o644, 0o604)
    assert not lake.optional


def test_the_doctor_looks_at_dagsters_home_and_at_a_catalog_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, catalog = tmp_path / "home", tmp_path / "catalog.db"
    home.mkdir()
    catalog.touch()
    (tmp_path / ".mirrorlake" / "evidence").mkdir(parents=True)
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    path = contract(tmp_path)
    path.write_text(path.read_text() + "lake: {catalog: {uri: sqlite:///catalog.db}}\n")
    monkeypatch.chdir(tmp_path)
    pieces = {p.name: p for p in look_at_permissions(load_config(Path(path.name)))}
    assert {Path(piece.where).is_absolute() for piece in pieces.values()} == {True}
    assert "permissions of evidence" in pieces
    assert pieces["permissions of the catalog"].where == str(catalog)
    assert pieces["permissions of the catalog"].state == "broken"
    assert pieces["permissions of Dagster's home"].optional
    assert pieces["permissions of Dagster's home"].state == "broken"


def test_the_doctor_of_a_contract_says_it_and_makes_nothing(tmp_path: Path) -> None:
    path = contract(tmp_path)
    path.write_text(path.read_text().replace("127.0.0.1,", "127.0.0.1, port: 1,"))
    pieces = {piece.name: piece for piece in diagnose_contract(path)}
    for name in ("ledger", "lake"):
        assert (pieces[name].state, pieces[name].detail[:12]) == ("ok", "not made yet")
    assert list(tmp_path.iterdir()) == [path]
    config = load_config(path)
    with held(config.lake.permissions):
        open_lake(config, Ledger(config.ledger.url))
    pieces = {piece.name: piece for piece in diagnose_contract(path)}
    assert pieces["permissions of the lake"].state == "ok"
    assert pieces["lake"].version == "format 2"
    assert mode(tmp_path / ".mirrorlake" / "ledger.db") == 0o600
    (tmp_path / ".mirrorlake" / "ledger.db").chmod(0o640)
    pieces = {piece.name: piece for piece in diagnose_contract(path)}
    assert pieces["permissions of the ledger"].state == "broken"


FORK = """
import os, signal, threading
import mirrorlake.runtime.permissions as permissions
held = permissions._PROCESS._lock
held.acquire()  # as a thread of the parent that is inside `hold` now
child = os.fork()
if not child:
    signal.alarm(10)
    permissions.hold("private")
    os._exit(0 if os.umask(0) == 0o077 else 1)
_, status = os.waitpid(child, 0)
raise SystemExit(os.waitstatus_to_exitcode(status))
"""


def test_a_process_forked_while_a_thread_held_the_lock_is_not_stuck() -> None:
    assert subprocess.run([sys.executable, "-c", FORK], check=False).returncode == 0
