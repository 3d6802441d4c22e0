"""A table of tenants as the face has it: its contract, and what Dagster shows of its layers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import dagster as dg

from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import LAYERS, UPSTREAM, pool_of
from dagster_mirrorlake.translator import Layer, MirrorlakeTranslator, TenantLayerData
from mirrorlake.config import TenantTable
from mirrorlake.errors import ConfigError


@dataclass(frozen=True)
class MirroredTenants:
    """One table that many databases have, and its assets by layer; none has partitions: each tenant
    has one newest copy, and no past.

    Attributes:
        table: what the contract file says.
        translator: what it is called in Dagster.
        names: what the mirror's definitions are called.
        project: of BigQuery, in which the tables are that are loaded there.
    """

    table: TenantTable
    translator: MirrorlakeTranslator = field(default_factory=MirrorlakeTranslator)
    names: Names = field(default_factory=Names)
    project: str | None = None

    @property
    def contract(self) -> TenantTable:
        """What the contract file says, as of any table that is published."""
        return self.table

    @cached_property
    def specs(self) -> Mapping[Layer, dg.AssetSpec]:
        """The asset of each layer, the source's first; each depends on the one before it.

        Raises:
            ConfigError: the translator gives it partitions.
        """
        found: dict[Layer, dg.AssetSpec] = {}
        for layer in ("source", *LAYERS, *self._elsewhere):
            data = TenantLayerData(self.table, layer, self.names.mirror, self.project)
            spec = self.translator.get_tenants_spec(data)
            if spec.partitions_def is not None:
                raise ConfigError(
                    f"table {self.table.name}: the translator gives it partitions, and tenants have"
                    " none",
                    table=self.table.name,
                    next_step="Return a spec of `get_tenants_spec` without `partitions_def`",
                )
            deps = [found[UPSTREAM[layer]].key] if layer != "source" else []
            found[layer] = spec.replace_attributes(deps=deps)
        return found

    def key(self, layer: Layer) -> dg.AssetKey:
        """The asset of a layer."""
        return self.specs[layer].key

    @property
    def chain_keys(self) -> list[dg.AssetKey]:
        """What one trigger requests: the whole chain."""
        return [self.key(layer) for layer in (*LAYERS, *self._elsewhere)]

    @property
    def _elsewhere(self) -> tuple[Layer, ...]:
        """The layers that are not in the lake."""
        return ("bigquery",) if self.table.in_bigquery else ()

    @property
    def plain_name(self) -> str:
        """Its name in letters, digits and ``_``."""
        return f"{self.table.group}__{re.sub(r'[^A-Za-z0-9_]', '_', self.table.table)}"

    @property
    def pool(self) -> str:
        """The pool whose slots limit how many steps read from its source at once; of several
        sources, a pool of the group, as a step waits in one pool alone."""
        sources = self.table.sources
        return self.names.of(pool_of(sources[0] if len(sources) == 1 else self.table.group))

    @property
    def source_tag(self) -> str:
        """The value of ``mirrorlake/source`` of its runs: its source, or of several the group."""
        sources = self.table.sources
        return self.names.of(sources[0] if len(sources) == 1 else self.table.group)


def mirrored_tenants(
    tables: Iterable[TenantTable],
    translator: MirrorlakeTranslator | None = None,
    names: Names | None = None,
    project: str | None = None,
) -> Sequence[MirroredTenants]:
    """These tables under one translator."""
    named = translator or MirrorlakeTranslator()
    return [MirroredTenants(table, named, names or Names(), project) for table in tables]
