"""`mirrorlake land` and `maintain`, killed by name and at random: readers see one of two versions,
and the next run goes on from there."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from datetime import datetime, timedelta
from decimal import Decimal

import pytest

from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.commits.branches import list_branches
from mirrorlake.landing.ledger import LandedSnapshots
from mirrorlake.sources.files.layout import id_of
from tests.integration.conftest import Place
from tests.integration.landing.test_landing import Feed, line
from tests.support.command import COMMAND

ROWS = 30
ROUNDS = 6


class Killed(Feed):
    """A feed whose snapshot number n has the price n in every row."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, complete="marker")
        self.version = 0

    def land_next(self) -> int:
        self.version += 1
        number = id_of(datetime(2026, 2, 1) + timedelta(hours=self.version))
        half = ROWS // 2
        lines = [line(n, f"{self.version}.00") for n in range(ROWS)]
        self.land(number, lines[:half], lines[half:])
        return number

    def start(self, *command: str, failpoint: str = "") -> subprocess.Popen[bytes]:
        config = str(self.workspace.config.path)
        return subprocess.Popen(
            [*COMMAND, *command, "--config", config],
            env={**os.environ, "MIRRORLAKE_FAILPOINT": failpoint},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def seen(self) -> int:
        """The one version that all rows are of."""
        rows = self.rows()
        assert len(rows) == ROWS
        (price,) = {row[0] for row in rows.values()}
        assert price == Decimal(int(price))
        return int(price)

    def goes_on(self) -> None:
        """What was killed is taken by the next run, and leaves nothing behind."""
        self.arrive()
        assert self.seen() == self.version
        assert self.arrive() == []
        identifier = Identifier(f"{self.name}_d", "t")
        assert list(list_branches(self.workspace.lake, identifier)) == ["main"]
        record = LandedSnapshots(self.workspace.ledger).snapshots(f"{self.name}.d.t")[-1]
        assert record.state == "published"


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_while_it_lands_a_snapshot_is_taken_once(place: Place) -> None:
    feed = Killed(place, "killed1")
    feed.land_next()
    feed.arrive()
    for name in ("land.taken", "snapshot.sealed", "land.folded"):
        feed.land_next()
        run = feed.start("land", failpoint=name)
        assert run.wait(300) == -signal.SIGKILL, name
        assert feed.seen() == feed.version - (name != "land.folded")
        feed.goes_on()


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_killed_at_any_moment_readers_see_one_of_two_versions(place: Place) -> None:
    draw = random.Random(8)  # noqa: S311
    feed = Killed(place, "killed2")
    feed.land_next()
    feed.arrive()
    begun = time.monotonic()
    feed.land_next()
    assert feed.start("land").wait(300) == 0
    whole = time.monotonic() - begun
    for _ in range(ROUNDS):
        command = draw.choice([["land"], ["land"], ["maintain", "--keep-days", "0"]])
        if command == ["land"]:
            feed.land_next()
        run = feed.start(*command)
        try:
            run.wait(draw.uniform(0.3, 1.0) * whole)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
        assert feed.seen() in (feed.version - 1, feed.version)
        feed.goes_on()
