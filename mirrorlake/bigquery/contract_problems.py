"""What can only be checked once every default is filled in: contracts against the section
``bigquery``, and against each other in BigQuery."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.config.contract import TableContract
from mirrorlake.config.resolved import path_of
from mirrorlake.config.sections.added import added_sections
from mirrorlake.config.sections.contract_file import ConfigSections
from mirrorlake.config.settings import namespaces_of

_Found = Iterator[tuple[tuple[str | int, ...], str]]


def bigquery_problems(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """Path and message of everything that is wrong of what is to be loaded into BigQuery."""
    yield from _in_bigquery(sections, tables)
    yield from _laid_out(sections, tables)
    yield from _taken_by_views(sections, tables)


def _written(sections: ConfigSections) -> BigQueryConfig | None:
    found = (one for _, one in added_sections(sections) if isinstance(one, BigQueryConfig))
    return next(found, None)


@dataclass(frozen=True)
class _LoadedTable:
    """A table that is loaded into BigQuery: where it stands in the file, and its dataset."""

    path: tuple[str, ...]
    name: str
    dataset: str


def _loaded(sections: ConfigSections, tables: tuple[TableContract, ...]) -> Iterator[_LoadedTable]:
    for contract in tables:
        if contract.in_bigquery:
            yield _LoadedTable(path_of(contract), contract.name, contract.namespaces.deduped)
    for group, tenants in sections.tenants.items():
        dataset = tenants.namespaces.deduped or namespaces_of(group).deduped
        for table, section in tenants.tables.items():
            if "bigquery" in (section.publish or sections.defaults.publish):
                path = ("tenants", group, "tables", table)
                yield _LoadedTable(path, f"{group}.{table}", dataset)


def _in_bigquery(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """What is to be loaded into BigQuery has a section that says where."""
    missing = "publish: [lake, bigquery] needs a section bigquery with project and bucket"
    if _written(sections) is not None:
        return
    if "bigquery" in sections.defaults.publish:
        yield ("defaults", "publish"), missing
        return
    for table in _loaded(sections, tables):
        yield (*table.path, "publish"), missing


def _laid_out(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """A layout is of a table that is loaded into BigQuery, by a column that is."""
    loaded = {table.path for table in _loaded(sections, tables)}
    wanted = {
        path_of(contract): (
            sections.bigquery_of(contract.source, contract.database, contract.table),
            contract.columns,
        )
        for contract in tables
    }
    for group, tenants in sections.tenants.items():
        for table, section in tenants.tables.items():
            wanted["tenants", group, "tables", table] = (section.bigquery, section.columns)
    for path, (layout, rules) in wanted.items():
        if layout is None:
            continue
        by = layout.partition_by
        if path not in loaded:
            words = "the table is published in the lake alone: remove bigquery, or write publish:"
            yield (*path, "bigquery"), f"{words} [lake, bigquery]"
        elif any(n.lower() == by.lower() and (r.pci or r.pii == "drop") for n, r in rules.items()):
            words = f"{by!r} is not loaded into BigQuery, by its rule: name another column"
            yield (*path, "bigquery", "partition_by"), words


def _taken_by_views(sections: ConfigSections, tables: tuple[TableContract, ...]) -> _Found:
    """No dataset of views is one that tables are loaded into."""
    settings = _written(sections)
    if settings is None:
        return
    loaded = [*_loaded(sections, tables)]
    of_tables = {table.dataset.casefold(): table for table in loaded}
    for table in loaded:
        for kind in settings.views:
            dataset = settings.views_dataset(table.dataset, kind)
            other = of_tables.get(dataset.casefold())
            if other is not None:
                yield (
                    (*other.path[:-2], "namespaces", "deduped"),
                    f"the dataset {dataset} has the views of {table.name} in BigQuery: name"
                    " another namespace",
                )
