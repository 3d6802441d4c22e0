"""What Dagster shows of a table's layers: keys, groups, tags, owners, kinds, partitions.

A project that wants other names overrides one method, as with other integrations of Dagster.
"""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Literal

import dagster as dg

from mirrorlake.config import TableContract
from mirrorlake.config.partitions import first_day_of, partition_of

Layer = Literal["source", "raw", "deduped", "clean"]
SOURCE_TAG = "mirrorlake/source"
MODE_TAG = "mirrorlake/mode"
LAYER_TAG = "mirrorlake/layer"

_WORDS = {
    "raw": "row versions as they were pulled; every load traceable",
    "deduped": "exactly one current row per key",
    "clean": "what people query: personal data masked or gone, card data never read",
}
_KINDS = {"iceberg", "spark"}


@dataclass(frozen=True)
class LayerData:
    """One layer of one table, as a translator is given it.

    Attributes:
        contract: what the contract file says of the table.
        layer: ``source`` (the table in MySQL, or the landing), ``raw``, ``deduped`` or ``clean``.
        first_day: the first day (UTC) that the table has, where it is known.
    """

    contract: TableContract
    layer: Layer
    first_day: date | None = None


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
            description=_description(data),
            partitions_def=None if layer == "source" else self.get_partitions_def(data),
            # By layer: the global graph then shows how a source's groups follow each other.
            group_name=_plain(f"{contract.source}_{contract.database}__{_layer_name(data)}"),
            kinds=_kinds(data),
            tags={
                SOURCE_TAG: _plain(contract.source),
                MODE_TAG: contract.mode,
                LAYER_TAG: layer,
            },
            owners=contract.owners,
            freshness_policy=_freshness(contract) if layer == "clean" else None,
            metadata={**_table_name(data), **_facts(contract)},
        )

    def get_asset_key(self, data: LayerData) -> dg.AssetKey:
        """``<layer>/<source>/<database>/<table>``, every part as MySQL spells it."""
        contract = data.contract
        return dg.AssetKey([_layer_name(data), contract.source, contract.database, contract.table])

    def get_partitions_def(self, data: LayerData) -> dg.PartitionsDefinition:
        """Days or months (UTC) from the table's first one, the open one included; of full copies
        the days on which one was taken; of snapshots that land, their ids."""
        contract = data.contract
        if contract.landed:
            return dg.DynamicPartitionsDefinition(name=f"snapshots/{contract.name}")
        if contract.copies:
            return dg.DynamicPartitionsDefinition(name=f"copies/{contract.name}")
        first = first_day_of(contract, data.first_day) or datetime.now(UTC).date()
        start = partition_of(contract, first).isoformat()
        if contract.partition == "month":
            return dg.MonthlyPartitionsDefinition(start_date=start, end_offset=1)
        return dg.DailyPartitionsDefinition(start_date=start, end_offset=1)


def _layer_name(data: LayerData) -> str:
    """As keys and groups call a layer: the source's, ``mysql`` or ``landing``."""
    if data.layer != "source":
        return data.layer
    return "landing" if data.contract.landed else "mysql"


def _description(data: LayerData) -> str:
    """What the table is, then what the layer keeps of it."""
    contract = data.contract
    if data.layer == "source":
        if contract.landed:
            return f"The folder in which complete copies of {contract.table} land; only read."
        return f"The table {contract.database}.{contract.table} in MySQL; never written."
    if data.layer == "raw" and contract.landed:
        return (
            f"{contract.table}: complete copies where they landed, with files, sizes and digests."
        )
    return f"{contract.table} of {contract.database}: {_WORDS[data.layer]}."


def _kinds(data: LayerData) -> set[str]:
    landed = data.contract.landed
    if data.layer == "source":
        return {"file"} if landed else {"mysql", "table"}
    return {"file"} if landed and data.layer == "raw" else _KINDS


def _table_name(data: LayerData) -> dict[str, str]:
    contract = data.contract
    if data.layer == "source":
        return {"dagster/table_name": f"{contract.database}.{contract.table}"}
    if data.layer == "raw" and contract.landed:
        return {}
    return {"dagster/table_name": f"{getattr(contract.namespaces, data.layer)}.{contract.table}"}


def _facts(contract: TableContract) -> dict[str, str]:
    """What the contract says, for the asset's page."""
    facts = {"mode": contract.mode, "key": ", ".join(contract.key) or "none"}
    if contract.cursor:
        facts["cursor"] = contract.cursor
    if contract.start:
        facts["start"] = contract.start.isoformat()
    return facts


def _freshness(contract: TableContract) -> dg.FreshnessPolicy | None:
    """When clean, and so the whole chain, counts as late."""
    fresh = contract.freshness
    if fresh is None:
        return None
    return dg.FreshnessPolicy.time_window(fresh.fail_after, fresh.warn_after)


def _plain(name: str) -> str:
    """Dagster takes letters, digits and ``_`` in names of groups."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)
