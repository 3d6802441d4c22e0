"""Spark's own Maven resolver, started without a Spark session, to bring one jar.

``spark.jars.packages`` runs the same code, at each start of a session and asking the network again;
here it is called once, for exactly one artifact (nothing transitive), into a folder of our choice.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirrorlake.errors import MachineError
from mirrorlake.runtime.extras import lacking
from mirrorlake.runtime.java import find_java, java_options, locale_name

if TYPE_CHECKING:
    from py4j.java_gateway import JavaGateway  # pyright: ignore[reportMissingTypeStubs]

CONNECT_SECONDS, READ_SECONDS = 30.0, 60.0
"""How long a repository is waited for: to connect, and for each piece of an answer."""
_LIMIT = "mirrorlake"


def spark_jars() -> Path:
    """Return the folder of Spark's own jars, in the PySpark of this environment.

    Raises:
        MachineError: PySpark is not installed, or not whole.
    """
    spec = importlib.util.find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    if folder is None or not folder.is_dir():
        raise lacking("Spark", "a whole pyspark", "spark")
    return folder


def resolve_jar(coordinates: str, folder: Path) -> Path:
    """Download one jar (``group:artifact:version``) below ``folder`` and return its path.

    Raises:
        MachineError: the repository can't be reached, or doesn't have it.
    """
    spark_jars()  # py4j comes with PySpark
    from py4j.protocol import Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]

    with bare_gateway(folder) as gateway:
        jvm: Any = gateway.jvm
        said = jvm.java.io.ByteArrayOutputStream()
        printer = jvm.java.io.PrintStream(said)
        maven = jvm.org.apache.spark.util.MavenUtils
        nothing = jvm.scala.Option.empty()
        nobody = jvm.scala.collection.immutable.List.newBuilder().result()
        try:
            # No fallback to ~/.m2 or ~/.ivy2 (second Boolean): jars come from one place only.
            settings = maven.buildIvySettings(
                nothing, jvm.scala.Option.apply(str(folder)), False, printer
            )
            _bound_waits(jvm, settings)
            paths = maven.resolveMavenCoordinates(
                coordinates, settings, nothing, False, nobody, False, printer
            )
        except Py4JJavaError as error:
            raise _unresolved(coordinates, f"{said.toString()}\n{error.java_exception}") from error
        if paths.size() != 1:
            raise _unresolved(coordinates, str(said.toString()))
        return Path(str(paths.head()))


def _bound_waits(jvm: Any, settings: Any) -> None:
    """Give each request of Ivy's a limit: it sets none itself, in place of Java's own settings."""
    core = jvm.org.apache.ivy.core.settings
    limit = core.NamedTimeoutConstraint(_LIMIT)
    limit.setConnectionTimeout(int(CONNECT_SECONDS * 1000))
    limit.setReadTimeout(int(READ_SECONDS * 1000))
    settings.addConfigured(limit)
    resolvers = settings.getResolvers().iterator()
    while resolvers.hasNext():
        resolver = resolvers.next()
        resolver.setTimeoutConstraint(_LIMIT)
        resolver.validate()  # which looks the name up


def _unresolved(coordinates: str, said: str) -> MachineError:
    """Return the error for a jar that didn't come, with the resolver's own reason."""
    signs = {
        "UnknownHostException": "no network (the repository's name can't be resolved)",
        "ConnectException": "no network (the repository can't be reached)",
        "NoRouteToHostException": "no network (the repository can't be reached)",
        "SocketTimeoutException": "the repository did not answer in time",
        "PKIX": "the repository's certificate is not trusted (set SSL_CERT_FILE)",
        "No space left": "the disk is full",
        "not found": "the repository doesn't have it, or can't be reached",
    }
    reason = next((text for sign, text in signs.items() if sign in said), "Spark's resolver failed")
    return MachineError(
        f"The jar {coordinates} is not in the cache folder and can't be downloaded: {reason}",
        next_step=(
            "Connect once and run this again; DEFAULT_ARTIFACT_REPOSITORY names a mirror of Maven "
            "Central, and MIRRORLAKE_CACHE a cache folder that already has it"
        ),
        retryable=True,
    )


@contextmanager
def bare_gateway(folder: Path) -> Generator[JavaGateway]:
    """Start a JVM with Spark's jars and nothing running in it; end it with the block.

    Raises:
        MachineError: it does not start.
    """
    java = find_java()
    command = [
        str(java.command),
        *java_options(java),
        "-cp",
        f"{spark_jars()}/*",
        "py4j.GatewayServer",
        "--die-on-broken-pipe",
        "--enable-auth",
        "0",
    ]
    env = {**os.environ, "LC_ALL": locale_name()}
    with tempfile.TemporaryFile(dir=folder) as complaints:
        server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=env
        )
        try:
            yield attach(server, java.command)
        finally:
            # It ends by itself when this pipe closes, and also if this process is killed.
            server.terminate()
            server.communicate()


def attach(server: subprocess.Popen[bytes], command: Path) -> JavaGateway:
    """Connect to a gateway that prints its port and its secret on two lines."""
    from py4j.java_gateway import (  # pyright: ignore[reportMissingTypeStubs]
        GatewayParameters,
        JavaGateway,
    )
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

    assert server.stdout is not None  # noqa: S101 (it has a pipe)
    port = server.stdout.readline().strip()
    token = server.stdout.readline().strip()
    try:
        # No memory management: it would send a message for each dropped object, also to a JVM
        # that has ended, and complain at length.
        parameters = GatewayParameters(
            port=int(port), auth_token=token.decode(), enable_memory_management=False
        )
        return JavaGateway(gateway_parameters=parameters)
    except (ValueError, Py4JError) as error:
        raise MachineError(
            f"Java does not start: {command}: {port.decode(errors='replace') or 'no output'}",
            next_step="Run mirrorlake doctor to see which Java is used",
        ) from error
