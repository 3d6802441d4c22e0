"""A view of the lake's in BigQuery's SQL: one text for both, written once, in Spark's.

Source: sqlglot, which both dialects are read and written by.
"""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from sqlglot import exp

from mirrorlake.runtime.google.tables import BigQueryTable

_NAMES = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL"}


def as_bigquery(select: str, source: BigQueryTable, types: Mapping[str, str]) -> str:
    """A SELECT over one table of the lake, as a SELECT over one of BigQuery's.

    Args:
        select: in Spark's SQL, each column with its name.
        types: of columns by their name, as BigQuery's API has them: Spark's names of types say
            less than is needed for a NULL (`decimal(38,20)` is no NUMERIC).
    """
    tree = sqlglot.parse_one(select, read="spark", into=exp.Select)
    for table in list(tree.find_all(exp.Table)):
        table.replace(exp.to_table(f"`{source}`", dialect="bigquery"))
    for column in tree.expressions:
        inner = column.this
        if isinstance(inner, exp.Cast) and isinstance(inner.this, exp.Null):
            kind = types[column.alias]
            inner.replace(exp.cast(exp.null(), _NAMES.get(kind, kind), dialect="bigquery"))
    return tree.sql(dialect="bigquery")
