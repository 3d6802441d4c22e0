"""BigQuery on loopback, over the files of a Cloud Storage emulator: no network the second time.

The emulator is a package of its own, in an environment of its own in the cache folder: it needs
other versions than we do. Its code runs on every Python that Mirrorlake runs on once three lines
are written as Python 3.11 has them; a fourth is a fault of its own, by which no Parquet file with
BYTES can be loaded.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from gcp_storage_emulator.server import create_server
from gcp_storage_emulator.settings import STORAGE_DIR
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery, storage

from mirrorlake.runtime.cache import cache_folder, cache_path
from mirrorlake.runtime.embedded import watch
from mirrorlake.runtime.embedded.files import make_once
from mirrorlake.runtime.embedded.server import HOST, free_port

PROJECT = "local"
BUCKET = "mirrorlake-tests"
HERE = Path(__file__).parent
TOOLS = HERE.parents[2] / "tools"
ASK_SETUP = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import bootstrap
cache = pathlib.Path(sys.argv[2])
print(json.dumps([str(bootstrap.find_uv(cache)), bootstrap.uv_environment(cache)]))
"""
PACKAGES, EMULATOR = HERE / "requirements.lock", HERE / "emulator.txt"
REPAIRS = (
    (
        "catalog/metadata.py",
        "def list_[R: Resource](model: type[R], *keys: str) -> list[R]:",
        "def list_(model, *keys):",
    ),
    (
        "catalog/metadata.py",
        "def load[R: Resource](model: type[R], *keys: str) -> R | None:",
        "def load(model, *keys):",
    ),
    (
        "catalog/metadata.py",
        "def save[R: Resource](resource: R, *keys: str) -> R:",
        "def save(resource, *keys):",
    ),
    (
        "engine/results.py",
        """'{message.replace("'", "''")}'""",
        "{chr(39)}{message.replace(chr(39), chr(39) * 2)}{chr(39)}",
    ),
    # BYTES of a Parquet file are bytes; only JSON and CSV have them in base64.
    (
        "jobs/load.py",
        "source = _decoded(column, field)",
        "source = column if typed else _decoded(column, field)",
    ),
    # A copy has the layout of what is copied, and replaces no table of another one.
    (
        "jobs/copy.py",
        "from local_bigquery.jobs import query",
        "from local_bigquery.errors import BigQueryError\nfrom local_bigquery.jobs import query",
    ),
    (
        "jobs/copy.py",
        "        tables.write(cur, select, None, destination, config)",
        """        kept, there = (
            tables.load(*table).model_dump(include=set(tables.LAYOUT), exclude_none=True)
            if tables.exists(*table)
            else None
            for table in (references[0], destination)
        )
        if there not in (None, kept):
            raise BigQueryError("invalid", "Incompatible table partitioning specification.")
        tables.write(cur, select, None, destination, config)
        tables.annotate(destination, tables.Table.model_validate(kept or {}))""",
    ),
)
"""What is written otherwise in the emulator's code: its file, the text, and ours."""


@dataclass(frozen=True)
class GoogleCloud:
    """Both services; one bucket is there, no dataset is."""

    bigquery: str
    storage: str
    files: Path
    """Where the objects are: a folder for each bucket."""

    def environment(self) -> dict[str, str]:
        """The variables by which Google's clients find them."""
        return {"BIGQUERY_EMULATOR_HOST": self.bigquery, "STORAGE_EMULATOR_HOST": self.storage}

    def section(self) -> dict[str, str]:
        """What a contract file says under ``bigquery``."""
        return {"project": PROJECT, "bucket": BUCKET}

    def make_dataset(self, name: str) -> None:
        """An empty dataset."""
        self.client().create_dataset(name)

    def client(self) -> bigquery.Client:
        """Google's own client, as a reader has it."""
        return bigquery.Client(
            project=PROJECT,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.bigquery},
        )

    def objects(self) -> list[str]:
        """The names of all objects in the bucket."""
        reader = storage.Client(
            project=PROJECT,
            credentials=AnonymousCredentials(),
            client_options={"api_endpoint": self.storage},
        )
        return [str(blob.name) for blob in reader.list_blobs(BUCKET)]


@contextmanager
def google_cloud() -> Iterator[GoogleCloud]:
    """Both services until the block ends, or this process does."""
    with tempfile.TemporaryDirectory(prefix="ml-gcp-") as folder:
        place = Path(folder)
        port = free_port()
        server: Any = create_server(
            HOST, port, in_memory=False, default_bucket=BUCKET, data_dir=str(place / "gcs")
        )
        server.start()
        try:
            files = place / "gcs" / STORAGE_DIR
            with _serving(place, files) as url:
                yield GoogleCloud(url, f"http://{HOST}:{port}", files)
        finally:
            server.stop()


def installed() -> Path:
    """The emulator's environment in the cache folder, made once."""
    parts = (PACKAGES.read_bytes(), EMULATOR.read_bytes(), repr((REPAIRS, sys.version)).encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]
    home = cache_folder("bigquery") / key
    make_once(home, _install, "installing-")
    return home


def _install(building: Path) -> None:
    uv, environ = _installer()
    python = building / "bin" / "python"

    def run(*words: str) -> None:
        ran = subprocess.run([uv, *words], env=environ, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{words}: {ran.stderr[-2000:]}"

    run("venv", "--quiet", "--allow-existing", "--python", sys.executable, str(building))
    hashed = ("pip", "install", "--quiet", "--require-hashes")
    run(*hashed, "--python", str(python), "--requirement", str(PACKAGES))
    [site] = building.glob("lib/python3*/site-packages")
    # As for the Python that its metadata name: it has no code of any version's.
    # Copied: what is repaired must not be the installer's own copy.
    target = ("--python-version", "3.13", "--target", str(site), "--link-mode", "copy")
    run(*hashed, "--no-deps", *target, "--requirement", str(EMULATOR))
    _repair(site / "local_bigquery")
    _place_extensions(site, building / "home")


def _installer() -> tuple[str, dict[str, str]]:
    """The installer of `make setup` and its environment, as the Python that made ours sees them:
    ours has no pip, whose settings say where packages are."""
    base = str(getattr(sys, "_base_executable", sys.executable))
    ran = subprocess.run(
        [base, "-c", ASK_SETUP, str(TOOLS), str(cache_path())],
        capture_output=True,
        text=True,
        check=True,
    )
    uv, environ = json.loads(ran.stdout.splitlines()[-1])
    return uv, environ


def _repair(code: Path) -> None:
    for name, old, new in REPAIRS:
        path = code / name
        text = path.read_text("utf-8")
        assert text.count(old) == 1, f"{name} has not one {old!r}"
        path.write_text(text.replace(old, new), "utf-8")


def _place_extensions(site: Path, home: Path) -> None:
    """Put DuckDB's extensions where it looks for those that it has downloaded."""
    [[platform]] = duckdb.sql("PRAGMA platform").fetchall()
    for extension in site.glob("duckdb_extension_*/extensions/*/*.duckdb_extension"):
        folder = home / ".duckdb" / "extensions" / extension.parent.name / str(platform)
        folder.mkdir(parents=True, exist_ok=True)
        extension.rename(folder / extension.name)


@contextmanager
def _serving(place: Path, files: Path) -> Iterator[str]:
    home, port = installed(), free_port()
    words = ["--host", HOST, "--port", str(port), "--grpc-port", str(free_port())]
    code = "from local_bigquery.cli import main; main()"
    command = [str(home / "bin" / "python"), "-c", code, *words, "--data-dir", str(place / "data")]
    environ = {**os.environ, "HOME": str(home / "home"), "GCS_LOCAL_ROOT": str(files)}
    log = place / "bigquery.log"
    with log.open("ab") as stream:
        watcher = subprocess.Popen(
            [sys.executable, "-I", "-S", watch.__file__, str(place / "runtime"), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=stream,
            env=environ,
            start_new_session=True,
        )
    try:
        _wait(f"http://{HOST}:{port}", log)
        yield f"http://{HOST}:{port}"
    finally:
        assert watcher.stdin is not None
        watcher.stdin.close()
        watcher.wait(30)


def _wait(url: str, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()  # noqa: S310 - our own server
        except urllib.error.HTTPError:
            return
        except OSError:
            assert time.monotonic() < deadline, log.read_text("utf-8", errors="replace")[-2000:]
            time.sleep(0.05)
        else:
            return
