"""How the tables of a cut are read: by each engine, clean by the rules of now, and where they are
published.

What belongs here: what has to be looked up. What doesn't: what each engine's query says
(`mirrorlake.cuts.report`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.config import Config
from mirrorlake.cuts.clean_views import clean_of_cut
from mirrorlake.cuts.ledger import Cut, CutTable
from mirrorlake.cuts.published import published_reads
from mirrorlake.cuts.report import CLEAN_IN_SPARK, GONE, reads_of
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.ledger import Ledger


def reads_at(
    config: Config, lake: Lake, ledger: Ledger, cut: Cut, tables: Sequence[CutTable]
) -> list[dict[str, str]]:
    """By engine, how each of some tables is read at a cut. A version that the lake has no more (a
    rule took values away from clean) is said to be gone.

    Raises:
        LakeError: the lake can't be read.
        LedgerError: the ledger can't be read.
    """
    published = published_reads(ledger, cut)
    found = list[dict[str, str]]()
    for one in tables:
        reads = {"any": GONE}
        if not _is_gone(lake, one):
            reads = reads_of(cut, one) | _clean_reads(config, lake, ledger, cut, one)
        found.append(reads | (published.get(one.table, {}) if one.layer == "deduped" else {}))
    return found


def _clean_reads(
    config: Config, lake: Lake, ledger: Ledger, cut: Cut, one: CutTable
) -> dict[str, str]:
    """How clean of a table is read at a cut, where clean is a view: by the rules of now."""
    contract = next((c for c in config.tables if c.name == one.table), None)
    if contract is None or contract.clean != "view" or one.snapshot_id is None:
        return {}
    over = f"{one.identifier.sql} VERSION AS OF '{cut.tag}'"
    text = clean_of_cut(lake, ledger, contract, one, over)
    return {CLEAN_IN_SPARK: text.sql} if text is not None else {}


def _is_gone(lake: Lake, one: CutTable) -> bool:
    """Whether the lake has a version no more."""
    if one.snapshot_id is None:
        return False
    table = lake.load(one.identifier)
    return table is None or table.snapshot_by_id(one.snapshot_id) is None
