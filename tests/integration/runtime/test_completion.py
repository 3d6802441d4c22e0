"""Completion of our commands in a real shell."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from mirrorlake.cli.main import cli

ROOT = Path(__file__).parents[3]
CONTRACT = """
version: 1
sources:
  s:
    host: h
    user: u
    databases:
      shop: {tables: {orders: {mode: full}, customers: {mode: full}}}
      crm: {tables: {customers: {mode: full}}}
tenants:
  all: {sources: [s], tables: {invoices: {mode: full}}}
"""


@pytest.fixture
def shell(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder with a contract, and the environment in which `mirrorlake` is a command."""
    (tmp_path / "mirrorlake.yaml").write_text(CONTRACT)
    command = tmp_path / "bin" / "mirrorlake"
    command.parent.mkdir()
    command.write_text(
        f"#!{sys.executable}\nimport sys\nfrom mirrorlake.cli.main import main\nsys.exit(main())\n"
    )
    command.chmod(0o755)
    path = f"{command.parent}{os.pathsep}{os.environ['PATH']}"
    return tmp_path, {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)}


def completed(shell: tuple[Path, dict[str, str]], *lines: str) -> list[set[str]]:
    """What bash offers for the last word of each line."""
    folder, environment = shell
    script = "source <(mirrorlake completion bash)\ncomplete -p mirrorlake >/dev/null || exit 9\n"
    for line in lines:
        words = line.split(" ")
        listed = " ".join(f"'{word}'" for word in words)
        script += (
            f"COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; COMPREPLY=()\n"
            "_mirrorlake_completion mirrorlake\n"
            'echo "${COMPREPLY[@]}"\n'
        )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    return [set(line.split()) for line in ran.stdout.splitlines()]


def test_commands_options_and_tables(shell: tuple[Path, dict[str, str]]) -> None:
    lines = ("mirrorlake sync --j", "mirrorlake sync ", "mirrorlake check crm.")
    assert completed(shell, *lines) == [
        {"--json", "--jobs"},
        {"orders", "shop.customers", "crm.customers", "invoices"},
        {"crm.customers"},
    ]


@pytest.mark.full
def test_a_contract_that_is_broken_completes_nothing(
    shell: tuple[Path, dict[str, str]],
) -> None:
    (shell[0] / "mirrorlake.yaml").write_text("sources: [")
    assert completed(shell, "mirrorlake sync ", "mirrorlake ch") == [set(), {"check"}]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(name: str) -> None:
    made = CliRunner().invoke(cli, ["completion", name])
    assert made.exit_code == 0
    assert "_MIRRORLAKE_COMPLETE" in made.output


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "check"), [("zsh", ("-n",)), ("fish", ("--no-execute",))], ids=["zsh", "fish"]
)
def test_other_shells_take_the_script(
    shell: tuple[Path, dict[str, str]], name: str, check: tuple[str, ...]
) -> None:
    program = shutil.which(name)
    if program is None:
        pytest.skip(f"{name} is not installed")
    folder, environment = shell
    run = {"cwd": folder, "env": environment, "check": True, "capture_output": True, "text": True}
    made = subprocess.run(["mirrorlake", "completion", name], **run)  # type: ignore[call-overload]
    (folder / "script").write_text(made.stdout)
    subprocess.run([program, *check, "script"], **run)  # type: ignore[call-overload]
    assert "_MIRRORLAKE_COMPLETE" in made.stdout
