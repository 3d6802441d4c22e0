"""``permissions.yaml`` → who is to see which rows and columns of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mirrorlake.config.permission_sections import (
    SET,
    DatasetSection,
    PermissionsFile,
    TableRowsSection,
)
from mirrorlake.config.permissions import Sets, members_of, place_of, unknown_sets
from mirrorlake.config.yaml_file import Path as YamlPath
from mirrorlake.config.yaml_file import YamlFile


@dataclass(frozen=True)
class DeclaredRows:
    """One row access policy.

    Attributes:
        to: principals.
        where: a condition in BigQuery's SQL, as it is written.
        place: ``file:line:column`` of its name.
    """

    to: frozenset[str]
    where: str
    place: str


@dataclass(frozen=True)
class DeclaredValues:
    """Who sees one column.

    Attributes:
        values, masked: principals.
        mask: what ``masked`` see; '' where nobody does.
        place: ``file:line:column`` of its name.
    """

    values: frozenset[str]
    masked: frozenset[str]
    mask: str
    place: str


@dataclass(frozen=True)
class TableRows:
    """What is declared of one table.

    Attributes:
        policies: by name; none: there is to be none, so that all rows are seen.
        columns: by name; of a column that is not here all values are seen.
        place: ``file:line:column`` of the table's name.
    """

    dataset: str
    table: str
    policies: Mapping[str, DeclaredRows]
    place: str
    columns: Mapping[str, DeclaredValues] = field(default_factory=dict[str, DeclaredValues])

    @property
    def resource(self) -> str:
        """The table as it is shown."""
        return f"{self.dataset}.{self.table}"


def declared_rows(path: Path, file: YamlFile, sections: PermissionsFile) -> tuple[TableRows, ...]:
    """The tables of a permissions file that has no problems."""
    found: list[TableRows] = []
    for dataset, section in sorted(sections.datasets.items()):
        for table, declared in sorted(section.tables.items()):
            at: YamlPath = ("datasets", dataset, "tables", table)
            columns = {
                name: DeclaredValues(
                    _principals(one.values, sections.sets),
                    _principals(one.masked, sections.sets),
                    one.mask or "",
                    place_of(path, file, (*at, "columns", name)),
                )
                for name, one in declared.columns.items()
            }
            policies = {
                name: DeclaredRows(
                    _principals(rows.to, sections.sets),
                    rows.where.strip(),
                    place_of(path, file, (*at, "rows", name)),
                )
                for name, rows in declared.rows.items()
            }
            place = place_of(path, file, at)
            found.append(TableRows(dataset, table, policies, place, columns))
    return tuple(found)


def _principals(members: Iterable[str], sets: Sets) -> frozenset[str]:
    return frozenset(principal for one in members for principal in members_of(one, sets))


def rows_problems(sections: PermissionsFile) -> Iterator[tuple[YamlPath, str]]:
    """Policies that are declared twice, and principals that are twice in one; each at its place."""
    for dataset, section in sections.datasets.items():
        yield from _dataset_problems(("datasets", dataset, "tables"), section, sections.sets)


def _dataset_problems(
    path: YamlPath, section: DatasetSection, sets: Sets
) -> Iterator[tuple[YamlPath, str]]:
    for table, declared in section.tables.items():
        first: dict[str, str] = {}
        for name, rows in declared.rows.items():
            at = (*path, table, "rows", name)
            if first.setdefault(name.lower(), name) != name:
                yield at, f"the policy is declared already, as {first[name.lower()]}"
            yield from _member_problems((*at, "to"), rows.to, sets)
        yield from _column_problems((*path, table, "columns"), declared, sets)


def _column_problems(
    path: YamlPath, declared: TableRowsSection, sets: Sets
) -> Iterator[tuple[YamlPath, str]]:
    first: dict[str, str] = {}
    for name, column in declared.columns.items():
        at = (*path, name)
        if first.setdefault(name.lower(), name) != name:
            yield at, f"the column is declared already, as {first[name.lower()]}"
        if bool(column.masked) != (column.mask is not None):
            yield at, "masked and mask go together: write both, or neither"
        yield from _member_problems((*at, "values"), (*column.values, *column.masked), sets)


def _member_problems(
    path: YamlPath, members: Sequence[str], sets: Sets
) -> Iterator[tuple[YamlPath, str]]:
    yield from unknown_sets(path, members, sets)
    known = [one for one in members if not one.startswith(SET) or one[len(SET) :] in sets]
    shown = [principal for one in known for principal in members_of(one, sets)]
    for principal in sorted({one for one in shown if shown.count(one) > 1}):
        yield path, f"{principal} is here twice: leave one out"
