"""The units of `deploy/systemd` call commands that there are, and one another."""

from __future__ import annotations

import shlex
from configparser import RawConfigParser
from pathlib import Path

import click
import pytest

from mirrorlake.cli.main import cli

ROOT = Path(__file__).parents[3]
UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
INSTANCES = {
    "mirrorlake@.service": ("sync", "check", "maintain", "alert"),
    "mirrorlake-follow@.service": ("shop",),
}


def read(path: Path) -> RawConfigParser:
    # A key may be given several times in a unit; of ours only `Environment` is.
    unit = RawConfigParser(strict=False, interpolation=None, delimiters=["="], comment_prefixes="#")
    unit.optionxform = str  # pyright: ignore[reportAttributeAccessIssue]
    unit.read_string(path.read_text())
    return unit


@pytest.mark.parametrize("path", [p for p in UNITS if p.suffix == ".service"], ids=lambda p: p.name)
def test_its_command_is_one(path: Path) -> None:
    program, *arguments = shlex.split(read(path)["Service"]["ExecStart"])
    assert program == "/opt/mirrorlake/bin/mirrorlake"
    for instance in INSTANCES.get(path.name, ("",)):
        name, *more = [a.replace("%i", instance) for a in arguments]
        command = cli.commands[name]
        with click.Context(cli) as context:
            command.make_context(name, list(more), parent=context, resilient_parsing=False)


@pytest.mark.parametrize("path", [p for p in UNITS if p.suffix == ".timer"], ids=lambda p: p.name)
def test_its_timer_starts_one(path: Path) -> None:
    started = read(path)["Timer"]["Unit"]
    name, _, instance = started.removesuffix(".service").partition("@")
    file = f"{name}@.service" if instance else started
    assert (path.parent / file).exists()
    assert not instance or instance in INSTANCES[file]


def test_the_page_has_every_unit() -> None:
    page = (ROOT / "docs" / "systemd.md").read_text()
    for path in UNITS:
        if path.suffix == ".timer" or "Install" in read(path):
            assert path.name.replace("@.", "@shop.") in page
