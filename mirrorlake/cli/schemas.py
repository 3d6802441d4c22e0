"""`config`: the contract file's format."""

from __future__ import annotations

import click

from mirrorlake.cli import show
from mirrorlake.config import config_schema


@click.group(short_help="Print the contract file's JSON schema.")
def config() -> None:
    """The contract file's format."""


@config.command("schema")
def config_schema_command() -> None:
    """Print the JSON schema of mirrorlake.yaml."""
    show.print_json(config_schema())
