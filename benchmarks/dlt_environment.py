"""Peers' environments: their pins are not ours, so each has a folder of its own, made once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from mirrorlake.runtime.cache import cache_folder, cache_path

PINS = Path(__file__).with_name("dlt-requirements.txt")
SCRIPT = Path(__file__).with_name("sides") / "dlt_connectorx.py"


def dlt_command() -> list[str]:
    """The command of dlt's side; its environment is made if it isn't there.

    Raises:
        CalledProcessError: the packages can't be brought.
    """
    return [*environment("dlt", PINS), str(SCRIPT)]


def environment(name: str, pins: Path) -> list[str]:
    """The interpreter of a throw-away environment with pinned packages, made if it isn't there.

    Raises:
        CalledProcessError: the packages can't be brought.
    """
    home = cache_folder("bench") / f"{name}-py{sys.version_info[0]}{sys.version_info[1]}"
    python, stamp = home / "bin" / "python", home / "made"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        uv = sorted(cache_path().glob("tools/uv-*/bin/uv"))[-1]
        made = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(home)]
        subprocess.run(made, check=True)
        install = [str(uv), "pip", "install", "--quiet", "--require-hashes", "--python"]
        subprocess.run([*install, str(python), "-r", str(pins)], check=True)
        stamp.write_text(pins.read_text())
    return [str(python)]
