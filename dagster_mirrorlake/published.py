"""What is published in BigQuery, as the face has it.

What belongs here: what its steps, checks and sensors need of a table, of whichever kind it is, or
of a model. What doesn't: loading it (`mirrorlake.operations.bigquery`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import dagster as dg

from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants
from dagster_mirrorlake.translator import LAYER_TAG, Layer

if TYPE_CHECKING:
    from dagster_mirrorlake.models.model_asset import ModelAsset
    from mirrorlake.models.bigquery.published import PublishedModel


@dataclass(frozen=True)
class PublishedModelAsset:
    """A model that is published in BigQuery.

    Attributes:
        model: its asset in the lake.
        contract: the model as a load has to know it.
        project: of BigQuery.
    """

    model: "ModelAsset"
    contract: "PublishedModel"
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
            group_name=re.sub(r"[^A-Za-z0-9_]", "_", f"{dataset}__bigquery"),
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
