"""What is published in BigQuery, as the face has it.

What belongs here: what its steps, checks and sensors need of a table, of whichever kind it is, or
of a model. What doesn't: loading it (`mirrorlake.bigquery.loads`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import dagster as dg

from dagster_mirrorlake.assets.layer import layer_asset
from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.models.definitions import mirrored_models
from dagster_mirrorlake.models.model_asset import ModelAsset
from dagster_mirrorlake.names import Names, letters
from dagster_mirrorlake.sensors.requests import busy_of_runs, under_way
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants
from dagster_mirrorlake.translator import LAYER_TAG, Layer
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.models.bigquery.published import PublishedModel, published_model


@dataclass(frozen=True)
class PublishedModelAsset:
    """A model that is published in BigQuery.

    Attributes:
        model: its asset in the lake.
        contract: the model as a load has to know it.
        project: of BigQuery.
    """

    model: ModelAsset
    contract: PublishedModel
    project: str

    @property
    def names(self) -> Names:
        """What the mirror's definitions are called."""
        return self.model.names

    @cached_property
    def specs(self) -> Mapping[Layer, dg.AssetSpec]:
        """Its asset in BigQuery: the model's table as a whole, without partitions."""
        declared = self.model.declaration
        dataset, _ = declared.name.split(".")
        spec = dg.AssetSpec(
            dg.AssetKey(["bigquery", *self.model.key.path]),
            deps=[self.model.key],
            description=f"The model {declared.name} as BigQuery has it; one materialisation for "
            "each version of its table that was loaded.",
            group_name=letters(f"{dataset}__bigquery"),
            kinds={"bigquery"},
            tags={LAYER_TAG: "bigquery"},
            owners=self.model.owners,
            metadata={"dagster/table_name": f"{self.project}.{declared.name}"},
        )
        return {"bigquery": spec}

    def key(self, layer: Layer) -> dg.AssetKey:
        """Its asset in BigQuery; of the lake's layers, the model's own."""
        return self.specs[layer].key if layer in self.specs else self.model.key

    @property
    def chain_keys(self) -> list[dg.AssetKey]:
        """The model, and what is made of it in BigQuery."""
        return [self.model.key, self.key("bigquery")]


PublishedAsset: TypeAlias = MirroredTable | MirroredTenants | PublishedModelAsset
"""Each has a ``contract``, the ``names`` of its mirror, and an asset ``key("bigquery")``."""


def busy_published(instance: dg.DagsterInstance, tables: Sequence[PublishedAsset]) -> set[str]:
    """Those of some tables in BigQuery that a run waits or works for. A table of tenants, and a
    model, is busy for as long as a run for it is under way."""
    runs = [*under_way(instance)]
    found = busy_of_runs(instance, runs, [one for one in tables if isinstance(one, MirroredTable)])
    others = [one for one in tables if not isinstance(one, MirroredTable)]
    for _, chosen in runs:
        found |= {one.contract.name for one in others if not chosen.isdisjoint(one.chain_keys)}
    return found


def published_assets(mirror: Mirror) -> list[PublishedAsset]:
    """What of a mirror is published in BigQuery."""
    every: list[PublishedAsset] = [*mirror.every, *mirror.tenants, *published_models(mirror)]
    return [table for table in every if table.contract.in_bigquery]


def published_models(mirror: Mirror) -> list[PublishedModelAsset]:
    """Models in BigQuery. Without a section that says where, `mirrorlake plan` refuses them."""
    settings = mirror.config.written_section(BigQueryConfig)
    if settings is None:
        return []
    found = ((one, published_model(one.declaration)) for one in mirror.once(mirrored_models))
    return [PublishedModelAsset(one, m, settings.project) for one, m in found if m is not None]


def bigquery_assets(mirror: Mirror) -> list[dg.AssetsDefinition]:
    """Deduped, and models, in BigQuery. A step whose jobs still run makes none."""
    steps = "dagster_mirrorlake.bigquery.steps"
    return [layer_asset(t, "bigquery", steps, required=False) for t in published_assets(mirror)]
