"""Names in BigQuery: tables, staging tables, and what the ids of jobs begin with.

Source: BigQuery, "Jobs: JobReference".
"""

from __future__ import annotations

import hashlib
import re

from mirrorlake.destinations.base import Identifier
from mirrorlake.errors import SchemaError
from mirrorlake.runtime.google.tables import BigQueryTable
from mirrorlake.schema.reserved_names import table_in_bigquery


def bigquery_table(project: str, identifier: Identifier) -> BigQueryTable:
    """The table that shows a lake table's rows: its namespace is the dataset.

    Raises:
        SchemaError: BigQuery can't have a table of this name.
    """
    name = identifier.name
    if not table_in_bigquery(name):
        raise SchemaError(
            f"table {identifier}: BigQuery has no table called {name!r}: letters, digits, spaces,"
            " - and _ alone",
            table=str(identifier),
            next_step="Publish this table in the lake alone (publish: [lake])",
        )
    return BigQueryTable(project, identifier.namespace, name)


def in_dataset(table: BigQueryTable, dataset: str) -> BigQueryTable:
    """What has a table's name in another dataset."""
    return BigQueryTable(table.project, dataset, table.name)


def publication_stem(table: BigQueryTable, version: int) -> str:
    """What the ids of all attempts to load a version of a table begin with: equal for equal
    versions, of no other table's, and of characters that ids may have."""
    digest = hashlib.sha256(str(table).encode()).hexdigest()[:12]
    plain = re.sub(r"[^A-Za-z0-9]", "-", f"{table.dataset}-{table.name}")[:80]
    return f"mirrorlake_{plain}_{digest}_{version}"


def staging_of(table: BigQueryTable, publication: str) -> BigQueryTable:
    """Where the rows of a publication wait, beside the table."""
    _, version, attempt = publication.rsplit("_", 2)
    return BigQueryTable(table.project, table.dataset, f"{table.name}__stage_{version}_{attempt}")
