"""Part ``together``: what it takes to show new versions of 500 tables at one moment.

The tables are made by PyIceberg, without MySQL, and each gets an empty version on a branch. Then
all of them are shown: together, as `sync`, `follow` and `cut` do, and one after the other, as the
same tables were shown before. Preparing writes a metadata file for each table, flushed to its disk,
which nobody sees; the transaction is all that readers and other writers meet.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import sqlalchemy as sa

from benchmarks.report import Figures, Section, spread
from mirrorlake.config.settings import CatalogConfig, LakeConfig
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits import shown_together
from mirrorlake.destinations.iceberg.commits.branches import begin_branch
from mirrorlake.destinations.iceberg.commits.commit import head_of
from mirrorlake.destinations.iceberg.commits.shown_together import StagedVersion, show_together
from mirrorlake.destinations.iceberg.lake import Lake
from tests.support.postgres import PASSWORD, USER, running_postgres

TABLES = 500


@dataclass
class Rounds:
    """Seconds of each round."""

    preparing: list[float]
    transaction: list[float]
    one_by_one: list[float]


def run(runs: int, scale: float) -> Figures:
    """Seconds of each step, each ``runs`` times, on both kinds of database."""
    tables, rows = max(2, round(TABLES * scale)), list[tuple[str, ...]]()
    for kind, opened in (("SQLite", _sqlite), ("Postgres", _postgres)):
        with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as lake:
            found = _rounds(lake, tables, runs)
        rows += [
            (kind, "together: metadata files are written", *spread(found.preparing)),
            (kind, "together: the transaction", *spread(found.transaction)),
            (kind, "one after the other", *spread(found.one_by_one)),
        ]
    about = (
        f"{tables:,} tables, whose new versions are on branches, are shown on main. Local files, "
        "flushed; Postgres on the same machine, with its fsync off."
    )
    title = "Tables that are shown at one moment"
    return [Section(title, about, ("catalog", "step", "s", "lowest", "highest"), tuple(rows))]


@contextmanager
def _sqlite(folder: Path) -> Iterator[Lake]:
    yield Lake(LakeConfig(warehouse=str(folder / "lake")))


@contextmanager
def _postgres(folder: Path) -> Iterator[Lake]:
    with running_postgres() as server:
        uri = f"postgresql://{USER}:{quote(PASSWORD, safe='')}@127.0.0.1:{server.port}/postgres"
        catalog = CatalogConfig().model_copy(update={"uri": uri})
        config = LakeConfig(warehouse=str(folder / "lake"))
        yield Lake(config.model_copy(update={"catalog": catalog}))


def _rounds(lake: Lake, tables: int, runs: int) -> Rounds:
    names = [Identifier("shop", f"t{number:04}") for number in range(tables)]
    lake.make_namespace("shop")
    for name in names:
        schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
        lake.catalog.create_table(name.path, schema, location=lake.location(name))
    found = Rounds([], [], [])
    catalog: Any = lake.catalog
    move, shows_together = catalog.move_together, shown_together.shows_together
    spent = [0.0]

    def timed(moves: Any) -> Any:
        began = time.monotonic()
        try:
            return move(moves)
        finally:
            spent[0] = time.monotonic() - began

    catalog.move_together = timed
    for number in range(runs):
        staged = _staged(lake, names, f"together{number}")
        began = time.monotonic()
        assert not show_together(lake, staged).failed
        whole = time.monotonic() - began
        staged = _staged(lake, names, f"apart{number}")
        shown_together.shows_together = lambda _: False
        began = time.monotonic()
        assert not show_together(lake, staged).failed
        shown_together.shows_together = shows_together
        found.one_by_one.append(time.monotonic() - began)
        found.preparing.append(whole - spent[0])
        found.transaction.append(spent[0])
    if isinstance(catalog.engine, sa.Engine):
        catalog.engine.dispose()
    return found


def _staged(lake: Lake, names: list[Identifier], branch: str) -> dict[str, list[StagedVersion]]:
    found: dict[str, list[StagedVersion]] = {}
    for name in names:
        head = head_of(lake, name)
        begin_branch(lake, name, branch)
        found[name.name] = [StagedVersion(name, branch, head)]
    return found
