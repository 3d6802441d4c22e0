"""The checks of a table after it was repaired: what had failed is checked again, and reported.

A check belongs to an asset, not to a job: its verdict is recorded by this run as by a run of the
check itself.
"""

from collections.abc import Generator
from typing import Any

import dagster as dg

from dagster_mirrorlake.checks.run_checks import verdict_of
from dagster_mirrorlake.checks.table import MATCHES, chain_check_keys
from dagster_mirrorlake.checks.verdicts import evaluations
from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.errors import MirrorlakeError

_REPAIRED = ("contract", "row_count", "unique_key", MATCHES)
"""What a repair may change; the job has the exact check's verdict already."""


def recheck(
    context: dg.OpExecutionContext, table: MirroredTable
) -> Generator[Any, None, dict[str, Any]]:
    """Look again at what deduped and clean are checked for: yields the verdicts as events, returns
    them in words. A check that can't look has no verdict, and says so."""
    layers: dict[dg.AssetKey, Layer] = {table.key(name): name for name in ("deduped", "clean")}
    keys = [*chain_check_keys(table), dg.AssetCheckKey(table.key("clean"), MATCHES)]
    found: list[str] = []
    for key in keys:
        layer = layers.get(key.asset_key)
        if layer is None or key.name not in _REPAIRED:
            continue
        try:
            verdict = verdict_of(context, table, layer, key.name)
        except MirrorlakeError as error:
            found.append(f"- {key.name} of {layer}: could not look: {error}")
            continue
        yield from evaluations(context, table, layer, key.name, verdict)
        word = "passed" if verdict.passed else "failed"
        words = f": {verdict.words}" if verdict.words else ""
        found.append(f"- {key.name} of {layer}: {word}{words}")
    return {"checks looked at again": dg.MetadataValue.md("\n".join(found))}
