"""What a model may read, while models are compiled one after the other.

What belongs here: tables by name, and what of one its readers depend on. What doesn't: compiling
(`mirrorlake.models.compile.project`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote

from mirrorlake.errors import ModelError
from mirrorlake.models.cache.model import hash_of, offer_of, plain_fields
from mirrorlake.models.compile.model import Model
from mirrorlake.models.external_sources.tables import Externals, ExternalTable
from mirrorlake.models.spark_sql.columns import Relation, relation_of
from mirrorlake.serving.catalogue import Catalogue


class ReadableTables:
    """What a model may read: the mirror, the models before it, and tables made elsewhere.

    Args:
        given: table → its columns, whatever else is known of it.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        models: Mapping[str, Model],
        all_: Sequence[str],
        externals: Externals,
        given: Mapping[str, Relation] | None = None,
    ) -> None:
        self.catalogue, self.models, self._all = catalogue, models, all_
        self.externals = externals.tables
        self._offers: dict[str, str] = {}
        self._given = given or {}

    def columns_of(self, name: str) -> Relation | None:
        if name in self._given:
            return self._given[name]
        if name in self.externals:
            return self.externals[name].relation
        if name in self.models:
            return self.models[name].relation
        self._refuse_several(name)
        table = self.catalogue.table(name)
        if table is not None and not table.columns:
            raise ModelError(
                f"{name} has no columns yet: its table was never loaded",
                next_step=f"mirrorlake sync {quote(table.contract.name)}",
            )
        return relation_of(name, table.columns) if table is not None else None

    def _refuse_several(self, name: str) -> None:
        """Spark reads the one that is written, and all else here compares names in lower case: one
        would be judged, and hidden, by the other."""
        if len(alike := self.catalogue.spelled(name)) > 1:
            raise ModelError(
                f"{' and '.join(alike)} differ in case alone: a model reads neither",
                next_step="Leave one of them out of the contract, or rename it in MySQL",
            )

    def offer(self, name: str) -> str:
        """A hash of all that what is found of a reader depends on; each table is looked at once."""
        if name not in self._offers:
            self._offers[name] = self._offer(name)
        return self._offers[name]

    def _offer(self, name: str) -> str:
        if name in self._given:
            return hash_of("given", plain_fields(self._given[name].fields))
        if name in self.externals:
            made = self.externals[name]
            declared = made.declaration
            columns = plain_fields(made.relation.fields)
            return hash_of("elsewhere", columns, declared.partition_by, sorted(declared.hidden))
        if name in self.models:
            model = self.models[name]
            return offer_of(model.fields, model.declaration.partition_by)
        if len(alike := self.catalogue.spelled(name)) > 1:
            return hash_of("spelled", alike)
        table = self.catalogue.table(name)
        hidden = sorted(self.catalogue.hidden(table)) if table is not None else []
        return hash_of(table and (table.columns, table.day), hidden)

    def foreign(self, reads: Sequence[str]) -> dict[str, ExternalTable]:
        """Those of some tables that are made elsewhere."""
        return {name: self.externals[name] for name in reads if name in self.externals}

    def names(self) -> Sequence[str]:
        return [*self._all, *self.externals, *self.catalogue.names()]
