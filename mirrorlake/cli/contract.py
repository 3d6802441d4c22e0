"""How a command opens its contract file: what it then writes has the contract's permissions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from shlex import quote

from mirrorlake.config import Config, Mirrored, load_config
from mirrorlake.config.spelling import of_tenants
from mirrorlake.errors import ConfigError
from mirrorlake.runtime.permissions import hold


def open_contract(path: Path) -> Config:
    """The contract of a command, which does nothing else: the process's umask is the contract's
    from now on. Secrets are looked up when they are used.

    Raises:
        ConfigError: see `load_config`.
    """
    config = load_config(path, secrets="when used")
    hold(config.lake.permissions)
    return config


def refuse_tenants(config: Config, names: Iterable[str], instead: str) -> None:
    """See that none of these names is a table of tenants.

    Args:
        instead: what a person can do with one; ``{table}`` stands for its name.

    Raises:
        ConfigError: one is.
    """
    for table in config.split_tenants([*names]):
        raise of_tenants(table.name, instead.format(table=quote(table.name)))


def every_table(config: Config) -> list[Mirrored]:
    """All tables of a contract file: mirrored ones, those of snapshots, and those of tenants.

    Raises:
        ConfigError: there is none.
    """
    found = [*config.mirrored]
    if not found:
        raise ConfigError(
            f"{config.path} has no tables", next_step="`mirrorlake init` writes their contracts"
        )
    return found
