"""Does the published table of a landing agree with the newest snapshot's own content?"""

from __future__ import annotations

from mirrorlake.arrive import snapshot_table
from mirrorlake.config import TableContract
from mirrorlake.errors import LandingError
from mirrorlake.landing.frame import landing_errors
from mirrorlake.landing.land import open_taken
from mirrorlake.landing.look import place_of
from mirrorlake.snapshots.exact import Compared, compare_newest, newest_of
from mirrorlake.snapshots.shape import SnapshotTable
from mirrorlake.snapshots.state import State
from mirrorlake.sync import Engine


def check_newest(engine: Engine, contract: TableContract) -> Compared:
    """Read the newest folded snapshot's files again and compare them with what readers see.

    Raises:
        LandingError: its files are gone, or others by now.
        LakeError: nothing was published yet, or it can't be read.
    """
    place = place_of(engine.config, contract)
    table = snapshot_table(contract, place.schema())
    _, state = newest_of(engine.lake, table)
    number = state.newest.id if state.newest else 0
    for record in engine.ledger.snapshots(contract.name):
        if record.number == number and record.state in ("landed", "published"):
            (taken,) = open_taken(place, engine.ledger, [record.id])
            with landing_errors(contract.name):
                taken.check_files()
                return compare_newest(engine.lake, table, taken.frame(engine.spark.get()))
    raise LandingError(
        f"table {contract.name}: snapshot {number}, which it holds, is not in the ledger",
        table=contract.name,
        next_step="The ledger was made anew: fold a new snapshot",
    )


def count_newest(engine: Engine, contract: TableContract) -> tuple[int, int, int, bool]:
    """(the newest snapshot's rows inside its window, the table's rows, those of them that it lacks,
    whether its copies of one key were resolved), without Spark.

    Raises:
        LakeError: nothing was published yet, or it can't be read.
    """
    table = snapshot_table(contract, place_of(engine.config, contract).schema())
    _, state = newest_of(engine.lake, table)
    rows = engine.count_rows(table.identifier) or 0
    newest = state.newest
    held = newest.totals.n if newest else 0
    return held, rows, _count_missing(engine, table, state), table.duplicates == "resolved"


def _count_missing(engine: Engine, table: SnapshotTable, state: State) -> int:
    side = engine.lake.load(table.missing_rows)
    if side is None or state.missing is None:
        return 0
    # Keys whose day has left the window may still be listed.
    kept = f"missed_day >= '{state.floor}' OR missed_day IS NULL" if state.floor else None
    with engine.lake.translated(table.missing_rows):
        scan = side.scan(snapshot_id=state.missing)
        return (scan.filter(kept) if kept else scan).count()
