"""Which tables of a contract file one mirror takes: shell-style patterns over their names."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.errors import ConfigError

_SHOWN = 5
_Table = TypeVar("_Table", TableContract, TenantTable)


def select_tables(
    config: Config, include: Sequence[str] = (), exclude: Sequence[str] = ()
) -> Config:
    """The contract file with these tables alone; with all where nothing is included by name.

    A pattern is of ``source.database.table``, ``database.table`` or ``table``, whichever fits; of a
    table of tenants of ``group.table`` or ``table``.

    Raises:
        ConfigError: a pattern fits no table, or none is left.
    """
    every = config.mirrored
    for pattern in (*include, *exclude):
        if not any(_fits(pattern, contract) for contract in every):
            raise ConfigError(
                f"{pattern!r} fits no table of {config.path}", next_step=_listed(every)
            )

    def chosen(contracts: Iterable[_Table]) -> tuple[_Table, ...]:
        return tuple(
            contract
            for contract in contracts
            if (not include or any(_fits(p, contract) for p in include))
            and not any(_fits(p, contract) for p in exclude)
        )

    tables, snapshots = chosen(config.tables), chosen(config.snapshots)
    tenants = chosen(config.tenants)
    if every and not tables and not snapshots and not tenants:
        raise ConfigError(
            f"these patterns leave no table of {config.path}",
            next_step="Include more, or exclude less",
        )
    return config.model_copy(update={"tables": tables, "snapshots": snapshots, "tenants": tenants})


def _fits(pattern: str, table: Mirrored) -> bool:
    names = [table.name, table.table]
    if isinstance(table, TableContract):
        names.append(f"{table.database}.{table.table}")
    return any(fnmatchcase(name, pattern) for name in names)


def _listed(contracts: Sequence[Mirrored]) -> str:
    more = f" and {len(contracts) - _SHOWN:,} more" if len(contracts) > _SHOWN else ""
    return f"There are {', '.join(c.name for c in contracts[:_SHOWN])}{more}" if contracts else ""
