"""Cuts that nobody makes by hand: when the next one of a source is due, and how long it stays.

What belongs here: what the section ``cuts`` means at a moment, and a follower's pause for it. What
doesn't: making a cut (`mirrorlake.cuts.make`).
"""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from typing import Final

from mirrorlake.config import Config
from mirrorlake.cuts.config import CutsConfig, SourceCuts
from mirrorlake.cuts.ledger import Cuts
from mirrorlake.cuts.make import CutTerms, make_cut
from mirrorlake.cuts.report import NOT_IN_CUT, keys_sentence, title_of
from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger import Ledger
from mirrorlake.operations.following.between_rounds import OnTaken
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)
_LOOKS: Final = 5.0
"""Seconds after which a follower asks the ledger again."""
_EARLY: Final = timedelta(minutes=5)
_AFTER_FAILURE: Final = 300.0
"""Seconds after which a cut that failed is tried again."""


def due_terms(
    config: Config, ledger: Ledger, source: str, now: datetime | None = None
) -> CutTerms | None:
    """How the cut of a source is to be made that is due now; None where none is.

    Args:
        now: with its zone; by default our clock's.

    Raises:
        LedgerError: the ledger can't be read.
    """
    said, now = config.section(CutsConfig).of(source), now or datetime.now(UTC)
    if said.every is None:
        return None
    newest = Cuts(ledger).newest(source)
    # A schedule ticks to the second, and the cut of an hour ago took some to be made.
    early = min(said.every / 4, _EARLY)
    if newest is not None and now < newest + said.every - early:
        return None
    return terms_of(said, newest, now)


def terms_of(said: SourceCuts, newest: datetime | None, now: datetime) -> CutTerms:
    """How a cut is to be made that the section asks for: the first of a day (UTC) may stay longer.

    Args:
        newest: when the newest cut of the source was made; None: there is none.
    """
    keep = said.keep
    if said.keep_daily is not None and (newest is None or newest.date() < now.date()):
        keep = said.keep_daily
    return CutTerms(keep=keep, prove=said.prove, lock=said.lock, others=said.others)


class DueCuts:
    """Between two rounds of a follower, the cut of its source that is due."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def is_due(self, workspace: Workspace, source: str) -> bool:
        """Whether a cut is due. The ledger is asked every few seconds."""
        if workspace.config.section(CutsConfig).of(source).every is None:
            return False
        if time.monotonic() < self._next.get(source, 0.0):
            return False
        self._next[source] = time.monotonic() + _LOOKS
        return due_terms(workspace.config, workspace.ledger, source) is not None

    def take(self, workspace: Workspace, source: str, say: OnTaken) -> None:
        """Make the cut that is due. One that fails is said, and tried again after a while."""
        terms = due_terms(workspace.config, workspace.ledger, source)
        if terms is None:
            return
        try:
            made = make_cut(workspace, source, terms, logger.info)
        except MirrorlakeError as error:
            self._next[source] = time.monotonic() + _AFTER_FAILURE
            say(f"source {source}: its cut was not made: {error}")
            return
        say(f"cut {title_of(made.cut)}. {keys_sentence(made.cut.foreign_keys)}")
        for table, why in made.left_out.items():
            say(f"cut {made.cut.name}: not in it: {table}: {why}")
        for table, why in made.published.missing.items():
            say(f"cut {made.cut.name}: not published: {table}: {why}")
        for name in made.shown.left if made.shown is not None else ():
            say(f"cut {made.cut.name}: {name} is not shown any more: {NOT_IN_CUT}")
        for one in made.cut.tables:
            if one.proved == "different":
                say(f"cut {made.cut.name}: {one.table} differs from MySQL: {one.words}")


FOLLOWER: Final = DueCuts()
"""This process's."""
