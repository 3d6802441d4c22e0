"""What BigQuery is to have of a table whose raw is loaded, by the contract, the ledger and the
lake: raw's tables, and the views over them. What would not be exact is refused here, before
anything is loaded."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from mirrorlake.config.contract import TableContract
from mirrorlake.config.settings import BigQueryLayout
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.bigquery.over_raw import MOST_CHARACTERS, in_parts, over_tables
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.null_counts import CountedFile, raw_files
from mirrorlake.destinations.iceberg.tables import stored_types
from mirrorlake.errors import ConfigError, LakeError, TypeRefused
from mirrorlake.ledger.publications import raw_publication
from mirrorlake.operations.bigquery.form import FormTerms, ShownTable, form_of
from mirrorlake.schema.own_columns import DAY, DELETED_AT, KEY
from mirrorlake.serving.over_raw import INSTEAD, OverRaw, RecordedNames, over_raw
from mirrorlake.table.clean_rules import rules_of
from mirrorlake.table.lake_tables import deduped_of, raw_tables
from mirrorlake.table.shape import taken_names
from mirrorlake.workspace import Workspace


@dataclass(frozen=True)
class RawShown:
    """Raw of a table as the lake shows it now, and what of it goes to BigQuery.

    Attributes:
        versions: raw's tables that have rows, oldest version first.
        view: deduped, whose rows the view of current rows has; its form is the view's.
        now: deduped's columns, each with its type in Iceberg's words.
        keyed: whether rows are of one key where the server's own key is the same.
        start: the number of the first load of the table's history.
    """

    contract: TableContract
    versions: tuple[ShownTable, ...]
    view: ShownTable
    names: RecordedNames
    now: Mapping[str, str]
    keyed: bool
    start: int

    def over(self, there: Mapping[str, Collection[str]]) -> OverRaw:
        """The views over tables that BigQuery has.

        Args:
            there: their columns there, by the table's name.
        """
        tables = {one.identifier.name: one.table for one in self.versions}
        parts = (self.names, tables, there, self.now)
        return over_raw(*parts, keyed=self.keyed, start=self.start)

    @property
    def unified(self) -> Identifier:
        """The view over all versions."""
        return Identifier(self.contract.namespaces.raw, self.contract.table)


def look_at_raw(workspace: Workspace, contract: TableContract) -> RawShown | None:
    """What is to be loaded of a table; None before the lake has it.

    Raises:
        LakeError: the lake can't be read, or raw has loads that are not folded.
        TypeRefused, ConfigError: a column, or the key, would not be exact there.
    """
    lake, ledger = workspace.lake, workspace.ledger
    deduped = lake.load(deduped_of(contract))
    snapshot = deduped.current_snapshot() if deduped is not None else None
    found = ((one, one.current_snapshot()) for one in raw_tables(lake, ledger, contract))
    heads = [(one, head.snapshot_id) for one, head in found if head is not None]
    if deduped is None or snapshot is None or not heads:
        return None
    versions = _versions(workspace, contract, heads)
    rules, hash_key = rules_of(contract), workspace.config.privacy.hash_key
    form = form_of(FormTerms(contract.name, contract.key, rules), deduped, hash_key)
    if not form.key:
        raise _inexact_key(contract, "is not, or not exactly, in BigQuery")
    if (DELETED_AT in form.names) != (contract.deletes == "flag"):
        raise LakeError(
            f"table {contract.name}: deduped was folded with other `deletes` than the contract's",
            table=contract.name,
            next_step=f"mirrorlake sync {contract.name}",
        )
    form = replace(form, raw=tuple((one.identifier.name, one.version) for one in versions))
    loads = ledger.successful_loads(contract.name, ever=True)
    names = RecordedNames(
        contract,
        workspace.config.sources[contract.source].is_utc,
        taken_names(contract, ledger.schema_versions(contract.name), loads),
    )
    shown = RawShown(
        contract,
        versions,
        ShownTable(contract.name, deduped_of(contract), deduped, snapshot.snapshot_id, form),
        names,
        {
            field.name: str(field.field_type).replace(" ", "")
            for field in deduped.schema().fields
            if not field.name.startswith("_mirror_")
        },
        _look_at_files(workspace, contract, names, [one for one, _ in heads]),
        ledger.history_start(contract.name),
    )
    # Whatever BigQuery has: what can't be exact is refused before anything is loaded.
    texts_of(shown, {one.identifier.name: one.form.names for one in versions}, "project")
    return shown


def _versions(
    workspace: Workspace, contract: TableContract, heads: Sequence[tuple[LakeTable, int]]
) -> tuple[ShownTable, ...]:
    """Raw's tables, as they are loaded."""
    layout = BigQueryLayout(partition_by=DAY, partition=contract.bigquery_partition)
    terms = FormTerms(contract.name, (), rules_of(contract), layout, (DAY,))
    found: list[ShownTable] = []
    for table, version in heads:
        name = Identifier(*table.name()[-2:])
        form = form_of(terms, table, workspace.config.privacy.hash_key)
        known_as = raw_publication(contract.name, name.name)
        found.append(ShownTable(known_as, name, table, version, replace(form, appends=True)))
    return tuple(found)


@dataclass(frozen=True)
class RawTexts:
    """The views in BigQuery's SQL.

    Attributes:
        selects: the rows of each raw table, as many together as one view may have.
        columns: those of the view over all versions.
        current: the view of current rows; shown: its columns.
    """

    selects: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...]
    current: str
    shown: tuple[str, ...]


def texts_of(
    shown: RawShown,
    there: Mapping[str, Collection[str]],
    project: str,
    within: Collection[str] | None = None,
) -> RawTexts:
    """The views over tables that BigQuery has.

    Args:
        there: their columns there, by the table's name.
        within: columns that the view of current rows may name; None: all.

    Raises:
        ConfigError: a view would have more characters than BigQuery takes.
        TypeRefused: a column would not be shown exactly.
    """
    over = shown.over(there)
    selects = [over_tables(over.rows_sql(name), project) for name in over.tables]
    columns = over.columns
    names = [
        name
        for name in shown.view.form.names
        if over.offers(name) and (within is None or name in within or name not in columns)
    ]
    current = over_tables(over.current_sql(shown.unified, names), project)
    for text in (current, *selects):
        if len(text) > MOST_CHARACTERS:
            raise ConfigError(
                f"table {shown.contract.name}: a view in BigQuery would have {len(text):,}"
                f" characters, and it takes {MOST_CHARACTERS:,}",
                table=shown.contract.name,
                next_step=INSTEAD,
            )
    return RawTexts(tuple(in_parts(selects)), columns, current, tuple(names))


def _look_at_files(
    workspace: Workspace,
    contract: TableContract,
    names: RecordedNames,
    tables: Sequence[LakeTable],
) -> bool:
    """See that raw's rows have keys, and are of loads that deduped holds; whether they have the
    server's own key.

    Raises:
        LakeError: the lake can't be read, or raw has loads that are not folded.
        TypeRefused: a row's key is not in its columns.
    """
    start = workspace.ledger.history_start(contract.name)
    folded = workspace.ledger.folded_loads(contract.name, "deduped")
    having: set[bool] = set()
    for table in tables:
        there = stored_types(table)
        key = [names.name_in(there, name) or "" for name in contract.key]
        for file in raw_files(workspace.lake, table, [*key, KEY]):
            if file.seq is not None and file.seq < start:
                continue
            if file.seq is None or file.seq not in folded:
                raise LakeError(
                    f"table {contract.name}: raw has rows of a load that is not folded",
                    table=contract.name,
                    next_step=f"mirrorlake sync {contract.name}",
                )
            if any(file.nulls[name] != 0 for name in key) and file.rows:
                raise _inexact_key(contract, "may have no place in its type (NULL) in raw")
            having.add(_has_own_key(contract, file))
    if len(having) > 1:
        raise _inexact_key(contract, "is compared by its collation in a part of raw alone")
    return True in having


def _has_own_key(contract: TableContract, file: CountedFile) -> bool:
    nulls = file.nulls[KEY]
    if nulls not in (0, file.rows):
        raise _inexact_key(contract, "is compared by its collation in a part of raw alone")
    return nulls == 0


def _inexact_key(contract: TableContract, words: str) -> TypeRefused:
    return TypeRefused(
        f"table {contract.name}: its key ({', '.join(contract.key)}) {words}: a view there can't"
        " say which row is the current one",
        table=contract.name,
        next_step=INSTEAD,
    )
