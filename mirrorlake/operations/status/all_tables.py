"""What is known of every table that some names mean, of whatever kind: `status` and reports say the
same of it.

What belongs here: which tables these are, and their statuses. What doesn't: the status of one table
(`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from mirrorlake.config import Config, TableContract, TenantTable
from mirrorlake.ledger import Ledger
from mirrorlake.operations.other_writers.moved_lake import find_all_moved
from mirrorlake.operations.publishers import PublicationStatus, other_statuses
from mirrorlake.operations.status.attention import Attention
from mirrorlake.operations.status.monitor import not_right
from mirrorlake.operations.status.status import TableStatus, moved_models, status_of
from mirrorlake.operations.status.tenants import tenants_status

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.commits.heads import MovedTable

_Moved: TypeAlias = "Mapping[str, Sequence[MovedTable]]"


@dataclass(frozen=True)
class AllStatuses:
    """The statuses of some tables.

    Attributes:
        contracts, tenants: the tables, and those of tenants.
        tables: of the first; every one in their order.
        every: of all of them, and of models whose tables other hands changed.
        published: what was published of what is no mirrored table: its name → by publisher.
    """

    contracts: Sequence[TableContract]
    tenants: Sequence[TenantTable]
    tables: Sequence[TableStatus]
    every: Sequence[TableStatus]
    published: Mapping[str, Mapping[str, PublicationStatus]]

    def not_right(self, ledger: Ledger) -> list[Attention]:
        """What keeps them from being loaded, settled and as the ledger has it, gravest first.

        Raises:
            LedgerError: the ledger can't be read.
        """
        return not_right(ledger, self.contracts, self.every, self.published)


def named_tables(
    config: Config, names: Sequence[str]
) -> tuple[Sequence[TableContract], Sequence[TenantTable]]:
    """The tables that names or patterns mean, and those of tenants; all without a name.

    Raises:
        ConfigError: a name is nobody's or several tables'.
    """
    if not names:
        everything = (*config.tables, *config.snapshots)
        return sorted(everything, key=lambda contract: contract.name), config.tenants
    names = config.named(names)
    tenants = config.split_tenants(names)
    others = [name for name in names if not config.split_tenants([name])]
    return [config.contract(name) for name in others], tenants


def all_statuses(
    config: Config,
    ledger: Ledger,
    contracts: Sequence[TableContract],
    tenants: Sequence[TenantTable],
    *,
    besides: bool,
) -> AllStatuses:
    """The statuses of these tables; see `named_tables`.

    Args:
        besides: whether what is no table of the contract file is meant, too.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    tables = status_of(config, ledger, contracts) if contracts or not tenants else []
    moved: _Moved = find_all_moved(config, ledger, tenants)
    models = moved_models(config, ledger) if besides else []
    every = [*tables, *tenants_status(ledger, tenants, moved), *models]
    published = other_statuses(ledger) if besides else {}
    return AllStatuses(contracts, tenants, tables, every, published)
