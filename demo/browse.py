"""The demo's UI: Dagster over its lake while the live writer goes on, and what to look at."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pymysql
from rich.console import Console
from rich.markup import escape

from demo.checks import CLONE
from demo.runs import wait_for, watch_runs
from demo.writer import LiveWriter
from mirrorlake.config import Config
from mirrorlake.errors import MachineError, MirrorlakeError

SETTINGS = "settings.sh"
"""What a shell needs to use the command line on the demo."""
_UI_SECONDS = 300.0  # a busy machine takes its time; a quiet one ten seconds


def browse(config: Config, writer: LiveWriter, console: Console) -> int:
    """The live writer and Dagster's UI until Ctrl-C; a line for each of its runs.

    Raises:
        MachineError: the UI does not come up.
    """
    folder = config.path.parent
    home, log = folder / "dagster", folder / "dagster.log"
    home.mkdir(exist_ok=True)
    shutil.copyfile(CLONE / "dagster.yaml", home / "dagster.yaml")
    write_settings(config.path)
    writer.start()
    url = ui_url()
    console.print(f"\nDagster starts at {url} …", highlight=False)
    with log.open("ab") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "dagster", "dev", "-w", str(CLONE / "workspace.yaml")),
                *("-h", "127.0.0.1", "-p", url.rpartition(":")[2]),
            ],
            cwd=CLONE,
            env=_dagster_environment(home, config),
            # All that its services say: here nobody could find a run among it.
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    stopped = threading.Event()
    try:
        if not wait_for(url, _UI_SECONDS, lambda: process.poll() is None):
            raise MachineError(
                f"Dagster does not show its assets at {url}",
                next_step=f"Its log is {log}; MIRRORLAKE_UI_PORT chooses another port",
            )
        _print_steps(folder, url, log, console)
        watcher = threading.Thread(
            target=watch_runs, args=(url, lambda line: _say(console, line), stopped), daemon=True
        )
        watcher.start()
        return process.wait()
    finally:
        stopped.set()
        _end(process)
        with suppress(MirrorlakeError, pymysql.Error):
            writer.stop()


def _dagster_environment(home: Path, config: Config) -> dict[str, str]:
    return {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "MIRRORLAKE_CONFIG": str(config.path),
        "MIRRORLAKE_SENSORS": "on",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def _print_steps(folder: Path, url: str, log: Path, console: Console) -> None:
    """What to look at, and what to press."""
    table = "shop/shop/orders"
    steps = (
        f"[bold]{url}[/] — Ctrl-C stops everything. Try:",
        f"  1. {url}/assets/clean/shop/shop/orders?view=lineage",
        f"     a table from MySQL to clean (Upstream, All): mysql/{table} → raw → deduped → clean",
        f"  2. {url}/assets/raw/{table}?view=partitions",
        "     its days, and what each holds; “Materialize” loads them again",
        f"  3. {url}/assets/flights/daily?view=overview",
        "     a model, made of one SQL file: its query, columns, lineage and days",
        "  4. In another terminal, damage a table in the lake:",
        f"     {escape(sabotage_command(folder))}",
        f"  5. {url}/assets/deduped/nyc/nyc/weather?view=checks",
        "     execute exact_match: it goes red, and lists the rows that differ",
        "  6. Follow its link “Put it right” to the job repair; Launch Run; the check is green",
        "  7. In another terminal, use the command line on it:",
        f"     {escape(command_line(folder))} status",
        f"Dagster's own output is in {escape(str(log))}. Its runs:",
    )
    for step in steps:
        console.print(step, highlight=False, soft_wrap=True)


def _say(console: Console, line: str) -> None:
    console.print(line, markup=False, highlight=False, soft_wrap=True)


def ui_url() -> str:
    """Where the demo's Dagster is, or will be."""
    return f"http://127.0.0.1:{os.environ.get('MIRRORLAKE_UI_PORT', '3000')}"


def sabotage_command(folder: Path) -> str:
    """What damages the lake of the demo in ``folder``, for a shell in any folder."""
    command = [sys.executable, "-m", "demo", "sabotage", "--folder", str(folder.absolute())]
    return f"cd {shlex.quote(str(CLONE))} && {shlex.join(command)}"


def command_line(folder: Path) -> str:
    """`mirrorlake` on the demo in ``folder``, for a shell in any folder."""
    program = Path(sys.executable).with_name("mirrorlake")
    return f". {shlex.quote(str(folder / SETTINGS))} && {shlex.quote(str(program))}"


def write_settings(config: Path) -> None:
    """Keep what another shell needs beside the contract: for this user's eyes alone."""
    names = ("MIRRORLAKE_DEMO_PASSWORD", "MIRRORLAKE_HASH_KEY")
    said = {"MIRRORLAKE_CONFIG": str(config), **{name: os.environ[name] for name in names}}
    settings = config.parent / SETTINGS
    settings.touch(mode=0o600)
    lines = (f"export {name}={shlex.quote(value)}\n" for name, value in said.items())
    settings.write_text("".join(lines), encoding="utf-8")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the UI with all that it started."""
    for signum, seconds in ((signal.SIGINT, 20), (signal.SIGKILL, 5)):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signum)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
