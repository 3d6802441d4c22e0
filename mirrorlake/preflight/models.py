"""Preflight through models: what a migration does to the models that read the mirror of its tables,
however many models are between.

The models are compiled against the lake's tables as they would be once the next sync has taken the
migration up. Where that sync would stop, the mirror stays as it is: then every place
in a model that reads a column that goes is named, for the person who lets the sync go on.

What belongs here: findings about models. What doesn't: what the tables will be
(`mirrorlake.preflight.tables`), and compiling (capabilities:
`mirrorlake.operations.planning.computed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mirrorlake.destinations.base import Identifier
from mirrorlake.operations.planning.computed import COMPUTED, Computed, open_computed
from mirrorlake.operations.planning.reader_impacts import ModelImpact
from mirrorlake.operations.schema_changes.altered_tables import (
    AlteredCatalogue,
    AlteredTable,
    altered_by,
    altered_tenants,
    altered_without,
)
from mirrorlake.preflight.findings import Finding, Preflight, Severity
from mirrorlake.preflight.lines import with_lines
from mirrorlake.preflight.migration import TableAfter, TenantsAfter
from mirrorlake.runtime.plural import plural
from mirrorlake.serving.catalogue import Catalogue
from mirrorlake.sources.mysql.ddl.actions import Statement
from mirrorlake.workspace import Workspace


@dataclass
class ModelsAfter:
    """What becomes of the models that read the tables of a migration.

    Nothing is compiled, and the lake is not looked at, where there are no models.

    Attributes:
        after: contract → its table as it will be.
    """

    workspace: Workspace
    after: Mapping[str, TableAfter | TenantsAfter]

    @cached_property
    def _catalogue(self) -> Catalogue:
        return Catalogue(self.workspace.config, self.workspace.lake)

    @cached_property
    def _computed(self) -> list[Computed]:
        workspace = self.workspace
        parts = (workspace.config, workspace.ledger, workspace.lake)
        return open_computed(*parts, self._catalogue)

    @cached_property
    def _impacts(self) -> list[ModelImpact]:
        tables: dict[str, AlteredTable] = {}
        for one in self.after.values():
            tables |= _altered(self._catalogue, one)
        altered = AlteredCatalogue(self._catalogue, tables)
        return [found for one in self._computed for found in one.impacts(altered, costs=True)]

    def extended(self, found: Preflight, statements: Sequence[Statement]) -> Preflight:
        """What is said of a table, with what becomes of the models that read it.

        Args:
            statements: about the table, in order.
        """
        one = self.after.get(found.table)
        if one is None or not any(kind.used(self.workspace.config) for kind in COMPUTED):
            return found
        ends = isinstance(one, TableAfter) and one.ends
        if not ends and not _altered(self._catalogue, one):
            return found  # nothing that a model reads changes
        names = _lake_names(one)
        mine = [one for one in self._impacts if set(one.tables) & set(names)]
        findings = [f for one in mine for f in _findings(one)]
        if ends:
            findings += self._left_behind(names)
        findings += self._unreadable(names)
        lined = with_lines(findings, statements)
        return replace(found, findings=(*found.findings, *lined), models=tuple(mine))

    def _left_behind(self, names: Sequence[str]) -> Iterator[Finding]:
        """Models that read a table which is loaded no more."""
        for one in self._computed:
            for place, model, table in one.readers(names):
                words = f"{place}: {model} reads {table}, which stays as it is then"
                yield Finding("attention", words)

    def _unreadable(self, names: Sequence[str]) -> Iterator[Finding]:
        """Models that do not compile as they are, and may read one of these tables."""
        for one in (found for some in self._computed for found in some.unreadable(names)):
            words = f"a model does not compile as it is, and was not looked at: {one.words}"
            yield Finding("attention", words, one.next_step)


def _lake_names(one: TableAfter | TenantsAfter) -> tuple[str, ...]:
    """A table's deduped and clean, in lower case."""
    contract = one.table if isinstance(one, TenantsAfter) else one.contract
    spaces = (contract.namespaces.deduped, contract.namespaces.clean)
    return tuple(str(Identifier(space, contract.table)).lower() for space in spaces)


def _altered(catalogue: Catalogue, one: TableAfter | TenantsAfter) -> Mapping[str, AlteredTable]:
    """A table's deduped and clean, if they have other columns then."""
    if isinstance(one, TenantsAfter):
        return altered_tenants(catalogue, one.table, one.types, one.held, one.lacking)
    if one.ends:
        return {}
    if one.now is not None:
        return altered_by(catalogue, one.now, one.renamed)
    left = {column.name.lower() for column in one.after.columns}
    gone = {column.name.lower() for column in one.before.columns} - left
    return altered_without(catalogue, _lake_names(one), gone, one.renamed)


def _findings(one: ModelImpact) -> Iterator[Finding]:
    severity: Severity = "ok" if one.what == "reads" and one.fits else "attention"
    severity = "breaks" if one.what == "breaks" else severity
    cost = ""
    if one.partitions:
        rows, seconds = one.forecast.rows, one.forecast.seconds
        known = [f"about {plural(rows, 'row')}"] if rows is not None else []
        known += [f"{seconds:,.0f} s"] if seconds is not None else []
        many = plural(one.partitions, "partition is", "partitions are")
        cost = f"; {many} computed again ({', '.join(known) or 'for how long is not known'})"
    columns = {f"{place.place}: ": place.column for place in one.places}
    for number, words in enumerate(one.words):
        column = next((columns[place] for place in columns if words.startswith(place)), None)
        yield Finding(severity, words + (cost if number == 0 else ""), column=column)
    for place in one.unsaid:
        yield Finding(severity, place.said, column=place.column)
