"""Upkeep of tables that are kept by snapshots: their side tables, the states of their versions, and
what expires in the landing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from mirrorlake.config import TableContract
from mirrorlake.destinations.base import SIDES, Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable, snapshot_property
from mirrorlake.destinations.iceberg.storage.listing import list_files
from mirrorlake.errors import LandingError
from mirrorlake.landing.files.expire import expire_landed
from mirrorlake.landing.files.listing import place_of
from mirrorlake.landing.fold.state import STATE, names_of, state_folder, version_state
from mirrorlake.operations.upkeep.maintain import Maintained, Size
from mirrorlake.workspace import Workspace


class _LandedUpkeep:
    """`ModeUpkeep` of mode ``snapshot``."""

    def side_tables(self, contract: TableContract) -> Iterator[Identifier]:
        """The tables of cells and of missing rows."""
        for name in SIDES:
            yield Identifier(contract.namespaces.deduped, contract.table).beside(name)

    def side_versions(self, lake: Lake, side: Identifier) -> set[int]:
        """The versions of a side table that the kept versions of the rows name."""
        name, _, which = side.name.rpartition("__")
        rows = lake.load(Identifier(side.namespace.removesuffix("__side"), name))
        found = [version_state(rows, s) for s in rows.snapshots()] if rows else []
        cells, missing = names_of([state for state in found if state is not None])
        return cells if which == "cells" else missing

    def remove_files(self, lake: Lake, table: LakeTable, before: datetime) -> list[int]:
        """Remove the states of versions that are gone; their sizes."""
        named = {snapshot_property(snapshot, STATE) for snapshot in table.snapshots()}
        names = {path.rpartition("/")[2] for path in named if path}
        with lake.translated(".".join(table.name())):
            listing = list_files(table, state_folder(table))
            old = [
                file
                for file in listing.files
                if file.path.endswith(".json")
                and file.path.rpartition("/")[2] not in names
                and file.written < before
            ]
            for file in old:
                listing.remove(file)
            return [file.bytes for file in old]

    def expire(self, workspace: Workspace, contract: TableContract) -> Iterator[Maintained]:
        """What left the landing, as sizes: files, bytes, and snapshots in place of versions."""
        landing = workspace.config.landings[contract.source]
        nothing = Size(0, 0, 0, 0)
        try:
            place = place_of(workspace.config, contract)
            found = expire_landed(place, workspace.ledger)
        except LandingError as failed:
            yield Maintained(landing.url, "landing", nothing, nothing, 0, 0, str(failed))
            return
        after = Size(found.kept_files, 0, found.kept_bytes, found.kept)
        before = Size(
            after.data_files + found.files,
            0,
            after.bytes + found.bytes,
            after.versions + found.snapshots,
        )
        yield Maintained(place.store.describe(place.folder.path), "landing", before, after, 0, 0)


UPKEEP = _LandedUpkeep()
