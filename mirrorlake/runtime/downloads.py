"""One file of a Maven repository by HTTP: it needs no Java.

What is downloaded is compared with its pin by `mirrorlake.runtime.jars`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import requests

from mirrorlake.errors import MachineError
from mirrorlake.runtime.extras import install_command
from mirrorlake.runtime.java import certificates_file

_OF_SPARK: Final = ("spark-common-utils_*.jar", "org/apache/spark/util/MavenUtils$.class")
"""Where Spark has the address of Maven Central."""
CONNECT_SECONDS, READ_SECONDS = 30.0, 60.0
"""How long a repository is waited for: to connect, and for each piece of an answer."""
_PIECE: Final = 1 << 18


def download_jar(
    coordinates: str, folder: Path, on_bytes: Callable[[int], None] | None = None
) -> Path:
    """Download one jar (``group:artifact:version``) into ``folder`` and return its path.

    From the repository that DEFAULT_ARTIFACT_REPOSITORY names, as for Spark, or the one that Spark
    takes by itself: Maven Central.

    Args:
        on_bytes: called with how many bytes have arrived.

    Raises:
        MachineError: the repository can't be reached, or doesn't have it; or none is known.
        OSError: the folder can't be written.
    """
    group, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or _of_spark(coordinates)
    url = f"{root.rstrip('/')}/{group.replace('.', '/')}/{artifact}/{version}/{name}"
    path, arrived = folder / name, 0
    try:
        with (
            requests.get(
                url,
                stream=True,
                timeout=(CONNECT_SECONDS, READ_SECONDS),
                verify=str(certificates_file()),
            ) as answer,
            path.open("wb") as file,
        ):
            answer.raise_for_status()
            for piece in answer.iter_content(_PIECE):
                file.write(piece)
                arrived += len(piece)
                if on_bytes is not None:
                    on_bytes(arrived)
    except requests.RequestException as error:
        raise _not_downloaded(coordinates, _reason(error)) from error
    return path


def _of_spark(coordinates: str) -> str:
    """The repository that Spark takes by itself, as its jar has it."""
    spec = importlib.util.find_spec("pyspark")
    for place in spec.submodule_search_locations or () if spec is not None else ():
        for jar in Path(place).glob(f"jars/{_OF_SPARK[0]}"):
            with zipfile.ZipFile(jar) as files:
                found = re.search(rb"https://[\w./-]+/maven2/", files.read(_OF_SPARK[1]))
            if found:
                return found[0].decode()
    raise MachineError(
        f"The jar {coordinates} is not in the cache folder, and no repository is known to bring it "
        "from",
        next_step="Name one in DEFAULT_ARTIFACT_REPOSITORY (Maven Central, or a mirror of it), or "
        f"install Spark, which knows one: {install_command('spark')}",
    )


def _reason(error: requests.RequestException) -> str:
    """Why a download failed, in words that name no address: it may hold a password."""
    if isinstance(error, requests.exceptions.SSLError):
        return "the repository's certificate is not trusted (set SSL_CERT_FILE)"
    if isinstance(error, requests.Timeout) or "timed out" in str(error):
        return "the repository did not answer in time"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        status = error.response.status_code
        return f"the repository doesn't have it, or refuses it (HTTP {status})"
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "the connection was lost on the way"
    if isinstance(error, requests.ConnectionError):
        return "no network (the repository can't be reached)"
    return f"the repository's address can't be used ({type(error).__name__})"


def _not_downloaded(coordinates: str, reason: str) -> MachineError:
    return MachineError(
        f"The jar {coordinates} is not in the cache folder and can't be downloaded: {reason}",
        next_step=(
            "Connect once and run this again; DEFAULT_ARTIFACT_REPOSITORY names a mirror of Maven "
            "Central, and MIRRORLAKE_CACHE a cache folder that already has it"
        ),
        retryable=True,
    )
