"""The assets whose verdicts stay shown, each with its checks, and with how the ledger tells what a
verdict on it is about: layers of mirrored tables, landed copies, tables of tenants, BigQuery's.

What doesn't belong here: models. The ledger keeps the verdicts on their partitions themselves
(`dagster_mirrorlake.models.expectation_checks`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import dagster as dg

from dagster_mirrorlake.checks.as_of import AsOf
from dagster_mirrorlake.checks.table import all_check_keys
from dagster_mirrorlake.checks.tenants import CHECKS as OF_TENANTS
from dagster_mirrorlake.table import MirroredTable, layer_named
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.capabilities import Seam
from mirrorlake.ledger import Ledger


@dataclass(frozen=True)
class CheckedAsset:
    """An asset, all of its checks, and what a verdict of one of them would be as of now; None where
    the ledger can't tell."""

    key: dg.AssetKey
    checks: Sequence[dg.AssetCheckKey]
    as_of: Callable[[Ledger, str], AsOf | None]


OF_MODES: Seam[Callable[[MirroredTable], Iterator[CheckedAsset]]] = Seam(
    "checked assets", "dagster_mirrorlake"
)
"""By the name of a mode that a capability adds."""


def checked_assets(
    tables: Sequence[MirroredTable],
    snapshots: Sequence[MirroredTable] = (),
    tenants: Sequence[MirroredTenants] = (),
) -> Iterator[CheckedAsset]:
    """Those of a mirror; arguments as of the sensor `partitions`."""
    for table in tables:
        yield from _layers(table)
    for landed in snapshots:
        yield from (asset for of_mode in OF_MODES for asset in of_mode(landed))
    for one in tenants:
        key = one.key("deduped")
        yield CheckedAsset(key, _keys(key, OF_TENANTS), partial(_of_tenants, one))


def _layers(table: MirroredTable) -> Iterator[CheckedAsset]:
    layers = {table.key(layer): layer for layer in ("raw", "deduped", "clean")}
    found = sorted(all_check_keys(table), key=lambda check: check.asset_key.to_string())
    for key, checks in groupby(found, key=lambda check: check.asset_key):
        yield CheckedAsset(key, list(checks), partial(_of_layer, table, layers[key]))


def _keys(key: dg.AssetKey, names: Sequence[str] | dict[str, str]) -> list[dg.AssetCheckKey]:
    return [dg.AssetCheckKey(key, name) for name in names]


def _of_layer(table: MirroredTable, layer: str, ledger: Ledger, check: str) -> AsOf:
    return AsOf.now(ledger, table, layer_named(layer), check)


def _of_tenants(tenants: MirroredTenants, ledger: Ledger, check: str) -> AsOf:
    return AsOf.of_tenants(ledger, tenants, check)
