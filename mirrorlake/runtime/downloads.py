"""One file of a Maven repository by HTTP: it needs neither Java nor Spark.

What is downloaded is compared with its pin by `mirrorlake.runtime.jars`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import requests

from mirrorlake.errors import MachineError
from mirrorlake.runtime.java import certificates_file

CENTRAL: Final = "https://repo1.maven.org/maven2/"
CONNECT_SECONDS, READ_SECONDS = 30.0, 60.0
"""How long a repository is waited for: to connect, and for each piece of an answer."""
_PIECE: Final = 1 << 18


def download_jar(
    coordinates: str, folder: Path, on_bytes: Callable[[int], None] | None = None
) -> Path:
    """Download one jar (``group:artifact:version``) into ``folder`` and return its path.

    From Maven Central, or the mirror that DEFAULT_ARTIFACT_REPOSITORY names, as for Spark.

    Args:
        on_bytes: called with how many bytes have arrived.

    Raises:
        MachineError: the repository can't be reached, or doesn't have it.
        OSError: the folder can't be written.
    """
    group, artifact, version = coordinates.split(":")
    name = f"{artifact}-{version}.jar"
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or CENTRAL
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
