"""Which tables of the lake are not as our last commits left them: one look for all of them.

What belongs here: looking. What doesn't: what follows
(`mirrorlake.operations.other_writers.moved_layers`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mirrorlake.config import Config
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.catalog.locations import metadata_locations
from mirrorlake.destinations.iceberg.warehouse.lake_location import check_place, is_catalog_missing
from mirrorlake.errors import LakeDamaged, LakeError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.lake_heads import OF_MODELS, LakeHead

if TYPE_CHECKING:
    from mirrorlake.destinations.iceberg.commits.heads import MovedTable, Recorded

LOOKED_EVERY: Final = 60.0
"""Seconds between two looks of a process that repeats them."""
IN_TURN: Final = 5
"""How many lake tables a look of `HeadsInTurn` loads at most."""


def named_otherwise(config: Config, ledger: Ledger) -> frozenset[str] | None:
    """The tables of which the catalog names other metadata files than after our last commits: by
    other hands, or by a run that goes on, or died. Nothing is opened; None where the catalog is no
    SQL database, and each table would have to be.

    Raises:
        LakeError: the lake is not the one that the ledger knows.
        LedgerError: the ledger can't be read.
    """
    return check_place(config.lake, ledger).moved


class HeadsInTurn:
    """Looks that are repeated, where a catalog can't say of all tables at once what it names: each
    loads the next few. A table that was found stays found until the ledger knows another head of
    it, or its turn comes again."""

    def __init__(self) -> None:
        self._last = ("", "")
        self._moved: set[LakeHead] = set()

    def look(self, config: Config, ledger: Ledger, tables: Collection[str]) -> frozenset[str]:
        """Those of some tables that are known to be named otherwise, as `named_otherwise` says it.

        Raises:
            LakeError: the catalog can't be asked.
            LedgerError: the ledger can't be read.
        """
        heads = sorted((h for h in ledger.lake_heads() if h.table in tables), key=lambda h: h.name)
        self._moved.intersection_update(heads)
        if heads:
            # PyIceberg takes seconds to import.
            from mirrorlake.destinations.iceberg.warehouse.identity import open_lake

            lake = open_lake(config, ledger, looks_only=True)
            later = [head for head in heads if head.name > self._last]
            for head in [*later, *heads][: min(IN_TURN, len(heads))]:
                self._last = head.name
                try:
                    table = lake.load(Identifier(*head.name))
                except LakeDamaged:
                    continue  # the next sync says so
                if table is None or table.metadata_location != head.metadata_location:
                    self._moved.add(head)
                else:
                    self._moved.discard(head)
        return frozenset(head.table for head in self._moved)


class MovedTables:
    """Looks that a process repeats: which tables the catalog names otherwise, of any catalog."""

    def __init__(self) -> None:
        self._next, self._in_turn = 0.0, HeadsInTurn()

    def find(self, config: Config, ledger: Ledger, tables: Collection[str]) -> frozenset[str]:
        """Those that are named otherwise; none where it is too soon for another look.

        Args:
            tables: those that are looked at, where each would have to be opened.

        Raises:
            LakeError: the lake is not the one that the ledger knows.
            LedgerError: the ledger can't be read.
        """
        if (now := time.monotonic()) < self._next:
            return frozenset()
        self._next = now + LOOKED_EVERY
        moved = named_otherwise(config, ledger)
        return self._in_turn.look(config, ledger, tables) if moved is None else moved


def recorded_tables(config: Config, ledger: Ledger) -> list[Recorded]:
    """Everything whose lake tables are known by their heads: tables, landings, tenants, and the
    models that were run."""
    of_models = [head for head in ledger.lake_heads() if head.table.startswith(OF_MODELS)]
    models: list[Recorded] = []
    if of_models:
        # PyIceberg takes seconds to import.
        from mirrorlake.destinations.iceberg.commits.heads import ModelTable

        names = [(h.table.removeprefix(OF_MODELS), Identifier(*h.name)) for h in of_models]
        models += [ModelTable(name, identifier) for name, identifier in names]
    return [*config.mirrored, *models]


def find_all_moved(
    config: Config, ledger: Ledger, contracts: Sequence[Recorded]
) -> dict[str, list[MovedTable]]:
    """What of the lake is not as our last commits left it, by table. Where the catalog names what
    it named then, nothing is opened.

    Raises:
        LakeError: the lake is not the one that the ledger knows, or can't be read.
        LedgerError: the ledger can't be read.
    """
    look = check_place(config.lake, ledger)
    no_catalog = is_catalog_missing(config.lake) or metadata_locations(config.lake) == {}
    if ledger.lake() is None and not no_catalog:
        # PyIceberg takes seconds to import.
        from mirrorlake.destinations.iceberg.warehouse.identity import open_lake

        open_lake(config, ledger, looks_only=True)
    moved, known = look.moved, {head.table for head in look.heads}
    if moved is not None:
        contracts = [c for c in contracts if c.name in moved or c.name not in known]
    found: dict[str, list[MovedTable]] = {}
    loaded = ledger.newest_columns() if contracts else {}
    chosen = [c for c in contracts if c.name in known or c.name in loaded]
    if chosen:
        # PyIceberg takes seconds to import: where nothing moved, it is not needed.
        from mirrorlake.destinations.iceberg.commits.heads import find_moved_tables
        from mirrorlake.destinations.iceberg.warehouse.identity import open_lake

        lake = open_lake(config, ledger)
        for contract in chosen:
            if there := find_moved_tables(config.lake, lake, ledger, contract):
                found[contract.name] = there
    return found


def refuse_moved_lake(config: Config, ledger: Ledger, contracts: Sequence[Recorded]) -> None:
    """See that the lake's tables are as our last commits left them.

    Raises:
        LakeError: one is not.
        LedgerError: the ledger can't be read.
    """
    refuse_moved_tables(find_all_moved(config, ledger, contracts))


def refuse_lost_views(config: Config, ledger: Ledger) -> None:
    """See that the catalog has the clean views that were made. Whether one says what it must is
    seen when its table is folded.

    Raises:
        LakeError: it has not.
        LedgerError: the ledger can't be read.
    """
    named = metadata_locations(config.lake)
    known = ledger.definitions("view ") if named is not None else {}
    for one in config.mirrored if known else ():
        view = Identifier(one.namespaces.clean, one.table)
        if one.clean == "view" and f"view {view}" in known and view.path not in (named or {}):
            again = "land" if one.landed else "sync"
            raise LakeError(
                f"table {one.name}: its view {view} is not in the catalog any more",
                table=one.name,
                next_step=f"`mirrorlake {again} {one.name}` makes it again",
            )


def refuse_moved_tables(moved: Mapping[str, Sequence[MovedTable]]) -> None:
    """See that nothing was found by `find_all_moved`.

    Raises:
        LakeError: something was.
    """
    if moved:
        name, found = next(iter(moved.items()))
        words = [one.said for one in found]
        more = f" (and {len(moved) - 1} more tables)" if len(moved) > 1 else ""
        what = name if name.startswith(OF_MODELS) else f"table {name}"
        raise LakeError(
            f"{what}: {'; '.join(words)}{more}",
            table=name,
            next_step="`mirrorlake sync` (of a landing `land`, of a model `run`) puts it right, or "
            "says what does",
        )
