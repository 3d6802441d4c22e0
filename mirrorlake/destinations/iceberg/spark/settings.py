"""What a Spark session is set to: the lake's catalog, exact values, and what a local one needs."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from sqlalchemy import make_url

from mirrorlake.config.spark_settings import EXACT_SETTINGS, changed_settings
from mirrorlake.destinations.base import CATALOG
from mirrorlake.destinations.iceberg.catalog.connection import Connection
from mirrorlake.destinations.iceberg.catalog.properties import google_settings
from mirrorlake.destinations.iceberg.commits.commit import BY
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.destinations.iceberg.spark.python_daemon import DAEMON
from mirrorlake.destinations.iceberg.storage.cloud_client import in_cloud_storage, spark_settings
from mirrorlake.errors import LakeError
from mirrorlake.runtime.permissions import HADOOP_UMASK, hadoop_umask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ANYWHERE = {
    **EXACT_SETTINGS,
    # The JVM compiles no method of more bytes, and would interpret those that Spark makes of a
    # row's form: a digest of 336,776 rows of 19 columns took 3.6 s, and 2.9 s in smaller methods.
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # Marks every commit of ours, so that one whose record was lost is known from another's.
    f"spark.sql.iceberg.snapshot-property.{BY}": "mirrorlake",
}
"""What a session has wherever it runs."""

_OF_PYICEBERG = ("py-", "type", "ssl")
"""How names of properties begin that mean nothing to Spark's catalog."""

LOCAL = {
    **ANYWHERE,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "true",
    # Of 100, Spark's own number, a fold has put out what the next one needs before it ends: each
    # then compiled 30 classes again, which the JVM then had to warm up to.
    "spark.sql.codegen.cache.maxEntries": "1000",
    "spark.sql.extensions": ("org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"),
}


def cores_of(master: str) -> int | None:
    """How many cores a local master has; None for a cluster.

    >>> cores_of("local[2]"), cores_of("local"), cores_of("spark://host:7077")
    (2, 1, None)
    """
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if found is None:
        return None
    here = os.cpu_count() or 1
    return here if found[1] == "*" else min(int(found[1] or 1), here)


def files_settings(master: str) -> dict[str, str]:
    """Small files are read in several tasks a core. Spark would make one task a core: of two, one
    read for 3.3 s and the other for 1.7.

    >>> files_settings("local[2]"), files_settings("spark://host:7077")
    ({'spark.sql.files.minPartitionNum': '8'}, {})
    """
    cores = cores_of(master)
    return {"spark.sql.files.minPartitionNum": str(4 * cores)} if cores else {}


def worker_settings(master: str) -> dict[str, str]:
    """Workers of Python that read no archive before each task (`python_daemon`); none on a cluster,
    whose machines may not have this package before it is shipped to them.

    >>> worker_settings("spark://host:7077")
    {}
    """
    return {"spark.python.daemon.module": DAEMON} if cores_of(master) else {}


def catalog_settings(lake: Connection) -> dict[str, str]:
    """Spark's settings for the lake's catalog and files; a catalog that is neither a SQL database
    nor a REST server comes from ``spark.conf``."""
    prefix = f"spark.sql.catalog.{CATALOG}"
    settings = _rest_settings(lake) if lake.config.catalog.is_rest else _jdbc_settings(lake)
    if in_cloud_storage(lake.warehouse):
        settings |= spark_settings(lake.config.catalog.properties)
    return {
        prefix: "org.apache.iceberg.spark.SparkCatalog",
        f"{prefix}.cache-enabled": "false",
        **{f"{prefix}.{name}": value for name, value in settings.items()},
        # Hadoop sets the modes of local files itself, whatever the process's umask.
        HADOOP_UMASK: hadoop_umask(lake.config.permissions),
    }


def _rest_settings(lake: Connection) -> dict[str, str]:
    """Both clients call the same thing by the same name, but for what only Python has."""
    properties = lake.config.catalog.properties
    shared = {k: v for k, v in properties.items() if not k.startswith(_OF_PYICEBERG)}
    milliseconds = str(round(lake.config.catalog.wait.total_seconds() * 1000))
    google = google_settings(lake.google) if lake.config.catalog.auth == "google" else {}
    return {
        **google,
        "rest.client.socket-timeout-ms": milliseconds,
        "rest.client.connection-timeout-ms": milliseconds,
        **shared,
        "type": "rest",
        "uri": lake.catalog_uri(),
    }


def _jdbc_settings(lake: Connection) -> dict[str, str]:
    url = make_url(lake.catalog_uri())
    settings = {"type": "jdbc", "warehouse": lake.warehouse, "jdbc.schema-version": "V1"}
    if url.get_backend_name() == "sqlite":
        wait = round(lake.config.catalog.wait.total_seconds() * 1000)
        return settings | {"uri": f"jdbc:sqlite:{url.database}?busy_timeout={wait}"}
    port = f":{url.port}" if url.port else ""
    kind, wait = url.get_backend_name(), round(lake.config.catalog.wait.total_seconds())
    # Else a server that sends nothing is waited for without end. Seconds, by Postgres's driver.
    limits = f"?tcpKeepAlive=true&connectTimeout={wait}&socketTimeout={max(60, 2 * wait)}"
    return settings | {
        "uri": f"jdbc:{kind}://{url.host}{port}/{url.database}"
        + (limits if kind == "postgresql" else ""),
        "jdbc.user": url.username or "",
        "jdbc.password": url.password or "",
    }


def check_exact(session: SparkSession, server: str) -> None:
    """Read back the settings on which exact values depend.

    Raises:
        LakeError: the session has one of them otherwise.
    """
    with spark_errors("of the lake"):
        found = {name: session.conf.get(name, None) for name in EXACT_SETTINGS}
    for name in changed_settings(found):
        raise LakeError(
            f"{server} did not keep {name} = {EXACT_SETTINGS[name]} (it says {found[name]!r})",
            next_step="Values would not be exact: let its sessions set it, or use another server",
        )


def activate(session: Any) -> None:
    """Let this thread's parser read names by the session's settings: `writeTo` does not ask the
    session, and by Spark's own ``${env:…}`` in a table's name would be expanded."""
    classic = getattr(session, "_jsparkSession", None)
    if classic is not None:  # over Connect the server parses, in the session
        session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(classic)


_PINGS = {"grpc.keepalive_time_ms": 300_000, "grpc.keepalive_timeout_ms": 60_000}


def keep_alive() -> None:
    """Have clients of Spark Connect find out that their server is gone, or that nothing passes: a
    ping that is not answered ends the call, which PySpark tries again for some ten minutes.

    Not more often than every five minutes: a gRPC server takes that for an attack by default.
    """
    from pyspark.sql.connect.client import ChannelBuilder

    options = dict(ChannelBuilder.GRPC_DEFAULT_OPTIONS) | _PINGS
    ChannelBuilder.GRPC_DEFAULT_OPTIONS[:] = [*options.items()]
