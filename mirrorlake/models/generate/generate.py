"""First models over mirrored tables are written: each table's rows by the day on which they were
created, and a stream view of them.

What belongs here: what there is to write, and writing it. What doesn't: texts
(`mirrorlake.models.generate.texts`).
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shlex import quote
from typing import Literal

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.metadata.statistics import file_range
from mirrorlake.errors import ModelError
from mirrorlake.ledger import Ledger
from mirrorlake.models.compile.project import compile_models
from mirrorlake.models.files.declaration import Declaration, read_declaration
from mirrorlake.models.files.model_files import FOLDER, model_name
from mirrorlake.models.generate.texts import (
    DomainTable,
    created_column,
    domain_text,
    model_stem,
    stream_text,
)
from mirrorlake.runtime.cache import write_whole
from mirrorlake.schema.own_columns import DATABASE, SOURCE
from mirrorlake.schema.versions import FIRST_CREATED
from mirrorlake.serving.catalogue import Catalogue, MirroredTable
from mirrorlake.table.columns.source_columns import recorded_columns
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.streamed import why_nothing_to_add

_MOST_DAYS = 3_650
"""Before the newest row; the first partition has all that is older: a row of the year 1000 makes no
370,000 partitions."""
_QUIET_DAYS = 366
"""A table without newer rows gets no partitions for the days since."""
_MOST_FILES = 10_000
GeneratedOutcome = Literal["written", "unchanged", "kept", "refused", "left out"]


@dataclass(frozen=True)
class GeneratedModel:
    """One model that was, or was not, written.

    Attributes:
        table: the mirrored table.
        model: its name; empty where there is none to write.
        outcome: ``kept``: a file is there that says something else. ``refused``: it would not
            compile. ``left out``: there is nothing to write.
        partitions: how many it has.
        bytes: what all of its partitions, or one look at the view, read of deduped's files;
            ``bytes_each``: what one partition reads, on average.
    """

    table: str
    model: str
    path: str
    materialized: str
    outcome: GeneratedOutcome
    why: str = ""
    partitions: int = 0
    bytes: int = 0
    bytes_each: int = 0


@dataclass(frozen=True)
class GenerateTerms:
    """What is to be written.

    Attributes:
        dataset: in which; None: one for each database.
        streams: whether stream views are, too.
        force: whether files that say something else are replaced.
        dry_run: whether nothing is written, and only said.
    """

    dataset: str | None = None
    streams: bool = True
    force: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class _Draft:
    table: DomainTable
    name: str
    text: str
    kind: str


def generate_models(
    config: Config, lake: Lake, ledger: Ledger, contracts: Sequence[Mirrored], terms: GenerateTerms
) -> list[GeneratedModel]:
    """Write the models of some mirrored tables; a file that a person changed is kept.

    Raises:
        ModelError: the dataset can't be called so.
        MachineError: a file can't be written.
        LakeError, LedgerError
    """
    catalogue, today = Catalogue(config, lake), datetime.now(UTC).date()
    found: list[GeneratedModel] = []
    # Of all tables, not of those that were asked for: a model keeps its name.
    everyone = config.mirrored
    for one in everyone:
        if terms.dataset in (one.namespaces.raw, one.namespaces.deduped, one.namespaces.clean):
            raise ModelError(
                f"{terms.dataset} is where the mirror of {one.name} is",
                next_step="Name another --dataset",
            )
    stems = {model_stem(one.table) for one in everyone}
    named: dict[str, str] = {}
    for contract in contracts:
        table = _domain_table(catalogue, lake, ledger, contract, today)
        if table is None:
            words = f"never loaded: mirrorlake sync {quote(contract.name)}"
            found.append(GeneratedModel(contract.name, "", "", "table", "left out", words))
            continue
        stem = model_stem(contract.table)
        dataset = terms.dataset or model_stem(f"{contract.namespaces.deduped}__domain")
        table = _as_begun(table, config.path.parent / FOLDER / dataset / f"{stem}.sql")
        drafts = [_Draft(table, f"{dataset}.{stem}", domain_text(table), "table")]
        if terms.streams:
            why = _no_stream(table)
            if why:
                one = GeneratedModel(contract.name, "", "", "stream view", "left out", why)
                found.append(one)
            else:
                name = f"{dataset}.{_now(stem, stems)}"
                drafts.append(_Draft(table, name, stream_text(table), "stream view"))
        for draft in drafts:
            first = named.setdefault(draft.name, contract.name)
            one = _generated(config, lake, catalogue, draft, terms, taken_by=first)
            found.append(one)
    return found


def _now(stem: str, stems: Set[str]) -> str:
    """The name of a table's stream view, which is no other table's model."""
    name = f"{stem}_now"
    while name in stems:
        name += "_view"
    return name


def _as_begun(table: DomainTable, path: Path) -> DomainTable:
    """A table with the days that its model has already; those that ended go on if the table has new
    rows. Another first partition would have all that is older a second time: rows of the one before
    it stay in the model's table."""
    if table.first is None or not path.exists():
        return table
    found = _DAYS.search(path.read_text(encoding="utf-8"))
    if found is None:
        return table
    end = date.fromisoformat(found["end"]) if found["end"] else None
    last = end - timedelta(days=1) if end is not None and table.last is not None else None
    return replace(table, first=date.fromisoformat(found["first"]), last=last)


_DAY = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_DAYS = re.compile(
    rf": TIMESERIES\('(?P<first>{_DAY})', (?:CURRENT_DATE|'(?P<end>{_DAY})'), 'P1D'\)"
)


def _no_stream(table: DomainTable) -> str:
    if table.source.is_hashed:
        return "a column of clean is hashed"
    return why_nothing_to_add(table.source.contract)


def _domain_table(
    catalogue: Catalogue, lake: Lake, ledger: Ledger, contract: Mirrored, today: date
) -> DomainTable | None:
    """A table as its models read it: clean. None of one that was never loaded."""
    spaces = contract.namespaces
    deduped = catalogue.at(Identifier(spaces.deduped, contract.table))
    clean = catalogue.at(Identifier(spaces.clean, contract.table))
    if deduped is None or not deduped.columns:
        return None
    # Not deduped: a new column is hidden until the contract names it, and with it the texts that
    # are kept beside all values.
    source = clean if clean is not None and clean.columns else deduped
    if source.layer == "deduped" and catalogue.hidden(deduped):
        return None
    table = DomainTable(source, _key_of(ledger, source))
    created = _created(contract, source)
    days = _days(lake, deduped, created, today) if created is not None else None
    return replace(table, created=created, first=days[0], last=days[1]) if days else table


def _key_of(ledger: Ledger, source: MirroredTable) -> tuple[str, ...]:
    """The key that identifies a row in a layer; none where a part of it is hidden, or
    may have no place in its column."""
    contract = source.contract
    shown = {name.lower(): name for name, _, _ in source.columns}
    ruled = {name.lower() for name, rule in contract.columns.items() if rule.pii != "show"}
    unplaced: set[str] = set()
    names = list(contract.key)
    if isinstance(contract, TenantTable):
        names = [SOURCE, DATABASE, *names] if contract.key else []
    else:
        columns = recorded_columns(ledger, contract)
        unplaced = {one.name.lower() for one in columns if one.original}
    lowered = [name.lower() for name in names]
    if any(name not in shown or name in ruled | unplaced for name in lowered):
        return ()
    return tuple(shown[name] for name in lowered)


def _created(contract: Mirrored, source: MirroredTable) -> str | None:
    """The column that says when a row was created: what the contract says of it, else by name."""
    shown = {name.lower(): name for name, kind, _ in source.columns if kind in _TIMES}
    ruled = {name.lower() for name, rule in contract.columns.items() if rule.pii != "show"}
    said: list[str | None] = [FIRST_CREATED]
    if isinstance(contract, TableContract):
        # A cursor of what is never read again is a time of creation, if it is a time.
        said += [contract.created, None if contract.rereads or contract.copies else contract.cursor]
    said.append(created_column(source.columns))
    for name in said:
        if name is not None and name.lower() in shown and name.lower() not in ruled:
            return shown[name.lower()]
    return None


_TIMES = ("date", "timestamp", "timestamp_ntz")


def _days(
    lake: Lake, deduped: MirroredTable, column: str, today: date
) -> tuple[date, date | None] | None:
    """The first day of a column that has a partition, and the last, if the days don't go on.

    The first is by its files, not earlier than `_MOST_DAYS` before the newest row, and not later
    than yesterday. None where no row has a day, or the files are too many to be looked at.
    """
    table = lake.load(deduped.identifier)
    if table is None:
        return None
    name = next((f.name for f in table.schema().fields if f.name.lower() == column.lower()), "")
    found = file_range(table, name, most=_MOST_FILES) if name else None
    if found is None:
        return None
    oldest, newest = (one.date() if isinstance(one, datetime) else one for one in found)
    last = min(newest, today - timedelta(days=1))
    first = min(max(oldest, last - timedelta(days=_MOST_DAYS - 1)), last)
    return first, last if last < today - timedelta(days=_QUIET_DAYS) else None


# --- files ----------------------------------------------------------------------------------------


def _generated(
    config: Config,
    lake: Lake,
    catalogue: Catalogue,
    draft: _Draft,
    terms: GenerateTerms,
    *,
    taken_by: str,
) -> GeneratedModel:
    dataset, stem = draft.name.split(".")
    path = config.path.parent / FOLDER / dataset / f"{stem}.sql"
    model_name(path)
    found = _priced(lake, draft, path)
    if taken_by != found.table:
        words = f"{draft.name} is the model of {taken_by}: name another --dataset"
        return replace(found, outcome="refused", why=words)
    try:
        found = replace(found, partitions=_compiled(catalogue, draft))
    except ModelError as error:
        return replace(found, outcome="refused", why=error.message)
    others = [one for one in (path.with_suffix(".py"), path.with_suffix(".yaml")) if one.exists()]
    if others:
        return replace(found, outcome="kept", why=f"{others[0].name} is there")
    there = path.read_text(encoding="utf-8") if path.exists() else None
    if there == draft.text:
        return replace(found, outcome="unchanged")
    if there is not None and not terms.force:
        words = "the file says something else: --force writes it again"
        return replace(found, outcome="kept", why=words)
    if not terms.dry_run:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, draft.text.encode())
    return replace(found, outcome="written", why="not yet: --dry-run" if terms.dry_run else "")


def _compiled(catalogue: Catalogue, draft: _Draft) -> int:
    """How many partitions a model has.

    Raises:
        ModelError: it does not compile.
    """
    with tempfile.TemporaryDirectory() as folder:
        dataset, stem = draft.name.split(".")
        path = Path(folder) / dataset / f"{stem}.sql"
        path.parent.mkdir()
        path.write_text(draft.text, encoding="utf-8")
        declaration: Declaration = read_declaration(path, Path(folder))
    project = compile_models([declaration], catalogue, datetime.now(UTC))
    if project.problems:
        raise ModelError(project.problems[0].message.removeprefix(f"{path}:"))
    return len(project.models[draft.name].scopes)


def _priced(lake: Lake, draft: _Draft, path: Path) -> GeneratedModel:
    """What a model costs, before anything is known of its partitions."""
    source = draft.table.source
    statistics = lake.statistics(deduped_of(source.contract))
    size = statistics.bytes if statistics is not None else 0
    first = draft.table.first if draft.kind == "table" else None
    last = draft.table.last or datetime.now(UTC).date() - timedelta(days=1)
    days = (last - first).days + 1 if first is not None else 1
    return GeneratedModel(
        table=source.contract.name,
        model=draft.name,
        path=str(path),
        materialized=draft.kind,
        outcome="written",
        bytes=size,
        bytes_each=size // max(days, 1),
    )
