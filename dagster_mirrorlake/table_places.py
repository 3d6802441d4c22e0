"""Where a table stands: its lines in the contract file, its address in MySQL, its folders in the
lake. Nothing is opened but the contract file, once for all tables."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from mirrorlake.config import Config, TableContract
from mirrorlake.config.yaml.file_positions import lines_of
from mirrorlake.destinations.iceberg.storage.folders import table_uri, warehouse_uri
from mirrorlake.operations.publishers import PUBLISHERS


@dataclass(frozen=True)
class TablePlace:
    """Where one table stands.

    Attributes:
        file, line: of its contract; no line where the file does not say it any more.
        uris: by layer: the table in MySQL without user and password, or the landing; and the
            folders of the lake's tables. A view has none.
        project: in which BigQuery has the tables that are loaded there.
    """

    file: str
    line: int | None
    uris: Mapping[str, str]
    project: str | None = None


def address_of(config: Config) -> str | None:
    """The project in which BigQuery has the tables that are loaded there."""
    bigquery = PUBLISHERS.added.get("bigquery")
    return bigquery.address(config) if bigquery is not None else None


def table_places(config: Config) -> Mapping[str, TablePlace]:
    """The places of all tables of a contract file, by their whole names."""
    lines = lines_of(config.path)
    project = address_of(config)
    return {
        contract.name: TablePlace(
            str(config.path.absolute()),
            lines.get((contract.source, contract.database, contract.table)),
            {"source": _source(config, contract), **_layers(config, contract)},
            project,
        )
        for contract in (*config.tables, *config.snapshots)
    }


def _source(config: Config, contract: TableContract) -> str:
    if contract.landed:
        return config.landings[contract.source].url
    source = config.sources[contract.source]
    host = f"[{source.host}]" if ":" in source.host else source.host
    path = f"{quote(contract.database, safe='')}/{quote(contract.table, safe='')}"
    return f"mysql://{host}:{source.port}/{path}"


def _layers(config: Config, contract: TableContract) -> dict[str, str]:
    spaces = {"deduped": contract.namespaces.deduped}
    if not contract.landed:
        spaces["raw"] = contract.namespaces.raw
    if contract.clean == "table":
        spaces["clean"] = contract.namespaces.clean
    warehouse = warehouse_uri(config.lake.warehouse)
    return {layer: table_uri(warehouse, (space, contract.table)) for layer, space in spaces.items()}
