"""The embedded servers: ready when they say so, closed to others, and never left running."""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pymysql
import pytest

from mirrorlake.errors import MachineError
from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.support.mysql8 import MySQL8
from tests.support.mysql8_files import STUBS
from tests.support.stub_library import stub_library


def runs(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pid, seconds=20):
    deadline = time.monotonic() + seconds
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not runs(pid)


def connect(server, user, password):
    return pymysql.connect(
        host=server.host, port=server.port, user=user, password=password.encode(), charset="utf8mb4"
    )


def ask(connection, query):
    with connection, connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchall()


VERSIONS = {MariaDB: "11.4.5-MariaDB-log", MySQL8: "8.0.12"}


@pytest.fixture(scope="module", params=VERSIONS)
def server(request, tmp_path_factory):
    with request.param.start(tmp_path_factory.mktemp("a server ü")) as running:
        yield running


@pytest.fixture(params=[MariaDB, pytest.param(MySQL8, marks=pytest.mark.full)])
def kind(request):
    return request.param


def test_it_is_what_the_engine_is_tested_on(server):
    [row] = ask(
        server.admin(),
        "SELECT @@version, @@character_set_server, @@log_bin, @@binlog_format,"
        " @@binlog_row_metadata, @@bind_address, @@server_id",
    )
    assert row == (VERSIONS[type(server)], "utf8mb4", 1, "ROW", "FULL", "127.0.0.1", 1)


@pytest.mark.full
@pytest.mark.parametrize("server", [MySQL8], indirect=True, ids=["MySQL8"])
def test_two_servers_are_two(server, tmp_path):
    """A load is held to the server that it was planned on: copies of one data folder must differ."""
    query = "SELECT @@server_uuid, @@gtid_mode"
    with MySQL8.start(tmp_path / "other") as other:
        [(first, mode)], [(second, _)] = ask(server.admin(), query), ask(other.admin(), query)
    assert mode == "ON"
    assert first != second


def test_mysql_needs_no_library_that_a_machine_may_lack():
    """The stand-ins are what it is given, even where the real ones are installed."""
    files = MySQL8.find_files()
    ran = subprocess.run(["ldd", files.server], env=files.environment(), capture_output=True, text=True, check=True)  # fmt: skip
    found = dict(line.split(" => ") for line in ran.stdout.splitlines() if " => " in line)
    assert "not found" not in ran.stdout
    for name in STUBS:
        [path] = [where.split(" (")[0] for what, where in found.items() if what.strip() == name]
        assert path == str(files.libraries / name)


def test_a_stand_in_can_be_called(tmp_path):
    path = tmp_path / "libnothing.so.9"
    path.write_bytes(stub_library("libnothing.so.9", {"f": "V1", "n": "V2"}, {"n"}))
    library = ctypes.CDLL(str(path))
    assert library.f() == -1
    assert ctypes.c_long.in_dll(library, "n").value == 0


def test_users_may_do_what_they_were_granted_and_no_more(server):
    server.create_user("reader", "p@ss w/örd%'\"", {"mysql.*": "SELECT"})
    assert ask(connect(server, "reader", "p@ss w/örd%'\""), "SELECT 1") == ((1,),)
    with pytest.raises(pymysql.err.OperationalError, match="denied"):
        ask(connect(server, "reader", "p@ss w/örd%'\""), "CREATE DATABASE mine")
    with pytest.raises(pymysql.err.OperationalError, match="Access denied"):
        connect(server, "reader", "wrong")


@pytest.mark.parametrize("user", ["root", "nobody", ""])
def test_nobody_comes_over_the_network_without_a_password(server, user):
    with pytest.raises(pymysql.err.OperationalError):
        connect(server, user, "")


@pytest.mark.parametrize("server", [MariaDB], indirect=True, ids=["MariaDB"])
def test_the_text_client_works(server):
    ran = subprocess.run(
        [*server.client_command, "--batch", "--skip-column-names", "-e", "SELECT 'ü', 1+1"],
        env=server.client_environment, capture_output=True, check=True,
    )  # fmt: skip
    assert ran.stdout.decode() == "ü\t2\n"


def test_a_taken_port_is_named(server, tmp_path):
    with pytest.raises(MachineError, match=str(server.port)):
        type(server).start(tmp_path / "db", port=server.port)
    assert not (tmp_path / "db").exists()


def test_a_chosen_port_and_a_long_folder(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with MariaDB.start(tmp_path / ("long " * 30), port=port) as server:
        assert server.port == port


def test_the_data_stays_and_the_process_goes(tmp_path, kind):
    with kind.start(tmp_path / "db") as server:
        first = server.pid
        ask(server.admin(), "CREATE DATABASE kept")
    assert not runs(first)
    assert not server.socket.parent.exists()
    server.stop()
    with kind.start(tmp_path / "db") as server:
        assert ("kept",) in ask(server.admin(), "SHOW DATABASES")


def test_a_server_that_cant_start_says_why(tmp_path):
    with pytest.raises(MachineError, match="no-such-option"):
        MariaDB.start(tmp_path / "db", extra_args=["--no-such-option"])


def test_a_folder_that_cant_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MachineError, match="can't be written"):
        MariaDB.start(tmp_path / "file" / "db")


@pytest.mark.full
def test_it_outlives_the_thread_that_started_it(tmp_path):
    started = []
    thread = threading.Thread(target=lambda: started.append(MariaDB.start(tmp_path / "db")))
    thread.start()
    thread.join()
    with started[0] as server:
        time.sleep(1.5)
        assert ask(server.admin(), "SELECT 1") == ((1,),)


SCRIPT = """
import sys, time
from pathlib import Path
from mirrorlake.runtime.embedded.mariadb import MariaDB
server = MariaDB.start(Path(sys.argv[1]))
print(server.pid, server._watcher.pid, server.socket.parent, flush=True)
time.sleep(60)
"""


@pytest.mark.full
@pytest.mark.parametrize("victim", ["starter", "watcher"])
def test_nothing_is_left_when_one_of_them_is_killed(tmp_path, victim):
    starter = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "db")], stdout=subprocess.PIPE, text=True
    )
    try:
        first, second, runtime = starter.stdout.readline().split()
        server, watcher = int(first), int(second)
        assert runs(server)
        os.kill(starter.pid if victim == "starter" else watcher, signal.SIGKILL)
        assert wait_until_gone(server)
        assert wait_until_gone(watcher)
        assert victim == "watcher" or not Path(runtime).exists()
    finally:
        starter.kill()
        starter.communicate()
        shutil.rmtree(runtime, ignore_errors=True)
