"""Views for readers of tables that services write in BigQuery themselves: made, and compared.

What belongs here: a view of one declared table. What doesn't: what it shows
(`mirrorlake.bigquery.external_clean`), and views of tables that Mirrorlake loads
(`mirrorlake.bigquery.loads.views`).
"""

from __future__ import annotations

from collections.abc import Iterable

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.external_clean import clean_view, view_of
from mirrorlake.bigquery.external_tables import seen_of
from mirrorlake.bigquery.loads.views import ViewForm, ViewState, keep_view
from mirrorlake.config import Config
from mirrorlake.models.external_sources.tables import ExternalLook
from mirrorlake.models.files.external_table import ExternalDeclaration
from mirrorlake.runtime.google.tables import BigQueryTable


def keep_clean_view(
    look: ExternalLook, config: Config, others: Iterable[ExternalDeclaration]
) -> tuple[str, ViewState]:
    """See that a table's view is what its file says; its name, and what became of it.

    Args:
        look: the table, compared with its file.
        others: all tables that are declared.

    Raises:
        ModelError: the table is not as it is declared, of another project than the contract's, or
            another file says what its view shows; with the place in its file.
        BigQueryError: Google refuses, or the dataset of views is missing. A view that showed more
            than it may does not stay.
    """
    declared = look.table.declaration
    bigquery, table = _opened(declared, config.written_section(BigQueryConfig))
    _refuse_views_of_others(declared, table, others)
    view, wanted = view_of(declared, bigquery.config), _wanted(look, table)
    for difference in look.drift:
        found = bigquery.find(view)
        if found is not None and found.sql and (found.columns, found.sql) != wanted:
            # It may show what the file hides by now.
            bigquery.drop(view)
        raise difference
    return str(view), keep_view(bigquery, table, view, wanted)


def _refuse_views_of_others(
    declared: ExternalDeclaration,
    table: BigQueryTable,
    others: Iterable[ExternalDeclaration],
) -> None:
    """See that no other file says what is in the table's view."""
    for one in others:
        same = (one.project or table.project, one.table) == (table.project, declared.table)
        if one.name != declared.name and one.clean is not None and same:
            raise declared.wrong(
                f"{one.path} says what the view of {table} shows, too",
                next_step="Leave `clean` in one of the two files",
            )


def find_other_view(look: ExternalLook, settings: BigQueryConfig | None) -> str:
    """What is wrong with a table's view; '' of one that is what its file says.

    Raises:
        ModelError: the table is of another project than the contract's.
        BigQueryError: Google refuses, or can't be reached.
    """
    declared = look.table.declaration
    bigquery, table = _opened(declared, settings)
    view = view_of(declared, bigquery.config)
    found, wanted = bigquery.find(view), _wanted(look, table)
    if found is None:
        return f"{view} is not there"
    if (found.columns, found.sql) != wanted:
        return f"{view} is not as {declared.path.name} says"
    return ""


def _wanted(look: ExternalLook, table: BigQueryTable) -> ViewForm:
    return clean_view(look.table.declaration, table, seen_of(look.table).columns)


def _opened(
    declared: ExternalDeclaration, settings: BigQueryConfig | None
) -> tuple[BigQuery, BigQueryTable]:
    if settings is None or (declared.project or settings.project) != settings.project:
        raise declared.wrong(
            "its view is made in the contract's own project, and the table is in another one",
            next_step="Leave out `clean`, or write the contract's section bigquery",
        )
    return BigQuery.open(settings), BigQueryTable(settings.project, *declared.table)
