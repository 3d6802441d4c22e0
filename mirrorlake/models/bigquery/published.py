"""Models that are published in BigQuery, as a load there has to know them.

What belongs here: names. What doesn't: what of a model BigQuery can't have
(`mirrorlake.bigquery.refused_models`), and loads (`mirrorlake.bigquery.loads`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirrorlake.config.settings import BigQueryLayout
from mirrorlake.destinations.base import Identifier
from mirrorlake.ledger.lake.lake_heads import OF_MODELS

if TYPE_CHECKING:  # a sync asks what is published here, and parses no SQL
    from mirrorlake.models.files.declaration import Declaration


@dataclass(frozen=True)
class PublishedModel:
    """A model whose table is loaded into BigQuery.

    Attributes:
        model: ``dataset.name``.
        bigquery: how it is laid out there, where its header says it.
    """

    model: str
    bigquery: BigQueryLayout | None = None

    @property
    def name(self) -> str:
        """What the ledger calls it, and its lease: of no table's name."""
        return f"{OF_MODELS}{self.model}"

    @property
    def in_bigquery(self) -> bool:
        return True

    @property
    def identifier(self) -> Identifier:
        """Its table in the lake; BigQuery's has its name, in the dataset of its namespace."""
        return Identifier(*self.model.split("."))


def published_model(declared: Declaration) -> PublishedModel | None:
    """A model as it is published in BigQuery; None where it is in the lake alone."""
    if not declared.in_bigquery:
        return None
    return PublishedModel(declared.name, declared.bigquery)


def published_models(declared: Iterable[Declaration]) -> tuple[PublishedModel, ...]:
    """Those of some models that are published in BigQuery, by name."""
    found = (published_model(one) for one in declared)
    return tuple(sorted((one for one in found if one is not None), key=lambda one: one.model))
