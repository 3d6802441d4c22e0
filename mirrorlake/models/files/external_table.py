"""A table that is made elsewhere: its file says where it is, and which columns are read of it.

    description: Prices, by the pricing team's own job
    owner: team:pricing
    format: parquet
    path: exports/prices
    columns:
      product: {type: string, nullable: false}
      price: decimal(12,2)
      day: date
    partition_by: day

``models/<dataset>/<name>.yaml`` is what queries call ``<dataset>.<name>``.

What belongs here: reading files. What doesn't: what there really is
(`mirrorlake.models.external_sources.tables`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from mirrorlake.config.fields import Section, listed, nearest
from mirrorlake.config.settings import Freshness
from mirrorlake.config.yaml.yaml_file import Problem, YamlFile
from mirrorlake.errors import ModelError
from mirrorlake.models.files.declared_columns import (
    HeaderColumn,
    HeaderType,
    declared_columns,
    place_of,
    wrong_columns,
)
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.files.model_files import FOLDER, Unread, model_name, read_each, read_text
from mirrorlake.models.files.yaml_errors import raise_problems, read_section

ExternalFormat = Literal["iceberg", "parquet", "bigquery"]
ExternalCheck = Literal["contract", "fresh", "row_count", "clean"]
CleanRule = Literal["drop", "mask", "null", "show"]
EXTERNAL_CHECKS: Mapping[ExternalCheck, str] = {
    "contract": "It has the declared columns, with their types, where its file says. Columns that "
    "are not declared are said, and are no difference.",
    "fresh": "It was written within the limit that its file declares, as its own metadata say.",
    "row_count": "It has at least as many rows as its file declares, as its own metadata count.",
    "clean": "The view that readers have of it is there, and shows what its file says.",
}
_ONLY_OF: Mapping[str, tuple[ExternalFormat, ...]] = {
    "table": ("iceberg", "bigquery"),
    "path": ("parquet",),
    "endpoint": ("parquet",),
    "location": ("bigquery",),
    "clean": ("bigquery",),
}
"""Fields that not all formats have."""
_TABLES: Mapping[ExternalFormat, re.Pattern[str]] = {
    "iceberg": re.compile(r"[^.`]+\.[^.`]+"),
    "parquet": re.compile(".*"),
    "bigquery": re.compile(r"((([a-z0-9.-]+:)?[a-z][a-z0-9-]*[a-z0-9])\.)?[A-Za-z0-9_]+\.[\w -]+"),
}
_NO_TABLE: Mapping[ExternalFormat, str] = {
    "iceberg": "a table of the lake's own catalog is namespace.name; others can't be read yet",
    "bigquery": "a table of BigQuery is project.dataset.table, or dataset.table in the contract's "
    "own project; no `$`, no `*` and no backtick",
}
_IN_FOLDERS = ("string", "int", "bigint", "date")
"""Types whose values a folder's name can give."""


class ExternalSection(Section):
    """What the file of a table that is made elsewhere may say."""

    description: str = ""
    owner: str | None = None
    format: ExternalFormat
    table: str | None = None
    path: str | None = None
    endpoint: str | None = None
    location: str | None = None
    columns: dict[str, HeaderType]
    partition_by: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    hidden: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    clean: dict[str, CleanRule] | None = None
    freshness: Freshness | None = None
    min_rows: Annotated[int, Field(ge=1)] | None = None


@dataclass(frozen=True)
class ExternalDeclaration:
    """One table that is made elsewhere, as its file says it.

    Attributes:
        name: ``dataset.table``, by which queries name it.
        table: of Iceberg, the lake's own table: namespace and name; of BigQuery dataset and name.
        project, location: of BigQuery, as far as the file says them.
        url: of Parquet, the folder that holds it.
        columns: those that are read, in order.
        partition_by: columns that divide it; of Parquet its folders.
        hidden: columns with personal data, in lower case.
        clean: rules of columns in the view for readers, by their names in lower case; None: there
            is none.
        freshness: when it counts as late.
        min_rows: how many rows it has at least.
        place: where the file says which table it is.
    """

    name: str
    path: Path
    format: ExternalFormat
    table: tuple[str, str]
    project: str | None
    location: str | None
    url: str
    endpoint: str | None
    columns: tuple[HeaderColumn, ...]
    partition_by: tuple[str, ...]
    hidden: frozenset[str]
    clean: Mapping[str, CleanRule] | None
    freshness: Freshness | None
    min_rows: int | None
    description: str
    owner: str | None
    place: TextPlace

    @property
    def home(self) -> Path:
        """The contract file's folder."""
        return _home(self.path)

    @property
    def checks(self) -> tuple[ExternalCheck, ...]:
        """What is looked at beside its rows: its columns always, the rest where the file says
        something of it."""
        limits: Mapping[ExternalCheck, object] = {
            "contract": True,
            "fresh": self.freshness,
            "row_count": self.min_rows,
            "clean": self.clean,
        }
        return tuple(check for check in EXTERNAL_CHECKS if limits[check] is not None)

    def wrong(self, words: str, place: TextPlace | None = None, next_step: str = "") -> ModelError:
        """An error at a place of the file; at that of the table without one."""
        place = place or self.place
        said = f"{self.path}:{place[0]}:{place[1]}: {words}"
        return ModelError(said, place=place, next_step=next_step)


def read_externals(folder: Path) -> tuple[list[ExternalDeclaration], Unread]:
    """All tables below a folder that are made elsewhere, by name, and the files that can't be
    read."""
    return read_each(external_files(folder), read_external)


def all_externals(folder: Path) -> list[ExternalDeclaration]:
    """`read_externals` for those who need to know of every one.

    Raises:
        ModelError: a file can't be read.
    """
    declared, unread = read_externals(folder)
    for problem in unread.problems:
        raise problem
    return declared


def external_files(folder: Path) -> list[Path]:
    """The files below a folder that declare such tables; tests stand beside what they are of, and
    are none."""
    found = sorted([*folder.rglob("*.yaml"), *folder.rglob("*.yml")])
    return [path for path in found if "." not in path.stem]


def read_external(path: Path) -> ExternalDeclaration:
    """The table that a file declares.

    Raises:
        ModelError: it can't be read, or says what can't be: all problems, one a line, each with
            file, line and column.
    """
    if path.parent.parent.name != FOLDER or path.suffix != ".yaml":
        raise ModelError(
            f"{path} is not where a table that is made elsewhere is",
            next_step=f"It is a file {FOLDER}/<dataset>/<name>.yaml",
        )
    name, file = model_name(path), YamlFile(read_text(path))
    no_mapping = Problem(1, 1, "", "the file is a mapping (name: value)")
    said = read_section(path, file, ExternalSection, no_mapping)
    raise_problems(path, [*_wrong_place(file, said), *_wrong(file, said)])
    project, dataset, table = _table_of(said.table or name)
    return ExternalDeclaration(
        name=name,
        path=path,
        format=said.format,
        table=(dataset, table),
        project=project,
        location=said.location,
        url=_url_of(path, said.path or ""),
        endpoint=said.endpoint,
        columns=tuple(declared_columns(file, said.columns)),
        partition_by=said.partition_by,
        hidden=frozenset(one.lower() for one in said.hidden),
        clean=None if said.clean is None else {n.lower(): r for n, r in said.clean.items()},
        freshness=said.freshness,
        min_rows=said.min_rows,
        description=said.description,
        owner=said.owner,
        place=place_of(file, ("path" if said.format == "parquet" else "table",)),
    )


def _table_of(written: str) -> tuple[str | None, str, str]:
    """Project, dataset and name; a project's name may have a point."""
    *project, dataset, table = written.rsplit(".", 2)
    return project[0] if project else None, dataset, table


def _home(path: Path) -> Path:
    return path.absolute().parent.parent.parent


def _url_of(path: Path, written: str) -> str:
    """A folder is relative to the contract file's."""
    if "://" in written:
        return written.rstrip("/")
    return str((_home(path) / written).resolve())


def _wrong_place(file: YamlFile, said: ExternalSection) -> Iterator[Problem]:
    if said.format == "parquet" and not said.path:
        yield file.problem(("format",), "of Parquet a path is needed: the folder that holds it")
    for name, formats in _ONLY_OF.items():
        if getattr(said, name) is not None and said.format not in formats:
            words = f"this is for {' and '.join(formats)} alone"
            yield file.problem((name,), words, at_key=True)
    if said.table is not None and not _TABLES[said.format].fullmatch(said.table):
        yield file.problem(("table",), _NO_TABLE[said.format])
    if said.location is not None and not re.fullmatch(r"[A-Za-z]+(-[a-z0-9]+)*", said.location):
        yield file.problem(("location",), "a location is written US, EU or europe-west1")
    if said.format == "bigquery" and said.partition_by:
        words = "a table of BigQuery is read as a whole: leave it out"
        yield file.problem(("partition_by",), words, at_key=True)
    scheme, mark, rest = (said.path or "").partition("://")
    if mark and (scheme not in ("gs", "s3") or not re.fullmatch(r"[^/]+/.*[^/]/?", rest)):
        yield file.problem(("path",), "it is a folder, gs://bucket/… or s3://bucket/…")
    if said.endpoint is not None and not re.fullmatch(r"https?://[^/@?#\s]+", said.endpoint):
        yield file.problem(("endpoint",), "an endpoint is written http://host:port or https://host")


def _wrong(file: YamlFile, said: ExternalSection) -> Iterator[Problem]:
    yield from wrong_columns(file, said.columns)
    for name, one in said.columns.items():
        if one.made_of is not None:
            words = "nobody knows what a column is made of that is made elsewhere"
            yield file.problem(("columns", name, "made_of"), words, at_key=True)
    names = {name.lower(): name for name in said.columns}
    for field in ("partition_by", "hidden"):
        for number, name in enumerate(getattr(said, field)):
            if name.lower() not in names or (field == "partition_by" and name not in said.columns):
                words = f"there is no column {name}{nearest(name, names)}"
                yield file.problem((field, number), words)
            elif field == "partition_by" and name in said.partition_by[:number]:
                yield file.problem((field, number), f"{name} is there twice")
    yield from _wrong_rules(file, said)
    if said.format == "parquet":
        yield from _wrong_folders(file, said)


def _wrong_rules(file: YamlFile, said: ExternalSection) -> Iterator[Problem]:
    """What is wrong with the rules of the view for readers."""
    if said.clean is None and "clean" in said.model_fields_set:
        yield file.problem(("clean",), "has no value: {} is a view without rules", at_key=True)
    columns = {name.lower(): one for name, one in said.columns.items()}
    rules: dict[str, CleanRule] = {}
    for name, rule in (said.clean or {}).items():
        column, again = columns.get(name.lower()), name.lower() in rules
        rules[name.lower()] = rule
        if column is None:
            words = f"there is no column {name}{nearest(name, said.columns)}"
            yield file.problem(("clean", name), words, at_key=True)
        elif again:
            yield file.problem(("clean", name), "two rules are for one column", at_key=True)
        elif rule == "mask" and column.type != "string":
            yield file.problem(("clean", name), f"a {column.type} can't be masked: a text alone")
        elif rule == "null" and column.type.startswith(("array<", "map<", "struct<")):
            yield file.problem(("clean", name), f"a {column.type} can't be emptied: drop it")
    hidden = {name.lower() for name in said.hidden}
    shown = {name: rules.get(name, "drop" if name in hidden else "show") for name in columns}
    left = [name for name, rule in shown.items() if rule != "drop"]
    if said.clean is not None and not left:
        yield file.problem(("clean",), "the view would have no column", at_key=True)


def _wrong_folders(file: YamlFile, said: ExternalSection) -> Iterator[Problem]:
    by = said.partition_by
    for number, name in enumerate(by):
        kind = said.columns[name].type if name in said.columns else "string"
        if kind not in _IN_FOLDERS:
            words = f"a folder's name is no {kind}: it may be {', '.join(_IN_FOLDERS)}"
            yield file.problem(("partition_by", number), words)
    last = tuple(said.columns)[-len(by) :] if by else ()
    if by and last != by and set(by) <= set(said.columns):
        words = f"the columns of its folders come last, in this order: {', '.join(by)}"
        yield file.problem(("columns",), words, at_key=True)
    if by and len(by) == len(said.columns):
        yield file.problem(("columns",), "its files have no column", at_key=True)


def rules_of_view(declared: ExternalDeclaration) -> dict[str, str]:
    """Each declared column, and what its table's view does with it: ``show``, ``drop``, ``null`` or
    ``mask``."""
    rules: Mapping[str, str] = declared.clean or {}
    found: dict[str, str] = {}
    for one in declared.columns:
        lowered = one.name.lower()
        found[one.name] = rules.get(lowered, "drop" if lowered in declared.hidden else "show")
    return found
