"""The view that readers have of a table that services write in BigQuery: what clean is to a mirror.

It shows the columns that the table's file declares, without those that are hidden, but for what a
rule under ``clean`` shows of them. A column that the writer adds is in no view until the file names
it.

What belongs here: which columns there are, and the view's text. What doesn't: requests
(`mirrorlake.bigquery.external_views`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.bigquery.api.names import in_dataset
from mirrorlake.bigquery.api.views import as_bigquery
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.merge.statements import view_sql
from mirrorlake.models.files.external_table import ExternalDeclaration, rules_of_view
from mirrorlake.runtime.google.tables import BigQueryTable, ColumnJson
from mirrorlake.schema.masking import mask_sql


def shown_columns(declared: ExternalDeclaration) -> dict[str, str]:
    """The columns of a table's view, each with its SQL over the table, in Spark's."""
    found: dict[str, str] = {}
    for column, rule in rules_of_view(declared).items():
        name = as_sql_identifier(column)
        if rule == "null":
            found[column] = "CAST(NULL AS string)"
        elif rule == "mask":
            found[column] = mask_sql(name)
        elif rule == "show":
            found[column] = name
    return found


def view_of(declared: ExternalDeclaration, settings: BigQueryConfig) -> BigQueryTable:
    """The view that readers have of a table, if its file says `clean`."""
    table = BigQueryTable(settings.project, *declared.table)
    return in_dataset(table, settings.views_dataset(table.dataset, "clean"))


def clean_view(
    declared: ExternalDeclaration, table: BigQueryTable, bigquery_columns: Sequence[ColumnJson]
) -> tuple[tuple[str, ...], str]:
    """The names of a view's columns, and its text in BigQuery's SQL.

    Args:
        bigquery_columns: those of the table. Of one that is missing the type is unknown, and the
            view can't be made.
    """
    columns = shown_columns(declared)
    types = dict.fromkeys(columns, "STRING")
    types |= {column["name"]: str(column["type"]) for column in bigquery_columns}
    select = view_sql(columns.items(), Identifier(table.dataset, table.name))
    return tuple(columns), as_bigquery(select, table, types)
