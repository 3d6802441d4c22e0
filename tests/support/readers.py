"""Readers in a loop, beside whatever is done to a lake table: each answer is written down.

They share nothing with the engine: a catalog of PyIceberg's own for tables, and the catalog's own
row for what is a view.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError

VIEW, NONE = "view", "none"


@dataclass
class Answers:
    """What readers of one table saw.

    Attributes:
        counts: the numbers of rows that they read; `VIEW` where the name was a view's, `NONE` where
            it was nobody's, and that may be.
        wrong: what else came of it.
    """

    counts: set[int | str] = field(default_factory=set[int | str])
    wrong: list[str] = field(default_factory=list[str])
    rounds: int = 0


@contextmanager
def reading(
    warehouse: Path, namespace: str, table: str, *, may_be_none: bool = False
) -> Iterator[Answers]:
    """Read a table (or see that a view has its name) until the block ends, at least once each
    before it begins and after it ended.

    Args:
        may_be_none: whether it is made meanwhile.
    """
    answers, done = Answers(), threading.Event()
    catalog = SqlCatalog(
        "lake",
        uri=f"sqlite:///{warehouse}/catalog.db?timeout=30",
        warehouse=f"file://{warehouse}",
    )

    def look() -> None:
        try:
            rows = catalog.load_table((namespace, table)).scan().to_arrow().num_rows
            answers.counts.add(rows)
        except NoSuchTableError:
            if is_view(warehouse, namespace, table):
                answers.counts.add(VIEW)
            else:  # it may have become a table between the two looks
                try:
                    answers.counts.add(catalog.load_table((namespace, table)).scan().count())
                except NoSuchTableError as error:
                    if may_be_none:
                        answers.counts.add(NONE)
                    else:
                        answers.wrong.append(repr(error))
                except Exception as error:  # noqa: BLE001
                    answers.wrong.append(repr(error))
        except Exception as error:  # noqa: BLE001 - whatever it is, a reader had no answer
            answers.wrong.append(repr(error))
        answers.rounds += 1

    def loop() -> None:
        while not done.is_set():
            look()

    look()
    reader = threading.Thread(target=loop)
    reader.start()
    try:
        yield answers
    finally:
        done.set()
        reader.join()
    look()


def is_view(warehouse: Path, namespace: str, name: str) -> bool:
    """Whether the catalog has a view of this name."""
    asked = (
        "SELECT count(*) FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
        " AND iceberg_type = 'VIEW'"
    )
    with closing(sqlite3.connect(warehouse / "catalog.db", timeout=30)) as catalog:
        return catalog.execute(asked, (namespace, name)).fetchone()[0] == 1
