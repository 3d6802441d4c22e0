"""A Spark Connect server for the lake of a contract file, with the settings that its clients need:

    python spark_connect.py --host 127.0.0.1 --port 15002

The contract is `MIRRORLAKE_CONFIG`, as of the command line. Passwords reach Spark through a file
that only this user can read. It ends when it is terminated, with Spark.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from mirrorlake.config import load_config
from mirrorlake.destinations.iceberg.spark.settings import LOCAL, catalog_settings
from mirrorlake.runtime.jars import ensure_jars
from mirrorlake.runtime.java import java_environment
from mirrorlake.runtime.launch import hidden_settings
from mirrorlake.runtime.permissions import UMASKS
from mirrorlake.workspace import Workspace

SERVICE = "org.apache.spark.sql.connect.service.SparkConnectServer"


def main() -> int:
    """Spark's own exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--host", default="127.0.0.1")
    options.add_argument("--port", type=int, default=15002)
    options.add_argument("--memory", default="2g", help="of the JVM")
    given = options.parse_args()
    config = load_config(Path(os.environ.get("MIRRORLAKE_CONFIG", "mirrorlake.yaml")))
    os.umask(UMASKS[config.lake.permissions])
    with Workspace.open(config) as workspace:  # the ledger's own lake, or an error
        catalog = catalog_settings(workspace.lake)
    driver = ensure_jars(["postgres-jdbc"])
    settings = {
        **LOCAL,
        **catalog,
        **config.spark.conf,
        "spark.driver.memory": given.memory,
        "spark.jars": ",".join(map(str, ensure_jars(["spark"]))),
        "spark.driver.extraClassPath": ":".join(map(str, driver)),
        "spark.connect.grpc.binding.address": given.host,
        "spark.connect.grpc.binding.port": str(given.port),
    }
    os.environ.update(java_environment())
    with hidden_settings(settings):
        [*hidden, _] = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        submit = Path(os.environ["SPARK_HOME"]) / "bin" / "spark-submit"
        command = [submit, *hidden, "--class", SERVICE, "--master", "local[*]", "spark-internal"]
        spark = subprocess.Popen(command)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: spark.terminate())
        # The file with the settings stays until they are read: until it answers, or has ended.
        while spark.poll() is None and not _answers(given.port):
            time.sleep(0.5)
    return spark.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
