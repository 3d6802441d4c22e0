"""A table of tenants as the face has it: its contract, and what Dagster shows of its layers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import dagster as dg
from typing_extensions import override

from dagster_mirrorlake.names import Names, plain
from dagster_mirrorlake.table import MirroredChain, MirroredTable
from dagster_mirrorlake.translator import Layer, MirrorlakeTranslator, TenantLayerData
from mirrorlake.config import TenantTable
from mirrorlake.errors import ConfigError


@dataclass(frozen=True)
class MirroredTenants(MirroredChain[TenantTable]):
    """One table that many databases have, and its assets by layer; none has partitions: each tenant
    has one newest copy, and no past.

    Attributes:
        contract: what the contract file says.
        translator: what it is called in Dagster.
        names: what the mirror's definitions are called.
        project: of BigQuery, in which the tables are that are loaded there.
    """

    contract: TenantTable
    translator: MirrorlakeTranslator = field(default_factory=MirrorlakeTranslator)
    names: Names = field(default_factory=Names)
    project: str | None = None

    @override
    def _spec(self, layer: Layer) -> dg.AssetSpec:
        data = TenantLayerData(self.contract, layer, self.names.mirror, self.project)
        spec = self.translator.get_tenants_spec(data)
        if spec.partitions_def is not None:
            raise ConfigError(
                f"table {self.contract.name}: the translator gives it partitions, and tenants have"
                " none",
                table=self.contract.name,
                next_step="Return a spec of `get_tenants_spec` without `partitions_def`",
            )
        return spec

    @property
    def plain_name(self) -> str:
        """Its name in letters, digits and ``_``."""
        return plain(self.contract.group, self.contract.table)

    @property
    @override
    def _source(self) -> str:
        # Of several sources the group's: a step waits in one pool alone.
        sources = self.contract.sources
        return sources[0] if len(sources) == 1 else self.contract.group


AnyMirrored: TypeAlias = MirroredTable | MirroredTenants
"""A table, or a table of tenants."""


def mirrored_tenants(
    tables: Iterable[TenantTable],
    translator: MirrorlakeTranslator | None = None,
    names: Names | None = None,
    project: str | None = None,
) -> Sequence[MirroredTenants]:
    """These tables under one translator."""
    named = translator or MirrorlakeTranslator()
    return [MirroredTenants(table, named, names or Names(), project) for table in tables]
