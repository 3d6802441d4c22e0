"""A standalone Spark cluster on loopback: Master and Workers are processes of pip's pyspark, which
share nothing with the driver but storage."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.runtime.embedded.server import HOST, free_port
from mirrorlake.runtime.java import java_environment

_DEPLOY = "org.apache.spark.deploy"


@dataclass(frozen=True)
class Cluster:
    """A running cluster.

    Attributes:
        address: what ``spark.master`` says.
        workers: the Workers' processes; executors are their children.
    """

    address: str
    workers: tuple[subprocess.Popen[bytes], ...]


@contextmanager
def standalone_cluster(
    folder: Path, *, workers: int = 1, cores: int = 2, memory: str = "1g"
) -> Iterator[Cluster]:
    """A Master and its Workers, each with these cores and this memory; logs go to the folder."""
    port, ui, where = free_port(), ("--webui-port", "0"), ("--host", HOST)
    address = f"spark://{HOST}:{port}"
    log = folder / "master.log"
    terms = (*where, *ui, "--cores", str(cores), "--memory", memory)
    with ExitStack() as running:
        lead = spark_class(f"{_DEPLOY}.master.Master", *where, "--port", str(port), *ui, log=log)
        running.callback(stop, lead)
        wait_for(port, log)
        found: list[subprocess.Popen[bytes]] = []
        for number in range(workers):
            work = ("--work-dir", str(folder / f"work{number}"))
            name = f"{_DEPLOY}.worker.Worker"
            log = folder / f"worker{number}.log"
            found.append(spark_class(name, *terms, *work, address, log=log))
            running.callback(stop, found[-1])
        yield Cluster(address, tuple(found))


def spark_class(*arguments: str, log: Path, **more: str) -> subprocess.Popen[bytes]:
    """One of Spark's own programs, started as its scripts do."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, **java_environment(), "SPARK_HOME": str(home), **more}
    # Nothing of this process's own path may be what makes our code be found.
    environment.pop("PYTHONPATH", None)
    with log.open("wb") as stream:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            env=environment,
            cwd=log.parent,
            stdout=stream,
            stderr=stream,
            start_new_session=True,
            umask=0o022,  # theirs, whatever a mirror's is
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program and all that it started (its executors)."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def wait_for(port: int, log: Path, seconds: float = 90) -> None:
    """Wait until a program listens.

    Raises:
        AssertionError: it does not; the end of its log.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text()[-2000:])
