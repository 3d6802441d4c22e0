"""What keeps raw from being loaded into BigQuery: where the views there could not be exact, and
what a layout there can't be."""

from __future__ import annotations

from collections.abc import Iterator

from mirrorlake.config.contract import TableContract
from mirrorlake.config.sections import ConfigSections
from mirrorlake.config.settings import BigQueryTableSection

_Found = Iterator[tuple[tuple[str | int, ...], str]]
_INSTEAD = "write bigquery: {load: deduped}"


def raw_there(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """Path and message of each table whose raw can't be loaded, and of layouts that can't be."""
    for contract in tables:
        place = ("sources", contract.source, "databases", contract.database)
        section = sections.bigquery_of(contract.source, contract.database, contract.table)
        path = (*place, "tables", contract.table)
        # A default stands at the table that can't have it.
        at = (*path, "bigquery", "load") if section is not None and section.load else path
        if contract.raw_in_bigquery:
            yield from ((at, f"{words}: {_INSTEAD}") for words in _inexact(contract))
        yield from _layout((*path, "bigquery"), section, contract.bigquery_load)
    for group, tenants in sections.tenants.items():
        for table, said in tenants.tables.items():
            path = ("tenants", group, "tables", table)
            load = said.bigquery.load if said.bigquery is not None else None
            if load == "raw" or (load is None and sections.defaults.bigquery.load == "raw"):
                if "bigquery" in (said.publish or sections.defaults.publish):
                    at = (*path, "bigquery", "load") if load else path
                    words = "load: raw is of tables of one server, and tenants are copied as wholes"
                    yield at, f"{words}: {_INSTEAD}"
            else:
                yield from _layout((*path, "bigquery"), said.bigquery, "deduped")


def _inexact(contract: TableContract) -> Iterator[str]:
    """Why views over a table's raw could not say what deduped says."""
    if not contract.loads.by_windows:
        yield f"load: raw adds what each load saw, and mode {contract.mode} makes complete copies"
        return
    if not contract.key:
        yield "load: raw needs a key, by which the current row is found"
    if contract.entity is not None:
        yield "load: raw finds no first time of an entity: it is among all its rows"
    rules = {name.lower(): rule for name, rule in contract.columns.items()}
    for name in contract.key:
        rule = rules.get(name.lower())
        if rule is not None and rule.pii == "drop":
            yield f"load: raw finds the current row by its key, and {name!r} is not loaded (pii)"
    for name, rule in contract.columns.items():
        if rule.json_as == "structure":
            yield f"load: raw shows JSON as its text alone, and {name!r} has json_as: structure"


def _layout(place: tuple[str, ...], section: BigQueryTableSection | None, load: str) -> _Found:
    """What a layout says that is not of what is loaded."""
    if section is None:
        return
    if load == "raw" and section.partition_by is not None:
        words = "raw is partitioned by the days of its loads: remove partition_by"
        yield (*place, "partition_by"), words
    elif load != "raw" and section.partition_by is None and "partition" in section.model_fields_set:
        yield (*place, "partition"), "partition is of a column: name it under partition_by"
