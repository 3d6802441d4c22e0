"""Google's clients for tables of a contract file."""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.bigquery.api.client import BigQuery
from mirrorlake.bigquery.config import BigQueryConfig
from mirrorlake.bigquery.loads.published_contracts import PublishedContract
from mirrorlake.errors import ConfigError
from mirrorlake.workspace import Workspace


def open_for(workspace: Workspace, contracts: Sequence[PublishedContract]) -> BigQuery:
    """The clients for some tables.

    Raises:
        ConfigError: one of them is published in the lake alone.
        BigQueryError: nobody is logged in, or Google's libraries are not installed.
    """
    config = workspace.config.written_section(BigQueryConfig)
    for contract in contracts:
        if config is None or not contract.in_bigquery:
            raise ConfigError(
                f"table {contract.name} is published in the lake alone",
                next_step="Write publish: [lake, bigquery] in its contract",
                table=contract.name,
            )
    if config is None:
        raise ConfigError(f"{workspace.config.path} has no section bigquery")
    return BigQuery.open(config)
