"""What Dagster shows of a table's layers: keys, groups, tags, owners, kinds, partitions.

A project that wants other names overrides one method, as with other integrations of Dagster.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Literal

import dagster as dg

from dagster_mirrorlake.meaning import (
    code_version,
    describe,
    describe_tenants,
    tenants_code_version,
)
from dagster_mirrorlake.names import letters
from dagster_mirrorlake.table_places import TablePlace
from mirrorlake.config import Freshness, Mirrored, TableContract, TenantTable
from mirrorlake.config.partitions import first_day_of, partition_of

Layer = Literal["source", "raw", "deduped", "clean", "bigquery"]
SOURCE_TAG = "mirrorlake/source"
_MODE_TAG = "mirrorlake/mode"
LAYER_TAG = "mirrorlake/layer"

_KINDS = {"iceberg", "spark"}
_WHOLE = ("source", "bigquery")
"""Layers without partitions. A load into BigQuery brings the table there to a version of deduped,
which has all days at once: no day of it is there by itself."""


@dataclass(frozen=True)
class LayerData:
    """One layer of one table, as a translator is given it.

    Attributes:
        contract: what the contract file says of the table.
        layer: ``source`` (the table in MySQL, or the landing), ``raw``, ``deduped``, ``clean`` or
            ``bigquery`` (deduped as it is loaded there).
        first_day: the first day (UTC) that the table has, where it is known.
        mirror: the mirror's name, where it has one: see `dagster_mirrorlake.names`.
        place: where the table stands, where that is known.
        comment: what MySQL has as the table's comment, as of its newest load.
    """

    contract: TableContract
    layer: Layer
    first_day: date | None = None
    mirror: str | None = None
    place: TablePlace | None = None
    comment: str = ""


@dataclass(frozen=True)
class TenantLayerData:
    """One layer of a table that many databases have, as a translator is given it.

    Attributes:
        table: what the contract file says of it.
        layer: ``source`` (the tables in MySQL, all as one), ``raw``, ``deduped``, ``clean`` or
            ``bigquery`` (deduped as it is loaded there).
        mirror: the mirror's name, where it has one: see `dagster_mirrorlake.names`.
        project: of BigQuery, in which the tables are that are loaded there.
    """

    table: TenantTable
    layer: Layer
    mirror: str | None = None
    project: str | None = None


class MirrorlakeTranslator:
    """Turns a layer of a table into the asset that Dagster shows.

    Override `get_asset_spec`, and change what the default returns:

    >>> class Ours(MirrorlakeTranslator):
    ...     def get_asset_spec(self, data: LayerData) -> dg.AssetSpec:
    ...         spec = super().get_asset_spec(data)
    ...         return spec.replace_attributes(key=spec.key.with_prefix("lake"))

    Only its upstream within the chain is not the translator's to say. A key, once materialised, is
    how Dagster knows the asset: a changed one begins without a history.
    """

    def get_asset_spec(self, data: LayerData) -> dg.AssetSpec:
        """The asset of one layer of one table."""
        contract, layer = data.contract, data.layer
        return dg.AssetSpec(
            self.get_asset_key(data),
            description="\n\n".join(filter(None, (data.comment, describe(contract, layer)))),
            code_version=code_version(contract, layer),
            partitions_def=None if layer in _WHOLE else self.get_partitions_def(data),
            # By layer: the global graph then shows how a source's groups follow each other.
            group_name=letters(f"{contract.source}_{contract.database}__{_layer_name(data)}"),
            kinds=_kinds(layer, landed=contract.landed),
            tags={
                SOURCE_TAG: contract.source,
                _MODE_TAG: contract.mode,
                LAYER_TAG: layer,
            },
            owners=contract.owners,
            freshness_policy=_freshness(contract.freshness) if layer == "clean" else None,
            metadata={**_lake_name_of(data), **_places(data), **_facts(data)},
        )

    def get_asset_key(self, data: LayerData) -> dg.AssetKey:
        """``<layer>/<source>/<database>/<table>``, every part as MySQL spells it."""
        contract = data.contract
        return dg.AssetKey([_layer_name(data), contract.source, contract.database, contract.table])

    def get_tenants_spec(self, data: TenantLayerData) -> dg.AssetSpec:
        """The asset of one layer of a table of tenants. Partitions that it is given are refused:
        one step makes raw, deduped and clean of all tenants together."""
        table, layer = data.table, data.layer
        source = {SOURCE_TAG: table.sources[0]} if len(table.sources) == 1 else {}
        return dg.AssetSpec(
            self.get_tenants_key(data),
            description=describe_tenants(table, layer),
            code_version=tenants_code_version(table, layer),
            group_name=letters(f"{table.group}__bigquery" if layer == "bigquery" else table.group),
            kinds=_kinds(layer),
            tags={**source, _MODE_TAG: "tenants", LAYER_TAG: layer},
            owners=table.owners,
            freshness_policy=_freshness(table.freshness) if layer == "clean" else None,
            metadata={
                **_table_name(table, layer, table.table, data.project),
                "sources": ", ".join(table.sources),
                "databases": ", ".join(table.databases),
                "key": ", ".join(table.key) or "none",
            },
        )

    def get_tenants_key(self, data: TenantLayerData) -> dg.AssetKey:
        """``<layer>/<group>/<table>``, the source's ``mysql/<group>/<table>``."""
        layer = "mysql" if data.layer == "source" else data.layer
        return dg.AssetKey([layer, data.table.group, data.table.table])

    def get_partitions_def(self, data: LayerData) -> dg.PartitionsDefinition:
        """Hours, days or months (UTC) from the table's first one, the open one included; of full
        copies the days on which one was taken; of snapshots that land, their ids."""
        contract = data.contract
        # Dynamic partitions are the whole instance's: their name must say whose they are.
        whose = f"{data.mirror}/" if data.mirror else ""
        if contract.landed:
            return dg.DynamicPartitionsDefinition(name=f"{whose}snapshots/{contract.name}")
        if contract.copies:
            return dg.DynamicPartitionsDefinition(name=f"{whose}copies/{contract.name}")
        first = first_day_of(contract, data.first_day) or datetime.now(UTC).date()
        if contract.partition == "hour":
            start = f"{first.isoformat()}-00:00"
            return dg.HourlyPartitionsDefinition(start_date=start, end_offset=1)
        start = partition_of(contract, first).isoformat()
        if contract.partition == "month":
            return dg.MonthlyPartitionsDefinition(start_date=start, end_offset=1)
        return dg.DailyPartitionsDefinition(start_date=start, end_offset=1)


def _layer_name(data: LayerData) -> str:
    """As keys and groups call a layer: the source's, ``mysql`` or ``landing``."""
    if data.layer != "source":
        return data.layer
    return "landing" if data.contract.landed else "mysql"


def _kinds(layer: Layer, *, landed: bool = False) -> set[str]:
    if layer == "source":
        return {"file"} if landed else {"mysql", "table"}
    if layer == "bigquery":
        return {"bigquery"}
    return {"file"} if landed and layer == "raw" else _KINDS


def _lake_name_of(data: LayerData) -> dict[str, str]:
    contract, project = data.contract, data.place.project if data.place is not None else None
    return _table_name(contract, data.layer, f"{contract.database}.{contract.table}", project)


def _table_name(
    contract: Mirrored, layer: Layer, source: str, project: str | None
) -> dict[str, str]:
    """What the table of a layer is called where it is.

    Args:
        source: what it is called in MySQL.
    """
    if layer == "source":
        return {"dagster/table_name": source}
    if layer == "raw" and contract.landed:
        return {}
    if layer == "bigquery":
        parts = (project, contract.namespaces.deduped, contract.table)
        return {"dagster/table_name": ".".join(filter(None, parts))}
    return {"dagster/table_name": f"{getattr(contract.namespaces, layer)}.{contract.table}"}


def _places(data: LayerData) -> dict[str, Any]:
    """Its lines in the contract file, and its address."""
    place, found = data.place, dict[str, Any]()
    if place is None:
        return found
    if place.line is not None:
        reference = dg.LocalFileCodeReference(
            file_path=place.file, line_number=place.line, label=data.contract.name
        )
        found["dagster/code_references"] = dg.CodeReferencesMetadataValue(
            code_references=[reference]
        )
    if data.layer in place.uris:
        found["dagster/uri"] = place.uris[data.layer]
    return found


def _facts(data: LayerData) -> dict[str, str]:
    """What the contract says, for the asset's page."""
    contract = data.contract
    facts = {"mode": contract.mode, "key": ", ".join(contract.key) or "none"}
    if contract.cursor:
        facts["cursor"] = contract.cursor
    if contract.start:
        facts["start"] = contract.start.isoformat()
    if data.layer == "raw" and not contract.landed:
        readers = "Spark alone" if contract.versions == "view" else "every engine"
        facts["all schema versions"] = f"a {contract.versions}, for {readers}"
    return facts


def _freshness(fresh: Freshness | None) -> dg.FreshnessPolicy | None:
    """When clean, and so the whole chain, counts as late."""
    if fresh is None:
        return None
    return dg.FreshnessPolicy.time_window(fresh.fail_after, fresh.warn_after)
