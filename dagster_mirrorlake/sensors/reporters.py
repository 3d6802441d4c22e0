"""What the partitions sensor reports: tables of each kind, and what capabilities add to them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import dagster as dg

from dagster_mirrorlake.checks.checked_assets import CheckedAsset, checked_assets
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.ledger import Ledger


class Reporter(Protocol):
    """Reports to Dagster what a capability computes."""

    @property
    def names(self) -> Names:
        """What the mirror's definitions are called."""
        ...

    def find(
        self, instance: dg.DagsterInstance, resources: Any, *, verdicts: bool
    ) -> tuple[list[dg.AssetMaterialization], list[dg.AssetCheckEvaluation]]:
        """Partitions of the lake that Dagster has no record of; and verdicts on them.

        Args:
            verdicts: whether the last look reported partitions: theirs are due.
        """
        ...


class PublicationReporter(Protocol):
    """What a publisher reports to Dagster, and whose verdicts stay shown."""

    @property
    def names(self) -> Names:
        """What the mirror's definitions are called."""
        ...

    def find(
        self,
        instance: dg.DagsterInstance,
        config: "Config",
        ledger: "Ledger",
        before: Mapping[str, str],
    ) -> tuple[list[dg.AssetMaterialization], dict[str, str]]:
        """What Dagster has no record of, and what was reported of each table.

        Args:
            before: what the last look said was reported.
        """
        ...

    def checked(self) -> Iterator[CheckedAsset]: ...


@dataclass(frozen=True)
class Mirrored:
    """What the sensor reports: tables that are read from a server, those whose snapshots land,
    those that many databases have, what is computed from them, and what BigQuery has of all of
    these."""

    tables: Sequence[MirroredTable]
    snapshots: Sequence[MirroredTable]
    tenants: Sequence[MirroredTenants]
    publications: Mapping[str, PublicationReporter]
    reporters: Sequence[Reporter]

    @property
    def names(self) -> Names:
        others = (*self.publications.values(), *self.reporters)
        every = [*self.tables, *self.snapshots, *self.tenants, *others]
        return every[0].names

    @property
    def checked(self) -> Iterator[CheckedAsset]:
        """The assets whose verdicts stay shown."""
        yield from checked_assets(self.tables, self.snapshots, self.tenants)
        for reporter in self.publications.values():
            yield from reporter.checked()
