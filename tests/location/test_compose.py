"""The processes that `deploy/compose.yaml` names, by its own commands, files and variables, without
containers: on loopback, over a real Postgres. A run that the UI is asked for goes through all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from mirrorlake.runtime.embedded.mariadb import MariaDB
from mirrorlake.runtime.embedded.server import free_port
from tests.location.contracts import PASSWORD, USER
from tests.support.postgres import Postgres, running_postgres

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SECRET = "a password of the compose file's"
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Stack:
    """The services' commands and variables, with this machine's places in them."""

    folder: Path
    ports: Mapping[str, int]
    services: Mapping[str, Any]

    def here(self, text: str) -> str:
        """A text of the compose file, or of one that it mounts."""
        for there, local in (
            ("postgres:5432", f"127.0.0.1:{self.ports['postgres']}"),
            ("spark:15002", f"127.0.0.1:{self.ports['spark']}"),
            ("/opt/mirrorlake/deploy", str(self.folder)),
            ("/srv/mirrorlake", str(self.folder)),
            ("0.0.0.0", "127.0.0.1"),  # noqa: S104
            ("hostname: postgres", "hostname: 127.0.0.1"),
            ("port: 5432", f"port: {self.ports['postgres']}"),
            ("host: code", "host: 127.0.0.1"),
            *((str(port), str(self.ports[name])) for name, port in PORTS.items()),
        ):
            text = text.replace(there, local)
        return text

    def variables(self, name: str) -> dict[str, str]:
        """A service's own, and those that the image sets."""
        named = {"POSTGRES_PASSWORD": SECRET, "SHOP_PASSWORD": PASSWORD}
        own = {key: named[key] for key in self.services[name]["environment"]}
        left = {k: v for k, v in os.environ.items() if k not in {"TEST_PASSWORD", *named}}
        image = {
            "MIRRORLAKE_CONFIG": str(self.folder / "mirrorlake.yaml"),
            "DAGSTER_HOME": str(self.folder / "dagster"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            # As in the image, where it is installed.
            "PYTHONPATH": str(ROOT),
        }
        return {**left, **own, **image}

    @contextmanager
    def running(self, name: str) -> Iterator[subprocess.Popen[bytes]]:
        """One service, ended as a container is."""
        command = [self.here(word) for word in self.services[name]["command"]]
        log = self.folder / f"{name}.log"
        with log.open("wb") as stream:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.variables(name),
                stdout=stream,
                stderr=stream,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def wait_until_healthy(self, name: str, process: subprocess.Popen[bytes]) -> None:
        """By the command that the file says."""
        _, *check = self.services[name]["healthcheck"]["test"]
        check = [self.here(word) for word in check]
        for _ in range(120):
            assert process.poll() is None, self.log(name)
            variables = self.variables(name)
            if not subprocess.run(
                check, env=variables, capture_output=True, check=False
            ).returncode:
                return
            time.sleep(1)
        raise AssertionError(self.log(name))

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", errors="replace")[-4000:]

    def ask(self, query: str) -> dict[str, Any]:
        """What the webserver answers."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports['webserver']}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return json.load(answer)["data"]

    def mirrorlake(self, *words: str) -> str:
        """What the command line prints in the code server's container."""
        ended = subprocess.run(
            [sys.executable, "-c", "from mirrorlake.cli.main import main; main()", *words],
            cwd=self.folder,
            env=self.variables("code"),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout


PORTS = {"code": 4266, "webserver": 3000, "spark": 15002}


@pytest.fixture
def stack(server: MariaDB, tmp_path: Path) -> Iterator[Stack]:
    """The files that are mounted, and Postgres with its databases."""
    with running_postgres() as postgres:
        make_databases(postgres)
        ports = {"postgres": postgres.port, **{name: free_port() for name in PORTS}}
        services = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["services"]
        made = Stack(tmp_path, ports, services)
        (tmp_path / "dagster").mkdir()
        instance = (DEPLOY / "storage.yaml").read_text() + (ROOT / "dagster.yaml").read_text()
        (tmp_path / "dagster" / "dagster.yaml").write_text(made.here(instance))
        (tmp_path / "workspace.yaml").write_text(made.here((DEPLOY / "workspace.yaml").read_text()))
        shutil.copy(DEPLOY / "spark_connect.py", tmp_path)
        contract = yaml.safe_load(made.here((DEPLOY / "mirrorlake.yaml").read_text("utf-8")))
        source = contract["sources"]["shop"]
        source |= {"host": "127.0.0.1", "port": server.port, "user": USER}
        source["databases"] = {"composed": source["databases"]["shop"]}
        (tmp_path / "mirrorlake.yaml").write_text(yaml.safe_dump(contract))
        yield made


def make_databases(postgres: Postgres) -> None:
    """As Postgres' image does with the file that is mounted, as the user that it made."""
    with postgres.admin() as admin:
        admin.execute(
            f"CREATE ROLE mirrorlake SUPERUSER LOGIN PASSWORD '{SECRET.replace(chr(39), chr(39) * 2)}'"
        )
    login = {"user": "mirrorlake", "password": SECRET, "dbname": "postgres"}
    with psycopg.connect(
        host="127.0.0.1", port=postgres.port, autocommit=True, **login
    ) as connection:
        for statement in (DEPLOY / "databases.sql").read_text().split(";"):
            if "CREATE" in statement:
                connection.execute(statement)


def test_a_run_goes_through_all_services(stack: Stack, server: MariaDB) -> None:
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE composed")
        cursor.execute("USE composed")
        cursor.execute(
            "CREATE TABLE orders (id INT PRIMARY KEY, price DECIMAL(8,2),"
            " modified_at DATETIME NOT NULL, KEY (modified_at))"
        )
        cursor.execute("INSERT INTO orders SELECT seq, seq / 7, UTC_TIMESTAMP() FROM seq_1_to_5000")
        admin.commit()
    with ExitStack() as running:
        spark = running.enter_context(stack.running("spark"))
        code = running.enter_context(stack.running("code"))
        stack.wait_until_healthy("code", code)
        for name in ("webserver", "daemon"):
            running.enter_context(stack.running(name))
        assert run_chain(stack) == "SUCCESS"
        with server.admin() as admin, admin.cursor() as cursor:
            cursor.execute("UPDATE composed.orders SET price = 1, modified_at = UTC_TIMESTAMP()")
            admin.commit()
        assert run_chain(stack) == "SUCCESS"
        assert "equal" in stack.mirrorlake("check")
        stack.mirrorlake("maintain")  # by Spark, in its own service
        assert spark.poll() is None, stack.log("spark")
        assert SECRET not in command_lines(spark.pid)
    processes = (
        stack.log("spark") + stack.log("daemon") + stack.log("webserver") + stack.log("code")
    )
    assert SECRET not in processes


def command_lines(session: int) -> str:
    """Of all processes of a service: the JVM is among Spark's."""
    found = ""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(process.name)) == session:
                found += (process / "cmdline").read_text("utf-8", errors="replace")
    assert "SparkConnectServer" in found
    return found


def run_chain(stack: Stack) -> str:
    """Ask for the table's chain of today, as the UI does; how it ended."""
    day = time.strftime("%Y-%m-%d", time.gmtime())
    keys = ", ".join(
        f'{{path: ["{layer}", "shop", "composed", "orders"]}}'
        for layer in ("raw", "deduped", "clean")
    )
    launch = (
        'mutation { launchRun(executionParams: {selector: {repositoryLocationName: "mirrorlake", '
        f'repositoryName: "__repository__", jobName: "__ASSET_JOB", assetSelection: [{keys}]}}, '
        f'executionMetadata: {{tags: [{{key: "dagster/partition", value: "{day}"}}]}}}}) '
        "{ __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"
    )
    for _ in range(120):
        with suppress(urllib.error.URLError, ConnectionError):
            answer = stack.ask(launch)["launchRun"]
            if answer["__typename"] == "LaunchRunSuccess":
                break
        time.sleep(1)
    else:
        raise AssertionError(stack.log("webserver"))
    run = answer["run"]["runId"]
    for _ in range(600):
        status = stack.ask(f'{{ runOrError(runId: "{run}") {{ ... on Run {{ status }} }} }}')
        status = status["runOrError"]["status"]
        if status in ("SUCCESS", "FAILURE", "CANCELED"):
            return status
        time.sleep(0.5)
    raise AssertionError(stack.log("daemon"))
