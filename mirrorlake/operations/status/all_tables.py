"""What is known of every table that some names mean, of whatever kind: `status` and reports say the
same of it.

What belongs here: which tables these are, and their statuses. What doesn't: the status of one table
(`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mirrorlake.config import Config, Mirrored, TableContract, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.operations.publishers import PublicationStatus, other_statuses
from mirrorlake.operations.status.attention import Attention
from mirrorlake.operations.status.monitor import not_right
from mirrorlake.operations.status.status import moved_models, status_of
from mirrorlake.operations.status.table_status import TableStatus


@dataclass(frozen=True)
class AllStatuses:
    """The statuses of some tables.

    Attributes:
        mirrored: the tables.
        every: their statuses, in their order, and those of models whose tables other hands changed.
        published: what was published of what is no mirrored table: its name → by publisher.
    """

    mirrored: Sequence[Mirrored]
    every: Sequence[TableStatus]
    published: Mapping[str, Mapping[str, PublicationStatus]]

    @property
    def contracts(self) -> list[TableContract]:
        """The tables that are no tenants'."""
        return [one for one in self.mirrored if isinstance(one, TableContract)]

    @property
    def tenants(self) -> list[TenantTable]:
        """The tables of tenants."""
        return [one for one in self.mirrored if isinstance(one, TenantTable)]

    def not_right(self, ledger: Ledger) -> list[Attention]:
        """What keeps them from being loaded, settled and as the ledger has it, gravest first.

        Raises:
            LedgerError: the ledger can't be read.
        """
        return not_right(ledger, self.mirrored, self.every, self.published)


def named_tables(config: Config, names: Sequence[str]) -> list[Mirrored]:
    """The tables that names or patterns mean, in their order, or all by name; those of tenants
    last: what is said of the others is of one database.

    Raises:
        ConfigError: a name is nobody's or several tables'.
    """
    found = (
        config.mirrored_tables(config.named(names))
        if names
        else sorted(config.mirrored, key=lambda one: one.name)
    )
    return sorted(found, key=lambda one: isinstance(one, TenantTable))


def all_statuses(
    config: Config, ledger: Ledger, mirrored: Sequence[Mirrored], *, besides: bool
) -> AllStatuses:
    """The statuses of these tables; see `named_tables`.

    Args:
        besides: whether what is no table of the contract file is meant, too.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    models = moved_models(config, ledger) if besides else []
    every = [*status_of(config, ledger, mirrored), *models]
    return AllStatuses(mirrored, every, other_statuses(config, ledger) if besides else {})
