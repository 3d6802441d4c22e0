"""``permissions.yaml`` → who is to see which rows of a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mirrorlake.config.permission_sections import SET, DatasetSection, PermissionsFile
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
class TableRows:
    """What is declared of one table.

    Attributes:
        policies: by name; none: there is to be none, so that all rows are seen.
        place: ``file:line:column`` of the table's name.
    """

    dataset: str
    table: str
    policies: Mapping[str, DeclaredRows]
    place: str

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
            policies = {
                name: DeclaredRows(
                    frozenset(p for one in rows.to for p in members_of(one, sections.sets)),
                    rows.where.strip(),
                    place_of(path, file, (*at, "rows", name)),
                )
                for name, rows in declared.rows.items()
            }
            found.append(TableRows(dataset, table, policies, place_of(path, file, at)))
    return tuple(found)


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
            yield from unknown_sets((*at, "to"), rows.to, sets)
            known = [one for one in rows.to if not one.startswith(SET) or one[len(SET) :] in sets]
            shown = [p for one in known for p in members_of(one, sets)]
            for principal in sorted({one for one in shown if shown.count(one) > 1}):
                yield (*at, "to"), f"{principal} is here twice: leave one out"
