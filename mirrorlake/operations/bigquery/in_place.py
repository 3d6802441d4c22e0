"""Tables that BigQuery reads where the lake has them: by which name, and as which columns.

Google's catalog shows each commit to the lake's main at once, so there is nothing to load.

Source: Google Cloud Lakehouse, "Query a table"; BigQuery, "Create Apache Iceberg external tables:
data mapping".
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.config import Config
from mirrorlake.destinations.bigquery.names import CatalogTable, table_in_catalog
from mirrorlake.destinations.bigquery.types import FieldJson, fields_of
from mirrorlake.destinations.iceberg.model import LakeTable, arrow_schema
from mirrorlake.errors import ConfigError
from mirrorlake.models.published import PublishedModel
from mirrorlake.operations.bigquery.tables import MirroredContract, PublishedContract
from mirrorlake.table.lake_tables import deduped_of

SAID = "read in place: nothing is loaded"


def read_in_place(contract: PublishedContract) -> MirroredContract | None:
    """A table that BigQuery reads in the lake; None of one that is loaded."""
    if isinstance(contract, PublishedModel) or not contract.in_place:
        return None
    return contract


def name_in_catalog(config: Config, contract: MirroredContract) -> CatalogTable:
    """By which name BigQuery reads a lake table.

    Raises:
        ConfigError: Google's catalog does not keep the lake.
        SchemaError: BigQuery can't have a view of this name.
    """
    project, catalog = config.lake.catalog.project, config.lake.runtime_catalog
    if project is None or catalog is None:
        raise ConfigError(
            f"table {contract.name}: BigQuery reads no table whose catalog is not Google's",
            table=contract.name,
            next_step="Write auth: google under lake.catalog, or bigquery: {load: deduped}",
        )
    return table_in_catalog(project, catalog, deduped_of(contract))


def fields_in_place(contract: MirroredContract, table: LakeTable) -> Sequence[FieldJson]:
    """The lake table's columns as BigQuery reads them.

    Raises:
        TypeRefused: it has no exact type for one of them.
    """
    return fields_of(contract.name, arrow_schema(table.schema(), field_ids=False))
