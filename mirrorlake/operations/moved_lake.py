"""Which tables of the lake are not as our last commits left them: one look for all of them.

What belongs here: looking. What doesn't: what follows (`mirrorlake.operations.moved_layers`).
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrorlake.config import Config, TableContract
from mirrorlake.destinations.iceberg.locations import metadata_locations
from mirrorlake.destinations.iceberg.place import (
    check_place,
    refuse_unfinished,
    says_which,
)
from mirrorlake.errors import LakeError, LedgerError
from mirrorlake.ledger import Ledger


def named_otherwise(config: Config, ledger: Ledger) -> frozenset[str] | None:
    """The tables of which the catalog names other metadata files than after our last commits: by
    other hands, or by a run that goes on, or died. Nothing is opened; None where the catalog is no
    SQL database, and each table would have to be.

    Raises:
        LakeError: the lake is not the one that the ledger knows.
        LedgerError: the ledger can't be read.
    """
    check_place(config.lake, ledger)
    named = metadata_locations(config.lake)
    if named is None:
        return None
    heads = ledger.lake_heads()
    return frozenset(h.table for h in heads if named.get(h.name) != h.metadata_location)


def find_all_moved(
    config: Config, ledger: Ledger, contracts: Sequence[TableContract]
) -> dict[str, list[str]]:
    """What of the lake is not as our last commits left it, by table, in words. Where the catalog
    names what it named then, nothing is opened.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    _refuse_forgotten(config, ledger)
    moved = named_otherwise(config, ledger)
    if moved is not None:
        known = {head.table for head in ledger.lake_heads()}
        contracts = [c for c in contracts if c.name in moved or c.name not in known]
    found: dict[str, list[str]] = {}
    loaded = ledger.newest_columns() if contracts else {}
    chosen = [c for c in contracts if not c.landed and c.name in loaded]
    if chosen:
        # PyIceberg takes seconds to import: where nothing moved, it is not needed.
        from mirrorlake.destinations.iceberg.heads import find_moved_tables
        from mirrorlake.destinations.iceberg.identity import open_lake

        lake = open_lake(config.lake, ledger)
        for contract in chosen:
            if there := find_moved_tables(config.lake, lake, ledger, contract):
                found[contract.name] = [one.said for one in there]
    return found


def _refuse_forgotten(config: Config, ledger: Ledger) -> None:
    """See that the ledger is not a new one beside a lake that another ledger filled.

    Raises:
        LedgerError: it is.
    """
    refuse_unfinished(config.lake)
    if ledger.lake() is None and (at := says_which(config.lake)):
        raise LedgerError(
            f"the ledger {Ledger.shown_url(ledger.url)} knows nothing of the lake that is there "
            f"({at}): it was lost, or is another project's",
            next_step="Put the ledger back from a backup, set ledger.url to it, or run "
            "`mirrorlake ledger rebuild`, which writes down what the lake holds",
        )


def refuse_moved_lake(config: Config, ledger: Ledger, contracts: Sequence[TableContract]) -> None:
    """See that the lake's tables are as our last commits left them.

    Raises:
        LakeError: one is not.
        LedgerError: the ledger can't be read.
    """
    moved = find_all_moved(config, ledger, contracts)
    if moved:
        name, words = next(iter(moved.items()))
        more = f" (and {len(moved) - 1} more tables)" if len(moved) > 1 else ""
        raise LakeError(
            f"table {name}: {'; '.join(words)}{more}",
            table=name,
            next_step="`mirrorlake sync` puts it right, or says what does",
        )
