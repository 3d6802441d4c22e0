"""What follows the log of a source, as the contract file says it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.config import Config, TableContract
from mirrorlake.config.contract import Mirrored, TenantTable
from mirrorlake.errors import ConfigError


@dataclass(frozen=True)
class FollowedTables:
    """What follows a source's log: its tables, and tables of tenants that have some there."""

    source: str
    tables: Sequence[TableContract]
    tenants: Sequence[TenantTable] = ()

    @property
    def all(self) -> list[Mirrored]:
        return [*self.tables, *self.tenants]


def followed_tables(config: Config, source: str) -> FollowedTables:
    """What follows the log of a source.

    Raises:
        ConfigError: there is no such source, or nothing follows its log.
    """
    if source not in config.sources:
        raise ConfigError(
            f"{config.path.name} has no source {source!r}",
            next_step=f"Its servers are: {', '.join(config.sources) or 'none'}",
        )
    tables = [one for one in config.tables if one.source == source and one.by_log]
    tenants = [one for one in config.tenants if source in one.sources and one.by_log]
    if not tables and not tenants:
        raise ConfigError(
            f"source {source}: no table of it has `mode: binlog`",
            next_step="Write `mode: binlog` for one of them (docs/binlog.md)",
        )
    return FollowedTables(source, tables, tenants)
