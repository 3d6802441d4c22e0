"""Entities: rows that share a token, and when the first of them was created.

An application that never changes a row writes a new one for each change: all rows of one thing
share a token, and each has a time of creation of its own. When the thing itself was created is the
first of these times. The statement that reads a row queries it too, so that it is of the same
moment, and it is kept: MySQL may delete old rows, and later loads then see a later first. What the
lake shows of an entity is the earliest time that any row version in raw recorded, for all its rows
alike. So it is a function of raw, whatever the order of loads.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Final

from mirrorlake.errors import ConfigError, SchemaError
from mirrorlake.schema.versions import FIRST_CREATED, Exact
from mirrorlake.sources.mysql.tables import Column, SourceTable, quote
from mirrorlake.sources.mysql.types.collations import why_no_key
from mirrorlake.sources.mysql.types.exact_types import exact_column
from mirrorlake.sources.mysql.types.registry import TIMES

_ALIAS: Final = "`_mirror_e`"


@dataclass(frozen=True)
class Entity:
    """The columns of a table that tell its entities apart, as the server spells them.

    Attributes:
        token: what all rows of an entity share; NOT NULL, and led by an index.
        created: when a row was created.
    """

    token: Column
    created: Column


def resolve_entity(name: str, table: SourceTable, token: str, created: str) -> Entity:
    """The contract's ``entity`` against the server's table.

    Raises:
        SchemaError: a column is missing, can't be used so, or has no index.
    """
    entity = Entity(table.column(token), table.column(created))
    if any(c.name.lower() == FIRST_CREATED for c in table.columns):
        raise SchemaError(
            f"table {name}: it has a column {FIRST_CREATED} of its own, and `entity` adds one",
            table=name,
            column=FIRST_CREATED,
            next_step="Leave `entity` out of the contract, or rename the column in MySQL",
        )
    if entity.token.nullable:
        raise SchemaError(
            f"table {name}: the entity's token {entity.token.name} can be NULL",
            table=name,
            column=entity.token.name,
            next_step="Name a column that is NOT NULL",
        )
    if reason := why_no_key(entity.token):
        raise SchemaError(
            f"table {name}: `entity` can't tell tokens apart as MySQL does: {entity.token.name}: "
            f"{reason}",
            table=name,
            column=entity.token.name,
            next_step="Leave `entity` out of the contract, name another token, or give the column "
            "another collation",
        )
    if not table.led_by(entity.token.name):
        both = f"{entity.token.in_mysql}, {entity.created.in_mysql}"
        raise SchemaError(
            f"table {name}: no index begins with the entity's token {entity.token.name}: the whole "
            "table would be read for every row",
            table=name,
            column=entity.token.name,
            next_step=f"Add an index on ({both}) in MySQL",
        )
    if entity.created.data_type not in TIMES:
        raise SchemaError(
            f"table {name}: the entity's created {entity.created.name} is "
            f"{entity.created.column_type}, not a time",
            table=name,
            column=entity.created.name,
            next_step="Name a DATE, DATETIME or TIMESTAMP column",
        )
    return entity


def first_created(table: SourceTable, entity: Entity) -> Exact:
    """How the time is read: the earliest of the token's rows, as one moment with the row itself.

    Zero dates and partial dates are no time at which anything was created, and are left out; NULL
    where a token has no other.
    """
    name = entity.created.sql
    exact = exact_column(entity.created)
    if exact is None:  # every type of time is kept
        raise ConfigError(f"{entity.created.name} is no time", column=entity.created.name)
    first, each = f"MIN({_ALIAS}.{name})", f"{_ALIAS}.{name}"
    if entity.created.data_type == "timestamp":
        real = f"UNIX_TIMESTAMP({each}) <> 0"
        select = f"CAST(UNIX_TIMESTAMP({first}) * 1000000 AS SIGNED)"
    else:
        real = (
            f"YEAR({each}) <> 0 AND MONTH({each}) <> 0 AND DAY({each}) <> 0"
            f" AND DAY({each}) <= COALESCE(DAY(LAST_DAY({each})), 0)"
        )
        select = f"CAST({first} + 0 AS SIGNED)" if exact.decode else first
    here = f"{quote(table.database)}.{quote(table.name)}"
    token = entity.token.sql
    rows = f"{here} AS {_ALIAS} WHERE {_ALIAS}.{token} = {here}.{token} AND {real}"
    return dataclasses.replace(
        exact,
        name=FIRST_CREATED,
        select=f"(SELECT {select} FROM {rows})",  # noqa: S608
        original=None,
        derived=True,
    )
