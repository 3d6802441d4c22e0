"""Records the command line for the documents: ``python -m tools.recordings``.

Each command is really run, one after the other, over the demo's shop on an embedded server; what it
prints becomes docs/images/recordings/<name>.svg, through Rich's own export. Times and ids are those
of that run. A picture names no font that would have to be fetched.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from mirrorlake.runtime.cache import cache_path

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS_FOLDER = ROOT / "docs" / "images" / "recordings"
PORT = 3399
SHOP = f"mysql://mirror:a-password@127.0.0.1:{PORT}/shop"
WIDTH = 104
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Recording:
    """One picture.

    Attributes:
        commands: what is typed and shown.
        before: what is done unseen.
    """

    name: str
    title: str
    commands: tuple[str, ...]
    before: tuple[str, ...] = ()


RECORDINGS = (
    Recording("init", "A contract from the server's schema", (f"mirrorlake init --from {SHOP}",)),
    Recording("sync", "The first copy, proved before it is shown", ("mirrorlake sync",)),
    Recording(
        "check",
        "Both sides compared; a row was lost and a number changed in the lake",
        ("mirrorlake check",),
        before=("python -m demo sabotage --folder . --seed 1",),
    ),
    Recording(
        "repair",
        "Exactly what differs is read again",
        ("mirrorlake repair orders --yes", "mirrorlake check orders"),
    ),
    Recording(
        "preflight",
        "What a migration would do to the mirror",
        ('mirrorlake preflight "ALTER TABLE orders ADD COLUMN email VARCHAR(200)"',),
    ),
)
_FORMAT = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg"
 role="img">
<desc>%(commands)s</desc>
<style>
.{unique_id}-matrix {{
  font: {char_height}px/{line_height}px ui-monospace, SFMono-Regular, Consolas, "DejaVu Sans Mono",
    monospace;
}}
.{unique_id}-title {{ font: 600 17px system-ui, "Segoe UI", Roboto, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""Rich's own form without its web fonts, and with the commands as words."""


def main() -> int:
    """Make every picture again."""
    RECORDINGS_FOLDER.mkdir(parents=True, exist_ok=True)
    for name, svg in record().items():
        path = RECORDINGS_FOLDER / f"{name}.svg"
        path.write_text(svg, "utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)} {len(svg.encode()) / 1000:.0f} kB\n")
    return 0


def record(port: int = PORT) -> dict[str, str]:
    """Name → picture.

    Raises:
        RuntimeError: a command that is not shown failed.
    """
    with tempfile.TemporaryDirectory(prefix="mirrorlake-recordings-") as home:
        folder = Path(home, "shop-mirror")
        environment = {
            **os.environ,
            "HOME": home,
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "SHOP_PASSWORD": "a-password",
            "MIRRORLAKE_HASH_KEY": "0123456789abcdef" * 4,
            "MIRRORLAKE_CACHE": str(cache_path()),
        }
        with _shop(folder, port, environment):
            return {one.name: _picture(one, folder, port, environment) for one in RECORDINGS}


@contextmanager
def _shop(folder: Path, port: int, environment: Mapping[str, str]) -> Iterator[None]:
    command = [sys.executable, "-m", "demo", "shop", "--folder", str(folder), "--port", str(port)]
    server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None  # noqa: S101 (a pipe was requested)
        if not any("Ctrl-C" in line for line in server.stdout):
            raise RuntimeError("the demo's server did not start")
        yield
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def _picture(one: Recording, folder: Path, port: int, environment: Mapping[str, str]) -> str:
    for command in one.before:
        done = _run(command, folder, environment)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    screen = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command in one.commands:
        screen.print(Text.assemble(("$ ", "bold green"), (command, "bold")), soft_wrap=False)
        done = _run(command.replace(str(PORT), str(port)), folder, environment)
        shown = done.stdout.replace(str(folder), "~/shop-mirror").replace(str(port), str(PORT))
        screen.print(Text.from_ansi(shown.strip("\n")))
    commands = escape("; ".join(one.commands))
    svg = screen.export_svg(
        title=one.title,
        theme=MONOKAI,
        code_format=_FORMAT % {"commands": commands},
        unique_id=f"r-{one.name}",
    )
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def _run(
    command: str, folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """In colours as on a terminal. What a command says of its progress goes to standard error, and
    is not shown."""
    return subprocess.run(
        shlex.split(command),
        cwd=folder,
        env={**environment, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH)},
        capture_output=True,
        text=True,
        check=False,
    )


if __name__ == "__main__":
    sys.exit(main())
