"""``mirrorlake init --from-landing``: look at what landed, and write the first contract."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pydantic import ValidationError

from mirrorlake.config import load_config
from mirrorlake.config.landing import LandingConfig
from mirrorlake.errors import ConfigError, LandingError
from mirrorlake.init.render import comment, lake_and_ledger, quoted
from mirrorlake.landing.files.columns import parse_schema, schema_text, type_of
from mirrorlake.landing.first_contract.survey import LOOKED, Answers, Surveyed, survey_landing
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.files.store import Store
from mirrorlake.sources.files.stores import open_store


@dataclass(frozen=True)
class LandingWritten:
    """What was written.

    Attributes:
        tables: how many contracts can be used as they are.
        open: tables that wait for an answer, each with its questions.
        warnings: how many lines of comments want a decision.
        schemas: the schema files that were written into the landing.
        rows: how many rows were looked at.
    """

    tables: int
    open: Mapping[str, Sequence[str]]
    warnings: int
    schemas: tuple[str, ...]
    rows: int


def write_landing_contract(
    url: str,
    name: str | None,
    output: Path,
    *,
    force: bool,
    endpoint: str | None = None,
    types: Sequence[str] = (),
    keys: Sequence[str] = (),
    looked: int = LOOKED,
) -> LandingWritten:
    """Look at a landing, write its contract to ``output``, and into the landing the schemas that it
    lacks; no row's value is kept.

    Args:
        types, keys: ``db.table.column=type`` and ``db.table=column,…``: what somebody answered.
        looked: how many rows of a table are read, at most.

    Raises:
        ConfigError: the file is there and ``force`` is not, a type is unknown, or the file can't be
            written.
        LandingError: there is no such landing, or no snapshot in it; a file can't be read.
        SchemaError: a schema file is not one, or columns can't be called as they are. Nothing was
            written.
    """
    if output.exists() and not force:
        raise ConfigError(
            f"{output} is there already",
            next_step="Give another --output, or --force to overwrite it",
        )
    answers = Answers(dict(map(_type, types)), dict(map(_key, keys)))
    place = url if "://" in url else str(Path(url).absolute())
    try:
        landing = LandingConfig.model_validate({"url": place, "endpoint": endpoint})
    except ValidationError as error:
        words = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise ConfigError(
            f"{url} is no landing: {words}",
            next_step="Give a folder, gs://bucket/folder or s3://bucket/folder",
        ) from None
    store = open_store(landing)
    _is_there(landing)
    tables = survey_landing(store, answers, looked=looked)
    sources = _sources(tables, name)
    schemas = _schemas(store, tables)
    text = _render_landing(_url(place, output), endpoint, sources, tables)
    made = _write(output, text, store, schemas)
    return LandingWritten(
        tables=sum(1 for one in tables if not one.questions),
        open={_name(sources, one): one.questions for one in tables if one.questions},
        warnings=sum(note.startswith("DECIDE") for one in tables for note in one.notes),
        schemas=made,
        rows=sum(one.rows for one in tables),
    )


def _type(text: str) -> tuple[str, str]:
    name, _, kind = text.rpartition("=")
    try:
        if name.count(".") >= 2:
            return name, type_of(kind)
    except ValueError:
        pass
    raise ConfigError(
        f"--type {text}: this is no db.table.column=type",
        next_step="Types are int, long, decimal(p,s), float, double, string, binary, boolean, "
        "date, timestamp and timestamptz",
    )


def _key(text: str) -> tuple[str, tuple[str, ...]]:
    name, _, listed = text.partition("=")
    columns = tuple(listed.split(","))
    if "." not in name or not all(columns) or len(set(columns)) < len(columns):
        raise ConfigError(
            f"--key {text}: this is no db.table=column,column",
            next_step="Name the columns that together tell rows apart",
        )
    return name, columns


def _is_there(landing: LandingConfig) -> None:
    if "://" not in landing.url and not Path(landing.url).is_dir():
        raise LandingError(
            f"there is no folder {landing.url}",
            next_step="Name the folder, gs://bucket/prefix or s3://bucket/prefix in which "
            "snapshots land",
        )


def _sources(tables: Sequence[Surveyed], name: str | None) -> dict[str, str]:
    """Cluster → the source's name."""
    clusters = sorted({one.folder.cluster for one in tables})
    if name is not None and len(clusters) > 1:
        raise ConfigError(
            f"the landing holds {len(clusters)} clusters, and --name names one source",
            next_step="Leave --name out: each gets its own name",
        )
    found: dict[str, str] = {}
    for cluster in clusters:
        words = re.sub(r"[^a-z0-9]+", "_", cluster.lower()).strip("_")
        wanted = name or (words if re.match(r"[a-z]", words) else f"landing_{words}".rstrip("_"))
        number, base = 1, wanted
        while wanted in found.values():
            number += 1
            wanted = f"{base}_{number}"
        found[cluster] = wanted
    return found


def _name(sources: Mapping[str, str], one: Surveyed) -> str:
    return f"{sources[one.folder.cluster]}.{one.folder.database}.{one.folder.table}"


def _url(place: str, output: Path) -> str:
    """A folder as the file names it: relative to itself, where it stands below or beside it."""
    if "://" in place:
        return place
    folder = output.absolute().parent
    return str(Path(place).relative_to(folder)) if Path(place).is_relative_to(folder) else place


def _schemas(store: Store, tables: Sequence[Surveyed]) -> dict[str, bytes]:
    """The schema files that the landing lacks, of tables without a question; each can be read.

    Raises:
        SchemaError: columns can't be called so.
    """
    found: dict[str, bytes] = {}
    for one in tables:
        if one.has_schema or one.questions:
            continue
        path = one.folder.schema_path
        columns = ((c.name, c.iceberg, True, "", False) for c in one.columns)
        found[path] = schema_text(columns).encode()
        parse_schema(found[path], store.describe(path), None)
    return found


# --- written --------------------------------------------------------------------------------------


def _write(output: Path, text: str, store: Store, schemas: Mapping[str, bytes]) -> tuple[str, ...]:
    """Write the schemas and the contract, or none of them; and only a contract that can be loaded.

    Returns:
        Where the schemas are.
    """
    partial = output.with_name(output.name + ".partial")
    made: list[str] = []
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(text, encoding="utf-8")
        load_config(partial, environ={})
        for path, schema in schemas.items():
            with store.create(path) as stream:
                stream.write(schema)
            made.append(path)
        partial.replace(output)
    except BaseException as error:
        partial.unlink(missing_ok=True)
        for path in made:
            store.remove(path)
        if isinstance(error, OSError):
            raise ConfigError(
                f"{output} can't be written: {error.strerror}", next_step="Give another --output"
            ) from error
        raise
    return tuple(store.describe(path) for path in made)


def _render_landing(
    url: str, endpoint: str | None, sources: Mapping[str, str], tables: Sequence[Surveyed]
) -> str:
    """The text of a ``mirrorlake.yaml`` for one landing; the same arguments give the same text."""
    lines = [*_head()]
    for cluster, mine in groupby(sorted(tables, key=_order), key=lambda one: one.folder.cluster):
        name = sources[cluster]
        lines += [f"  {quoted(name)}:", "    landing:", f"      url: {quoted(url)}"]
        lines += [f"      endpoint: {quoted(endpoint)}"] if endpoint else []
        lines += [f"      cluster: {quoted(cluster)}"] if cluster != name else []
        lines += ["    databases:"]
        for database, found in groupby(mine, key=lambda one: one.folder.database):
            listed = list(found)
            none = " {}" if all(one.questions for one in listed) else ""
            lines += [f"      {quoted(database)}:", f"        tables:{none}"]
            for one in listed:
                lines += _open_table(one) if one.questions else _table(one)
    return "\n".join(lines) + "\n"


def _order(one: Surveyed) -> tuple[str, str, str]:
    return (one.folder.cluster, one.folder.database, one.folder.table)


def _head() -> Iterator[str]:
    yield "# What Mirrorlake keeps of a landing: one contract per table, by"
    yield "# `mirrorlake init --from-landing`. It is a first proposal: read the notes, change what"
    yield "# you know better, keep it in git. docs/configuration.md says how it is written."
    yield from lake_and_ledger()
    yield "sources:"


def _table(one: Surveyed, indent: str = "          ") -> Iterator[str]:
    yield ""
    for note in _notes(one):
        yield from comment(note, len(indent))
    for line in _contract(one):
        yield f"{indent}{line}"


def _open_table(one: Surveyed) -> Iterator[str]:
    """A table that waits for an answer: all of it as a comment."""
    yield ""
    count = len(one.questions)
    how_many = "a question is" if count == 1 else f"{count} questions are"
    yield from comment(f"NOT KEPT YET: {how_many} open. Answer, and write this file again.", 10)
    for question in one.questions:
        yield from comment(f"DECIDE on {question}", 10)
    for note in _notes(one):
        yield from comment(note, 10)
    for line in _contract(one):
        yield f"          # {line}"


def _notes(one: Surveyed) -> Iterator[str]:
    rows = plural(one.rows, "row")
    held = (
        "its one snapshot" if one.snapshots == 1 else f"{one.read} of its {one.snapshots} snapshots"
    )
    all_ = "all of them" if one.whole else "not all of them"
    yield f"{rows} of {held} were looked at: {all_}. The newest is {one.newest:014d}."
    if one.key:
        unique = ", ".join(one.key)
        also = f" Unique too: {', '.join(one.unique)}." if one.unique else ""
        where = "each snapshot" if len(one.key) == 1 else "the newest snapshot"
        yield f"Key: {unique} is unique in {where} that was read, and never NULL.{also}"
    if one.has_schema:
        yield f"Its columns are those of {one.folder.schema_path}."
    for column in one.columns:
        if column.note:
            yield f"Column {column.name} is {column.note}."
    if one.absent:
        yield f"Some records lack {', '.join(one.absent)}: they are taken as NULL."
    if one.complete == "settle":
        yield (
            "DECIDE on complete: there is neither a manifest nor a marker, so a snapshot is taken "
            "once its files were seen unchanged for `settle`. A manifest is safer."
        )
    if one.folder.part != "dq":
        yield f"Only rows of a time land (partition/{one.folder.part}): what they lack is not gone."
    yield from one.notes


def _contract(one: Surveyed) -> Iterator[str]:
    yield f"{quoted(one.folder.table)}:"
    yield "  mode: snapshot"
    yield f"  key: [{', '.join(map(quoted, one.key)) or '…'}]"
    if one.rules:
        yield "  columns:"
        for rule in one.rules:
            for line in comment(rule.reason, 0):
                yield f"    {line}"
            # Quoted, because other readers of YAML take a bare null for nothing.
            text = f"pii: {quoted(rule.rule.pii)}" if rule.rule.pii else f"pci: {rule.rule.pci}"
            yield f"    {quoted(rule.column)}: {{{text}}}"
    yield "  snapshot:"
    yield f"    format: {one.folder.format}"
    if one.folder.part != "dq":
        yield f"    part: {quoted(one.folder.part)}"
    yield f"    complete: {one.complete}"
    if one.absent:
        yield '    missing_columns: "null"'
    days = [c.name for c in one.columns if c.iceberg in ("date", "timestamp", "timestamptz")]
    if days:
        yield f"    # day: {quoted(days[0])} # the table's partitions, if it says a row's day"
