"""A real Trino on loopback, out of a folder in which somebody unpacked one, for the tests.

``MIRRORLAKE_TRINO`` names the folder: that of `trino-server-core-476.tar.gz`, with the contents of
`trino-iceberg-476.zip` as its ``plugin/iceberg`` (both of Maven's group ``io.trino``). Its Java
(24 or newer) is ``JAVA_HOME``'s.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog

from tests.support.rest_catalog import CREDENTIAL, serving

VARIABLE = "MIRRORLAKE_TRINO"
_START = 120
_JVM = "-Xmx2G\n-XX:+ExitOnOutOfMemoryError\n-Djdk.attach.allowAttachSelf=true\n"


@contextmanager
def trino_over(lake: Path, folder: Path) -> Iterator[str]:
    """The address of the Trino that `VARIABLE` names, over a lake whose catalog is in SQLite: that
    is shown to it by REST, as ``lake``."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{lake}/catalog.db", warehouse=f"file://{lake}")
    with (
        serving(catalog) as rest,
        _trino_process(Path(os.environ[VARIABLE]), folder, rest.uri) as url,
    ):
        yield url


@contextmanager
def _trino_process(server: Path, folder: Path, catalog: str) -> Iterator[str]:
    """Its address; it reads the lake of a REST catalog as ``lake``, files on this machine."""
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    _write(folder / "etc", port, catalog)
    command = [str(server / "bin" / "launcher"), "run", "--etc-dir", str(folder / "etc")]
    java = Path(os.environ["JAVA_HOME"]) / "bin"
    environ = {**os.environ, "PATH": f"{java}{os.pathsep}{os.environ['PATH']}"}
    said = folder / "trino.log"
    with (
        said.open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log, env=environ) as process,
    ):
        try:
            _wait_for(port, process, said)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


def _write(etc: Path, port: int, catalog: str) -> None:
    server = {
        "coordinator": "true",
        "node-scheduler.include-coordinator": "true",
        "http-server.http.port": str(port),
        "discovery.uri": f"http://127.0.0.1:{port}",
    }
    node = {
        "node.environment": "test",
        "node.data-dir": str(etc.parent / "data"),
        "node.internal-address": "127.0.0.1",
        "node.bind-ip": "127.0.0.1",
    }
    lake = {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": catalog,
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.credential": CREDENTIAL,
        "iceberg.rest-catalog.oauth2.server-uri": f"{catalog}/v1/oauth/tokens",
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }
    etc.joinpath("catalog").mkdir(parents=True)
    etc.joinpath("jvm.config").write_text(_JVM)
    for name, properties in {
        "config": server,
        "node": node,
        "catalog/lake": lake,
    }.items():
        lines = "".join(f"{key}={value}\n" for key, value in properties.items())
        etc.joinpath(f"{name}.properties").write_text(lines)


def _wait_for(port: int, process: subprocess.Popen[bytes], said: Path) -> None:
    until = time.monotonic() + _START
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/info") as answer:
                if not json.load(answer)["starting"]:
                    return
        except OSError:
            pass
        time.sleep(0.5)
    raise RuntimeError(f"Trino does not start: {said.read_text(errors='replace')[-2000:]}")
