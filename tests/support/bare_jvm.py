"""A JVM with Spark's jars and no session, for tests that use a Java library by itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from py4j.java_gateway import (  # pyright: ignore[reportMissingTypeStubs]
    GatewayParameters,
    JavaGateway,
)

from mirrorlake.runtime.jars import spark_jars
from mirrorlake.runtime.java import find_java, java_options, locale_name


@contextmanager
def bare_gateway(folder: Path) -> Generator[JavaGateway]:
    """Start a JVM with Spark's jars and nothing running in it; end it with the block."""
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
            assert server.stdout is not None
            port = int(server.stdout.readline())
            token = server.stdout.readline().strip().decode()
            # No memory management: it would send a message for each dropped object, also to a JVM
            # that has ended, and complain at length.
            yield JavaGateway(
                gateway_parameters=GatewayParameters(
                    port=port, auth_token=token, enable_memory_management=False
                )
            )
        finally:
            # It ends by itself when this pipe closes, and also if this process is killed.
            server.terminate()
            server.communicate()
