"""What is written of settlements within the transaction that settles a load or a fold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import sqlalchemy as sa

from mirrorlake.ledger.database.settled_rows import day_of_file, lower_day, lower_first_day
from mirrorlake.ledger.records import Load
from mirrorlake.ledger.tables import LOADS, RAW_FILES, SETTLED

LOADED: Final = "load"


def note_load(connection: sa.Connection, load: Load, run_id: str | None = None) -> None:
    """A load is a success now."""
    if run_id is None:
        run_id = connection.scalar(sa.select(LOADS.c.run_id).where(LOADS.c.seq == load.seq))
    connection.execute(
        SETTLED.insert(),
        {"table_name": load.table, "what": LOADED, "seq": load.seq, "run_id": run_id},
    )
    mine = sa.and_(RAW_FILES.c.table_name == load.table, RAW_FILES.c.seq == load.seq)
    name = connection.scalar(sa.select(sa.func.min(RAW_FILES.c.name)).where(mine))
    window = load.window
    days = [window.day, day_of_file(name), lower_day(window.kind, window.lo)]
    lower_first_day(connection, load.table, min(day for day in days if day is not None))


def note_folds(
    connection: sa.Connection, table: str, layer: str, seqs: Iterable[int], run_id: str
) -> None:
    """A layer holds these loads now."""
    common = {"table_name": table, "what": layer, "run_id": run_id}
    connection.execute(SETTLED.insert(), [{**common, "seq": seq} for seq in seqs])
