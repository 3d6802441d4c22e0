"""Tenants by the names that people write: the error where there is none of a name, or none at all.

What belongs here: these errors. What doesn't: what a command does with tenants.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mirrorlake.config.contract import TenantTable
from mirrorlake.config.fields import nearest
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import TenantPlace
from mirrorlake.operations.tenants.looks import LeftOut

_REASONS = 3
"""An error names at most this many things that were left out."""


def refuse_unknown(table: str, databases: Iterable[str], places: Collection[TenantPlace]) -> None:
    """See that each of these databases is a tenant's of a table, by its name.

    Raises:
        ConfigError: one is nobody's; the nearest name is in the message.
    """
    known = {database for _, database in places}
    unknown = sorted({*databases} - known)
    if unknown:
        words = ", ".join(f"{name}{nearest(name, known)}" for name in unknown)
        raise ConfigError(
            f"table {table} has no tenant {words}",
            table=table,
            next_step="`mirrorlake tenants` lists them, by the names of their databases; "
            "`mirrorlake sync` finds new ones",
        )


def no_tenant(table: TenantTable, left_out: Iterable[LeftOut]) -> ConfigError:
    """The error of a table of which no source has a tenant, with what was found instead."""
    # Where the table has no tenant at all, each source already says that nothing matched.
    found = [one for one in left_out if one.source]
    found.sort(key=lambda one: not one.name)
    listed = [f"{one.label}: {one.why}" for one in found[:_REASONS]]
    more = [f"and {len(found) - _REASONS:,} more"] if len(found) > _REASONS else []
    return ConfigError(
        f"table {table.name} has no tenant: {'; '.join([*listed, *more])}",
        table=table.name,
        next_step="Check the patterns (`%` stands for any characters), the table's name, and that "
        "the account may read these databases",
    )
