"""What looking at a stream view costs: the bytes that it reads of each table.

What belongs here: figures, from the lake's metadata and the ledger. What doesn't: what is read
(`mirrorlake.models.partition_states.stream_views`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.tables.views import read_view
from mirrorlake.ledger import Ledger
from mirrorlake.merge.streamed import after_of
from mirrorlake.models.compile.model import Model
from mirrorlake.serving.catalogue import Catalogue, MirroredTable
from mirrorlake.table.lake_tables import deduped_of
from mirrorlake.table.streamed import streamed_of, why_nothing_to_add


@dataclass(frozen=True)
class StreamPrice:
    """What a stream view reads of one mirrored table.

    Attributes:
        folded_bytes: of deduped's files; 0 where all is read from raw.
        waiting: the loads that deduped does not hold yet; None where there are no loads to add.
        added_loads, added_bytes: those that are added to it, folded or not, and their files.
        why_none: why there are no loads to add; empty where there are.
    """

    table: str
    folded_bytes: int
    waiting: int | None = None
    added_loads: int = 0
    added_bytes: int = 0
    why_none: str = ""


def stream_prices(
    lake: Lake, ledger: Ledger, catalogue: Catalogue, model: Model
) -> tuple[StreamPrice, ...]:
    """The price of each mirrored table of a stream view, in the order in which it names them; none
    of another model.

    Raises:
        LakeError, LedgerError
    """
    if model.declaration.materialized != "stream view":
        return ()
    tables = [one for name in model.reads if (one := catalogue.table(name)) is not None]
    return tuple(_price(lake, ledger, one) for one in tables)


def _price(lake: Lake, ledger: Ledger, table: MirroredTable) -> StreamPrice:
    contract = table.contract
    deduped = deduped_of(contract)
    found = lake.statistics(deduped)
    folded_bytes = found.bytes if found is not None else 0
    why = why_nothing_to_add(contract)
    if why:
        return StreamPrice(table.name, folded_bytes, why_none=why)
    loads = ledger.successful_loads(contract.name)
    folded = ledger.folded_loads(contract.name, "deduped")
    waiting = [load for load in loads if load.seq not in folded]
    view = read_view(lake, streamed_of(deduped))
    if view is not None and f" FROM {deduped.sql}" not in view.sql:
        folded_bytes, added = 0, loads
    else:
        after = after_of(view.sql) if view is not None else None
        added = waiting if after is None else [load for load in loads if load.seq > after]
    size = sum(load.receipt.bytes for load in added if load.receipt is not None)
    return StreamPrice(table.name, folded_bytes, len(waiting), len(added), size)
