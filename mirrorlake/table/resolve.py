"""Plans: what a contract and a source table make of each other.

Everything here is decided before anything is written; a contract that can't be kept is refused
here. `windows` says what is read next, `chunks` how it is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import TableContract
from mirrorlake.config.server import SourceConfig
from mirrorlake.config.yaml.file_positions import place_of
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.tables.schemas import has_original
from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.schema.reserved_names import NameProblem, bigquery_problems, name_problems
from mirrorlake.schema.versions import (
    Exact,
    SchemaVersion,
    first_created_column,
    name_in,
    schema_version,
)
from mirrorlake.sources.mysql.tables import Column, SourceTable
from mirrorlake.sources.mysql.types.collations import is_collated, why_no_key
from mirrorlake.sources.mysql.types.exact_types import exact_columns
from mirrorlake.sources.mysql.types.registry import INTEGERS, TIMES
from mirrorlake.table.entity import Entity, first_created, resolve_entity


@dataclass(frozen=True)
class ResolvedTable:
    """One table, its contract and its columns resolved against the server, every name as the server
    spells it."""

    contract: TableContract
    source: SourceConfig
    table: SourceTable
    columns: tuple[Exact, ...]
    version: SchemaVersion
    key: tuple[str, ...]
    cursor: Column | None
    created: Column | None
    rules: dict[str, str]
    entity: Entity | None = None
    held: tuple[str, ...] = ()
    """Columns that clean leaves out until a person decides: new ones, and those that may have what
    another one had; see `mirrorlake.table.columns.new_columns`."""
    exchanged: tuple[tuple[str, str], ...] = ()
    """Of the held columns, the pairs that may have got each other's names since the newest load;
    see `mirrorlake.table.columns.exchanged`."""
    left_out: tuple[str, ...] = ()
    """Columns that were added in MySQL and that the contract does not take up; see
    `mirrorlake.table.columns.shape`."""
    had_originals: bool = False
    """Whether raw has original texts though no column needs them now: they are of a time when one
    had another type or charset, and of rows that MySQL has no more all that says what it held."""
    taken: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Names of columns that were another column's before: see
    `mirrorlake.table.columns.shape.taken_names`."""
    filled: Mapping[str, str] = field(default_factory=dict[str, str])
    """Columns that were added with one value for all rows that there were, and its text: rows of
    versions without the column have it (`mirrorlake.ledger.records.Receipt.filled`)."""
    gone: tuple[str, ...] = ()
    """Columns that the contract has a rule for and that MySQL has no longer."""

    @property
    def originals(self) -> bool:
        """Whether the table's layers have a column of original texts."""
        return self.had_originals or has_original(self.columns)

    @property
    def name(self) -> str:
        return self.contract.name

    @property
    def is_utc(self) -> bool:
        """Whether times without a zone are written by UTC."""
        return self.source.is_utc

    def name_in(self, names: Iterable[str], column: str) -> str | None:
        """What a column is called among the names of an older version; None if it is not there."""
        return name_in(names, column, self.contract.earlier_names)

    def another_until(self, column: str, then: str) -> int:
        """The number of the last load in which a name of a column was another column's; 0: it never
        was."""
        return self.taken.get((column.lower(), then.lower()), 0)

    @property
    def clean_rules(self) -> dict[str, str]:
        """Column → what clean does to it: the contract's rules, and ``drop`` for held columns."""
        return {**self.rules, **dict.fromkeys(self.held, "drop")}

    @property
    def raw(self) -> Identifier:
        """The raw table of this schema version."""
        return Identifier(self.contract.namespaces.raw, self.version.raw_table)

    @property
    def raw_view(self) -> Identifier:
        """The view over the raw tables of all versions."""
        return Identifier(self.contract.namespaces.raw, self.contract.table)

    @property
    def deduped(self) -> Identifier:
        return Identifier(self.contract.namespaces.deduped, self.contract.table)

    @property
    def clean(self) -> Identifier:
        return Identifier(self.contract.namespaces.clean, self.contract.table)

    @property
    def collated_key(self) -> tuple[Column, ...]:
        """Key columns whose different texts may be one key to the server ('a' and 'A', 'a' and 'a
        ')."""
        columns = [self.table.column(name) for name in self.key]
        return tuple(c for c in columns if is_collated(c))

    @property
    def keeps_aliases(self) -> bool:
        """Whether raw rows carry the server's own key beside its text: an UPDATE may change the
        text of a key and leave it the same key."""
        return self.contract.rereads and bool(self.collated_key)

    @property
    def day_column(self) -> str | None:
        """The column whose date is a row's raw day; None where the day of the load is.

        The cursor where it is a time; beside a key cursor, the contract's ``created``.
        """
        for column in (self.cursor, self.created):
            if column is not None and column.data_type in TIMES:
                return column.name
        return None


def plan_table(
    contract: TableContract,
    source: SourceConfig,
    table: SourceTable,
    once: Collection[str] = (),
) -> ResolvedTable:
    """Resolve a contract against the table that the server has.

    Args:
        once: columns that the table is known to have had, in lower case: a rule for one that is
            gone is passed over, one for a column that it never had is refused.

    Raises:
        ConfigError: the contract names a rule that the column's type can't keep, or starts in the
        future.
        SchemaError: a column that it names is missing; the key is not unique; the cursor can be
        NULL,
            has no index, or has a type without an order.
        TypeRefused: a column can't be kept exactly.
    """
    there = {column.name.lower() for column in table.columns}
    gone = tuple(n for n in contract.columns if n.lower() in once and n.lower() not in there)
    excluded = frozenset(table.column(name).name for name in contract.excluded.difference(gone))
    declared = contract.entity
    entity = declared and resolve_entity(contract.name, table, declared.token, declared.created)
    columns = exact_columns(table, excluded)
    kept = {c.name: c for c in table.columns if c.name not in excluded}
    of_version = [(c.name, c.column_type) for c in kept.values()]
    if entity is not None:
        columns = (*columns, first_created(table, entity))
        of_version.append(first_created_column(entity.token.name, entity.created.name))
    plan = ResolvedTable(
        contract=contract,
        source=source,
        table=table,
        columns=columns,
        version=schema_version(contract.table, of_version),
        key=tuple(table.column(name).name for name in contract.key),
        cursor=table.column(contract.cursor) if contract.cursor else None,
        created=table.column(contract.created) if contract.created else None,
        rules={
            table.column(name).name: str(rule)
            for name, rule in contract.rules.items()
            if name not in gone
        },
        entity=entity,
        gone=gone,
    )
    _check_names(plan)
    _check_key(plan)
    _check_cursor(plan)
    _check_partition(plan)
    _check_rules(plan)
    return plan


def resolve_contract(
    config: Config, contract: TableContract, table: SourceTable, once: Collection[str] = ()
) -> ResolvedTable:
    """`plan_table`, whose errors name the line of the contract file that writes the column.

    Raises:
        ConfigError, SchemaError, TypeRefused: as `plan_table` says.
    """
    with located_errors(config, contract):
        return plan_table(contract, config.sources[contract.source], table, once)


@contextmanager
def located_errors(config: Config, contract: TableContract) -> Iterator[None]:
    """Errors about a table's columns name the line of the contract file that writes the column."""
    try:
        yield
    except (ConfigError, SchemaError) as error:
        name = (contract.source, contract.database, contract.table)
        raise error.located(place_of(config.path, name, error.column or "")) from None


def _check_partition(plan: ResolvedTable) -> None:
    """Partitions of an hour need a column that tells a row's hour: what a log has was committed in
    one."""
    if plan.contract.partition != "hour" or plan.contract.by_log:
        return
    name = plan.day_column
    kind = plan.table.column(name).data_type if name else ""
    local = kind == "datetime" and not plan.source.is_utc
    if kind in ("", "date") or local:
        which = f"{name!r} is a DATE" if name else "no column tells a row's day"
        if local:
            which = f"{name!r} is written by the clock of {plan.source.time_zone}, not UTC"
        raise ConfigError(
            f"table {plan.name}: `partition: hour` needs a TIMESTAMP, or a DATETIME in UTC, as "
            f"cursor or created; {which}",
            table=plan.name,
            column=name,
            next_step="Choose `partition: day` for it, or name such a column as `created`",
        )


def _check_names(plan: ResolvedTable) -> None:
    """Names of ours mean something else in raw, and Spark can't read a table with Iceberg's."""
    for problem in name_problems(exact.name for exact in plan.columns):
        raise SchemaError(
            f"table {plan.name}: {problem.words}",
            table=plan.name,
            column=problem.column,
            next_step=f"Give {problem.column} a `name_in_lake` and a `pii` rule under `columns`, "
            "write `{pci: never}` for it to leave it out, or rename it in MySQL",
        )


def names_not_in_bigquery(plan: ResolvedTable) -> tuple[NameProblem, ...]:
    """What BigQuery can't have of a table that is published there; nothing of any other."""
    contract = plan.contract
    if not contract.in_bigquery:
        return ()
    left = {name for name, rule in plan.rules.items() if rule == "drop"}
    names = (exact.name for exact in plan.columns if exact.name not in left)
    return tuple(bigquery_problems(contract.namespaces.deduped, contract.table, names))


def publish_step(problem: NameProblem) -> str:
    """What to do about such a name."""
    alone = "publish the table in the lake alone (`publish: [lake]`)"
    if not problem.column:
        return f"{alone[0].upper()}{alone[1:]}, or give it other `namespaces` where they are meant"
    return f"Give {problem.column} a `name_in_lake` and a `pii` rule under `columns`, or {alone}"


def refuse_names_there(plan: ResolvedTable) -> None:
    """See that BigQuery can have a table that is published there.

    Raises:
        SchemaError: it can't, by a name.
    """
    for problem in names_not_in_bigquery(plan):
        raise SchemaError(
            f"table {plan.name}: {problem.words}, and it is published there",
            table=plan.name,
            column=problem.column or None,
            next_step=publish_step(problem),
        )


def _check_key(plan: ResolvedTable) -> None:
    contract, table = plan.contract, plan.table
    if contract.rereads and not plan.key:
        raise ConfigError(
            f"table {plan.name} has no key, and mode incremental needs one",
            table=plan.name,
            next_step="Name its unique columns as key, or use mode full",
        )
    if plan.key and not table.has_unique(plan.key):
        raise SchemaError(
            f"table {plan.name}: MySQL does not keep ({', '.join(plan.key)}) unique and NOT NULL, "
            "so it can't be the key",
            table=plan.name,
            next_step="Several tables are in this one, and may share a key: write `key: []`"
            if table.merges
            else "Name the columns of its primary key or of a unique index over NOT NULL columns",
        )
    for column in plan.collated_key if plan.keeps_aliases else ():
        if reason := why_no_key(column):
            raise SchemaError(
                f"table {plan.name}: mode incremental can't tell its keys apart as MySQL does: "
                f"{column.name}: {reason}",
                table=plan.name,
                column=column.name,
                next_step="Use mode full, name another key, or give the column another collation",
            )


def _check_cursor(plan: ResolvedTable) -> None:
    cursor, name = plan.cursor, plan.name
    if cursor is None:
        return
    if cursor.data_type not in (*INTEGERS, *TIMES):
        raise SchemaError(
            f"table {name}: cursor {cursor.name} is {cursor.column_type}: only integers "
            "and times order loads",
            next_step="Name an integer, DATE, DATETIME or TIMESTAMP column, or use mode full",
            table=name,
            column=cursor.name,
        )
    if plan.contract.rereads and cursor.data_type in INTEGERS:
        raise SchemaError(
            f"table {name}: cursor {cursor.name} is {cursor.column_type}: mode incremental "
            "needs a time",
            next_step="Name the column that changes with every update, or use mode append or full",
            table=name,
            column=cursor.name,
        )
    if cursor.nullable:
        indexed = "" if plan.table.led_by(cursor.name) else " and add an index on it"
        raise SchemaError(
            f"table {name}: cursor {cursor.name} can be NULL, and no window would ever "
            "read such a row",
            next_step=f"Declare {cursor.in_mysql} NOT NULL in MySQL{indexed}, or use mode full",
            table=name,
            column=cursor.name,
        )
    if not plan.table.led_by(cursor.name):
        unused = plan.table.unused_index(cursor.name)
        which = f" that queries may read ranges by (not {unused})" if unused else ""
        raise SchemaError(
            f"table {name}: no index{which} begins with cursor {cursor.name}: every window would "
            "read the whole table",
            next_step=f"Add an index on {cursor.in_mysql} in MySQL, or use mode full",
            table=name,
            column=cursor.name,
        )
    created = plan.created
    if created is not None and created.data_type not in TIMES:
        raise SchemaError(
            f"table {name}: created {created.name} is {created.column_type}, not a time",
            table=name,
            column=created.name,
            next_step="Name a DATE, DATETIME or TIMESTAMP column, or leave `created` out",
        )


def _check_rules(plan: ResolvedTable) -> None:
    kept = {e.name: e for e in plan.columns}
    for column, rule in plan.rules.items():
        if rule == "mask" and kept[column].iceberg != "string":
            raise ConfigError(
                f"table {plan.name}: `pii: mask` on {column}, which is "
                f"{kept[column].iceberg}: only texts can be masked",
                table=plan.name,
                column=column,
                next_step="Use null, drop or hash",
            )
    if plan.contract.loads.by_windows and not plan.key and not by_time(plan):
        raise ConfigError(
            f"table {plan.name}: mode append without a key needs a time cursor, whose days "
            "can be replaced",
            table=plan.name,
            next_step="Name a key or a time cursor, or use mode full",
        )


def by_time(plan: ResolvedTable) -> bool:
    return plan.cursor is not None and plan.cursor.data_type in TIMES
