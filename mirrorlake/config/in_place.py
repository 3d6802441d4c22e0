"""What keeps BigQuery from reading a table in the lake (`bigquery: {load: none}`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirrorlake.config.contract import TableContract
from mirrorlake.config.fields import bucket_of
from mirrorlake.config.sections import ConfigSections
from mirrorlake.config.settings import BigQueryTableSection, ColumnRule, LakeConfig

_Found = Iterator[tuple[tuple[str | int, ...], str]]
_INSTEAD = "write bigquery: {load: deduped}"


def in_place_problems(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """Path and message of each table that can't be read where it is."""
    for contract in tables:
        place = ("sources", contract.source, "databases", contract.database, "tables")
        if contract.in_bigquery:
            path = (*place, contract.table)
            section = sections.bigquery_of(contract.source, contract.database, contract.table)
            yield from _table(sections, path, section, contract.columns)
    for group, tenants in sections.tenants.items():
        for table, said in tenants.tables.items():
            if "bigquery" in (said.publish or sections.defaults.publish):
                path = ("tenants", group, "tables", table)
                yield from _table(sections, path, said.bigquery, said.columns)


def _table(
    sections: ConfigSections,
    path: tuple[str, ...],
    section: BigQueryTableSection | None,
    rules: Mapping[str, ColumnRule],
) -> _Found:
    said = section.load if section is not None else None
    place = (*path, "bigquery")
    load = said or sections.defaults.bigquery.load
    partitioned = section is not None and section.partition_by is not None
    if load != "none":
        return
    # A default stands at the table that can't have it.
    at = (*place, "load") if said else path
    if words := _no_catalog(sections.lake):
        of_google = "load: none is read by Google's Lakehouse runtime catalog, and"
        yield at, f"{of_google} {words}: {_INSTEAD}"
    if partitioned:
        yield (*place, "partition_by"), "load: none loads nothing that has partitions: remove it"
    for name, rule in rules.items():
        if rule.pii == "hash":
            words = "hashes are loaded beside their columns, and load: none loads nothing"
            use = f"use drop, null or mask, or {_INSTEAD}"
            yield (*path, "columns", name, "pii"), f"{words}: {use}"


def _no_catalog(lake: LakeConfig) -> str:
    if lake.catalog.auth is None:
        return "lake.catalog says no auth: google"
    return "" if bucket_of(lake.warehouse) else "lake.warehouse is not in Cloud Storage"
