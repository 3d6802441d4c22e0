"""What stands in a landing that nobody has a contract for: its tables, columns and keys, and what
looks personal in them. Everything is found by reading the files; nothing is written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

from mirrorlake.config import ColumnRule
from mirrorlake.config.landing import CompleteWhen, SnapshotFormat, SnapshotPart
from mirrorlake.errors import ConfigError, LandingError
from mirrorlake.init.pii import Suggestion, suggest_rule
from mirrorlake.landing.files.columns import LandedSchema, parse_schema
from mirrorlake.landing.files.infer import Inferred, InferredColumn, infer_columns, schema_of
from mirrorlake.landing.files.limits import Limits, read_whole
from mirrorlake.landing.files.records import Reading
from mirrorlake.landing.files.snapshots import Landed, check_chunks, list_landed, read_manifest
from mirrorlake.landing.first_contract.uniqueness import (
    SampledRows,
    by_name,
    check_key,
    files_of,
    find_pair,
)
from mirrorlake.sources.files.layout import FORMATS, PARTS, TableFolder, unescape
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.mysql.introspection.introspect import Column

LOOKED: Final = 1_000_000
"""How many rows of a table are looked at, those of its newest snapshots."""
_NO_KEY: Final = ("float", "double", "boolean", "binary")
_MYSQL: Final = {"string": "varchar", "binary": "blob", "long": "bigint", "int": "int"}


@dataclass(frozen=True)
class Answers:
    """What somebody said: ``db.table.column`` → its type, and ``db.table`` → its key's columns."""

    types: Mapping[str, str] = field(default_factory=dict[str, str])
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])


@dataclass(frozen=True)
class Surveyed:
    """One table of a landing.

    Attributes:
        complete: by what its snapshots say that they are complete.
        snapshots, read: how many there are that are whole, and how many were looked at.
        newest: the newest one's id.
        rows: how many rows were looked at; ``whole``: whether that is all of them.
        columns: as its schema file lists them, or as its files show.
        has_schema: whether its schema file is there already.
        absent: columns that some records lack.
        key: columns that are unique in every snapshot that was looked at; empty where none are.
        unique: other columns that are.
        rules: what looks personal; ``notes``: what else to know. No value is in either.
        questions: what somebody has to answer before the table can be kept.
    """

    folder: TableFolder
    complete: CompleteWhen
    snapshots: int
    read: int
    newest: int
    rows: int
    whole: bool
    columns: tuple[InferredColumn, ...]
    has_schema: bool
    absent: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()
    rules: tuple[Suggestion, ...] = ()
    notes: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()


def survey_landing(store: Store, answers: Answers, *, looked: int = LOOKED) -> list[Surveyed]:
    """The tables of a landing, by name.

    Raises:
        LandingError: there is no such landing, or no snapshot in it; a file can't be read, or
            breaks off; a table comes in two formats.
        ConfigError: an answer names a column that is not there, or columns that are no key.
    """
    folders = _find_tables(store)
    found = [_survey(store, folder, answers, looked) for folder in folders]
    there = [one for one in found if one is not None]
    if not there:
        raise LandingError(
            f"there is no complete snapshot in {store.describe('')}",
            next_step="docs/snapshots.md shows where files of snapshots stand and how they are "
            "called",
        )
    tables = {f"{one.folder.database}.{one.folder.table}": one for one in there}
    columns = {f"{name}.{column.name}" for name, one in tables.items() for column in one.columns}
    for name in (*answers.types, *answers.keys):
        if name not in columns and name not in tables:
            raise ConfigError(
                f"there is no {name} in {store.describe('')}",
                next_step="Write --type db.table.column=type and --key db.table=column",
            )
    return there


# --- where tables are -----------------------------------------------------------------------------


def _find_tables(store: Store) -> list[TableFolder]:
    found: dict[tuple[str, str, str], list[TableFolder]] = {}
    for format in FORMATS:
        for path in _below(store, format, 3):
            names = cast("tuple[str, str, str]", tuple(map(unescape, path.split("/")[1:])))
            parts: list[SnapshotPart] = [
                part for part, folder in PARTS.items() if store.folders(f"{path}/{folder}", "")
            ]
            if parts:
                found.setdefault(names, []).append(_folder(format, names, parts[0]))
    for names, folders in found.items():
        if len(folders) > 1:
            both = " and ".join(folder.path for folder in folders)
            raise LandingError(
                f"table {'.'.join(names[1:])} of {store.describe('')} comes in two formats: {both}",
                next_step="A table is read in one of them: move the other folder elsewhere",
            )
    return [folders[0] for _, folders in sorted(found.items())]


def _below(store: Store, path: str, depth: int) -> Iterator[str]:
    if not depth:
        yield path
        return
    for name in store.folders(path, ""):
        if not name.startswith((".", "_")):
            yield from _below(store, f"{path}/{name}", depth - 1)


def _folder(format: SnapshotFormat, names: tuple[str, str, str], part: SnapshotPart) -> TableFolder:
    return TableFolder(format, *names, part)


# --- one table ------------------------------------------------------------------------------------


def _survey(store: Store, folder: TableFolder, answers: Answers, looked: int) -> Surveyed | None:
    listing = list_landed(store, folder, (), None)
    there = [one for one in listing.new.values() if one.chunks and not one.unfinished]
    complete, landed, left_out = _complete(store, there)
    if not landed:
        return None
    landed.sort(key=lambda one: -one.id)
    inferred, has_schema, reading = _columns_of(store, folder, landed, answers.types, looked)
    rows = SampledRows([name for name, kind in _decided(inferred) if _can_be_key(kind)], looked)
    for one in landed:
        if not rows.take(reading, files_of(one)):
            break
    personal = _personal(folder, inferred, rows.samples)
    never = {one.column for one in personal if one.rule.pci and not one.unsure}
    tried = [name for name in rows.tried if name not in never]
    unique = [name for name in by_name(folder, rows.unique) if name in tried]
    key = answers.keys.get(f"{folder.database}.{folder.table}", ())
    if key:
        check_key(folder, reading, landed[0], key, tried)
    elif rows.most > 1:
        key = tuple(unique[:1]) or find_pair(reading, files_of(landed[0]), tried, looked)
    rules, warnings = _rules(personal, key)
    notes = [*left_out, *(f"{path} is no snapshot's" for path in listing.strange[:3]), *warnings]
    return Surveyed(
        folder=folder,
        complete=complete,
        snapshots=len(landed),
        read=rows.snapshots,
        newest=landed[0].id,
        rows=rows.rows,
        whole=not rows.full,
        columns=inferred.columns,
        has_schema=has_schema,
        absent=inferred.absent,
        key=key,
        unique=tuple(name for name in unique if name not in key),
        rules=tuple(rules),
        notes=tuple(notes),
        questions=tuple(_questions(folder, inferred, key, rows)),
    )


def _complete(
    store: Store, there: Sequence[Landed]
) -> tuple[CompleteWhen, list[Landed], list[str]]:
    """By what snapshots are complete, those that are, and a line for each that is broken."""
    if any(one.manifest for one in there):
        complete: CompleteWhen = "manifest"
        chosen = [one for one in there if one.manifest]
    elif any(one.marker for one in there):
        complete, chosen = "marker", [one for one in there if one.marker]
    else:
        complete, chosen = "settle", list(there)
    good: list[Landed] = []
    errors: list[LandingError] = []
    for one in chosen:
        try:
            says = (
                read_manifest(store, one.manifest)
                if complete == "manifest" and one.manifest
                else None
            )
            check_chunks(store, one, says)
        except LandingError as error:
            if error.retryable:
                raise
            errors.append(error)
        else:
            good.append(one)
    if errors and not good:
        raise errors[0]
    notes = [f"{error.message}: it will be refused" for error in errors[:3]]
    waiting = len(there) - len(chosen)
    if waiting:
        notes.append(f"{waiting} snapshots are not complete yet: they have no {complete}")
    return complete, good, notes


def _columns_of(
    store: Store,
    folder: TableFolder,
    landed: Sequence[Landed],
    types: Mapping[str, str],
    looked: int,
) -> tuple[Inferred, bool, Reading]:
    """What the columns are, whether a schema file says so, and how rows are read by them."""
    name = f"{folder.database}.{folder.table}"
    reading = Reading(store, name, folder.format, LandedSchema(()), "refuse", "null")
    if store.entry(folder.schema_path) is not None:
        place = store.describe(folder.schema_path)
        schema = parse_schema(read_whole(store, folder.schema_path, Limits()), place, None)
        for one in schema.columns:
            if types.get(f"{name}.{one.name}", one.iceberg) != one.iceberg:
                raise ConfigError(
                    f"--type {name}.{one.name}={types[f'{name}.{one.name}']}: {place} says that "
                    f"the column is {one.iceberg}",
                    next_step="Change it in that file, or remove the file: it is written again",
                )
        columns = tuple(InferredColumn(one.name, one.iceberg) for one in schema.columns)
        return Inferred(columns), True, replace(reading, schema=schema)
    files = [file for one in landed for file in files_of(one)]
    inferred = infer_columns(reading, files, looked)
    columns = tuple(_answered(one, types.get(f"{name}.{one.name}")) for one in inferred.columns)
    inferred = replace(inferred, columns=columns)
    open_ = any(one.question for one in columns)
    reading = replace(reading, schema=schema_of(_decided(inferred)))
    return inferred, False, replace(reading, extra_columns="ignore") if open_ else reading


def _answered(found: InferredColumn, answer: str | None) -> InferredColumn:
    return (
        found
        if answer is None
        else InferredColumn(found.name, answer, note=f"{answer}, as you said")
    )


def _decided(inferred: Inferred) -> list[tuple[str, str]]:
    return [(one.name, one.iceberg) for one in inferred.columns if one.iceberg]


def _can_be_key(kind: str) -> bool:
    return kind not in _NO_KEY


# --- what a person should know --------------------------------------------------------------------


def _personal(
    folder: TableFolder, inferred: Inferred, samples: Mapping[str, Sequence[str]]
) -> list[Suggestion]:
    found: list[Suggestion] = []
    for number, one in enumerate(inferred.columns):
        if one.iceberg:
            column = _as_of_mysql(one, number)
            rule = suggest_rule(column, samples.get(one.name, ()), table=folder.table)
            found += [rule] if rule is not None else []
    return found


def _as_of_mysql(one: InferredColumn, number: int) -> Column:
    kind = _MYSQL.get(one.iceberg, one.iceberg.partition("(")[0])
    nothing: dict[str, Any] = dict.fromkeys(
        ("charset", "collation", "precision", "scale", "length", "fraction")
    )
    return Column(
        name=one.name, ordinal=number, data_type=kind, column_type=kind, nullable=True, extra="",
        comment="", **nothing,
    )  # fmt: skip


def _rules(found: Sequence[Suggestion], key: Sequence[str]) -> tuple[list[Suggestion], list[str]]:
    """The rules that the evidence is enough for, as a view can keep them; a line for the others."""
    rules: list[Suggestion] = []
    warnings: list[str] = []
    for one in found:
        if one.is_hash:  # a view would show the hash's key in its text
            reason = f"{one.reason}; the clean of a landing is a view, which can't hash"
            one = replace(one, rule=ColumnRule(pii="drop"), reason=reason)
        written = f"pci: {one.rule.pci}" if one.rule.pci else f"pii: {one.rule.pii}"
        if one.unsure or one.column in key:
            warnings.append(
                f"DECIDE on {one.column}: {one.reason}; it is read and shown until you write "
                f"{{{written}}} for it under columns, or {{pii: show}}"
            )
        else:
            rules.append(one)
    return rules, warnings


def _key_option(folder: TableFolder) -> str:
    return f"--key {folder.database}.{folder.table}=COLUMN,…"


def _questions(
    folder: TableFolder, inferred: Inferred, key: Sequence[str], rows: SampledRows
) -> Iterator[str]:
    for one in inferred.columns:
        if one.question:
            name = f"{folder.database}.{folder.table}.{one.name}"
            yield f"column {one.name}: {one.question}. Answer by --type {name}=TYPE"
    if rows.most < 2 and not key:
        words = "key: no snapshot has two rows, so every column is unique"
        yield f"{words}. Answer by {_key_option(folder)}"
    elif not key:
        looked = f"in {rows.rows:,} rows. Answer by {_key_option(folder)}"
        yield f"key: no column, and no pair that was tried, is unique and never NULL {looked}"
