"""The wheel in an empty environment: the running platform, a project made by ``dg``, the example.

Nothing of the clone may be needed. The environment takes minutes to make.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.location.contracts import PASSWORD, SMALL, USER, write_contracts
from tests.support.installed import Installed, install_wheel

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.full, pytest.mark.timeout(3600)]
TYPE = "dagster_mirrorlake.MirrorlakeComponent"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """`pip install mirrorlake[dagster]` into an empty environment, and what the example takes."""
    beside = ("dagster-dg-cli", "dagster-dlt", "dlt[duckdb]")
    made = install_wheel(tmp_path_factory.mktemp("installed"), "dagster", *beside)
    return replace(made, variables_too={"TEST_PASSWORD": PASSWORD})


def test_every_module_is_importable_without_the_clone(installed: Installed, tmp_path: Path) -> None:
    """But for `definitions`, which reads a contract file."""
    script = """
import importlib, pkgutil, sys
import dagster_mirrorlake, mirrorlake
for package in (dagster_mirrorlake, mirrorlake):
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
for name in dagster_mirrorlake.__all__:
    getattr(dagster_mirrorlake, name)
print(sorted({"demo", "tools", "tests", "assets", "checks"} & set(sys.modules)))
"""
    assert installed.run("python", "-c", script, cwd=tmp_path).endswith("[]\n")


def test_a_contract_file_and_one_command_are_a_platform(
    installed: Installed, tmp_path: Path
) -> None:
    write_contracts(tmp_path, 1, SMALL)
    module = ("-m", "dagster_mirrorlake.definitions")
    said = installed.run("dagster", "definitions", "validate", *module, cwd=tmp_path)
    assert "Validation successful" in said
    with webserver(installed, tmp_path, *module) as ask:
        nodes = ask("{assetNodes {assetKey {path} groupName}}")["assetNodes"]
    found = {"/".join(node["assetKey"]["path"]) for node in nodes}
    assert {"mysql/s/shop/orders", "clean/s/shop/orders", "cleanup/s", "maintenance"} <= found


def test_a_project_made_by_dg(installed: Installed, server: MariaDB, tmp_path: Path) -> None:
    """Two mirrors: an empty one, and one by what the server shows."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE IF NOT EXISTS scaffolded")
        cursor.execute("CREATE TABLE scaffolded.orders (id INT PRIMARY KEY, at DATETIME NOT NULL)")
    project = tmp_path / "shop"
    (project / "src" / "shop" / "defs").mkdir(parents=True)
    example = ROOT / "examples" / "beside_dlt"
    for file in ("pyproject.toml", "src/shop/__init__.py", "src/shop/definitions.py",
                 "src/shop/defs/__init__.py"):  # fmt: skip
        shutil.copy(example / file, project / file)
    assert TYPE in installed.run("dg", "list", "components", cwd=project, **on_path(project))
    scaffold = ("scaffold", "defs", TYPE)
    installed.run("dg", *scaffold, "first", cwd=project, **on_path(project))
    url = f"mysql://{USER}@127.0.0.1:{server.port}/scaffolded?tls=off"
    installed.run(
        "dg", *scaffold, "second", "--json-params", json.dumps({"url": url, "source": "s"}),
        cwd=project, MIRRORLAKE_INIT_PASSWORD=PASSWORD, **on_path(project),
    )  # fmt: skip
    defs = project / "src" / "shop" / "defs"
    written = [path.read_text() for path in defs.rglob("*.yaml")]
    assert len(written) == 4
    assert not [text for text in written if PASSWORD in text or "%25" in text]
    variables = {"S_PASSWORD": PASSWORD, "MIRRORLAKE_HASH_KEY": "k" * 32}
    installed.run("dg", "check", "defs", cwd=project, **variables, **on_path(project))
    listed = installed.run(
        "dg", "list", "defs", "--json", cwd=project, **variables, **on_path(project)
    )
    assert '"clean/s/scaffolded/orders"' in listed
    assert '"second_daily"' in listed


def test_the_example_loads(installed: Installed, tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "beside_dlt", project)
    variables = {"SHOP_PASSWORD": "a-password", **on_path(project)}
    installed.run("dg", "check", "defs", cwd=project, **variables)
    listed = installed.run("dg", "list", "defs", "--json", cwd=project, **variables)
    for key in ("clean/shop/shop/orders", "rates/daily", "revenue"):
        assert f'"{key}"' in listed
    assert "tmp_import" not in listed


def test_the_projects_own_executor_works_too(
    installed: Installed, server: MariaDB, tmp_path: Path
) -> None:
    """A process a step: each opens the workspace and, if it must, Spark by itself."""
    with server.admin() as admin, admin.cursor() as cursor:
        cursor.execute("CREATE DATABASE apart")
        cursor.execute("CREATE TABLE apart.t (id INT PRIMARY KEY)")
        cursor.execute("INSERT INTO apart.t VALUES (1), (2)")
    project = tmp_path / "project"
    shutil.copytree(ROOT / "examples" / "beside_dlt", project)
    mirror = project / "src" / "shop" / "defs" / "mirror"
    shutil.rmtree(mirror.parent / "rates")
    table = {"mode": "append", "key": ["id"], "cursor": "id"}
    write_contracts(mirror, server.port, {"apart": {"tables": {"t": table}}})
    (mirror / "defs.yaml").write_text(yaml.safe_dump({"type": TYPE, "attributes": {"name": "m"}}))
    day = time.strftime("%Y-%m-%d", time.gmtime())
    said = installed.run(
        "dagster", "asset", "materialize", "--select", 'key:"raw/s/apart/t"+', "--partition", day,
        "-m", "shop.definitions", cwd=project, DAGSTER_HOME=str(tmp_path), **on_path(project),
    )  # fmt: skip
    assert "RUN_SUCCESS" in said
    assert len(set(re.findall(r"Launching subprocess for \"(\w+)\"", said))) >= 3


def on_path(project: Path) -> dict[str, str]:
    """In place of installing the project itself."""
    return {"PYTHONPATH": str(project / "src")}


@contextmanager
def webserver(
    installed: Installed, folder: Path, *module: str
) -> Iterator[Callable[[str], dict[str, Any]]]:
    """A webserver on loopback, and a way to ask it in GraphQL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = folder / "dagster"
    home.mkdir()
    command = [installed.home / "bin" / "dagster-webserver", *module, "-h", "127.0.0.1", "-p"]
    variables = installed.variables({"DAGSTER_HOME": str(home)})
    with (folder / "webserver.log").open("w") as log:
        process = subprocess.Popen(
            [*command, str(port)], cwd=folder, env=variables, stdout=log, stderr=log
        )

    def ask(query: str) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return json.load(response)["data"]

    try:
        for _ in range(240):
            assert process.poll() is None, (folder / "webserver.log").read_text()
            try:
                ask("{version}")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        yield ask
    finally:
        process.terminate()
        process.wait(30)
