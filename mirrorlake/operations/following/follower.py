"""A resident process over one source's log: what was committed is folded some seconds later.

Each round reads what came since the last one over one connection that is held open, loads it, a
load a table, and folds what was loaded; Spark, once a fold needed it, stays.

What belongs here: rounds, what is waited for, and when it ends. What doesn't: loads and folds
(`mirrorlake.operations.following.rounds`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import Config
from mirrorlake.errors import (
    ConfigError,
    LakeError,
    LeaseHeld,
    LedgerError,
    MirrorlakeError,
    SourceError,
    SourceHeld,
)
from mirrorlake.ledger.records import Lease
from mirrorlake.operations.following.between_rounds import BETWEEN_ROUNDS
from mirrorlake.operations.following.followed_round import FollowedRound
from mirrorlake.operations.following.followed_tables import followed_tables
from mirrorlake.operations.following.log_owner import follower_lease, is_log_wanted
from mirrorlake.operations.following.read_beside import ReadBeside, copy_table
from mirrorlake.operations.following.retries import BACKOFF
from mirrorlake.operations.following.rounds import Rounds
from mirrorlake.operations.following.tenant_rounds import ReadingBeside, sync_source
from mirrorlake.sources.mysql.binlog.log_batches import BatchLimits
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)

LIMITS: Final = BatchLimits(rows=100_000, bytes=16 * 2**20, seconds=10.0)
"""Of one round."""
_POLL: Final = 0.25
"""Seconds between two looks at a log that stands still."""
_SHORTEST: Final = 1.0
"""Seconds from one round that loaded something to the next: each is a version of its tables."""
SHOWN_EVERY: Final = 60.0
"""Seconds after which a round is reported that found nothing."""


@dataclass(frozen=True)
class FollowTerms:
    """How a source is followed.

    Attributes:
        limits: of a round: rows, bytes of the log, and seconds of reading.
        until: when to end (`time.monotonic`); None: when told.
        once: end once all that was committed at the beginning is folded; a server or a ledger that
            is lost is not waited for.
        note: told what was done between two rounds, in words.
        reload: gives the contract file anew where it was changed; None where it was not.
    """

    limits: BatchLimits = LIMITS
    until: float | None = None
    once: bool = False
    note: Callable[[str], None] = logger.info
    reload: Callable[[], Config | None] = lambda: None


OnRound = Callable[[FollowedRound], None]
OnWait = Callable[[str], None]
"""Told what is waited for, in words."""


def follow_source(
    workspace: Workspace,
    source: str,
    stop: threading.Event,
    on_round: OnRound,
    on_wait: OnWait,
    terms: FollowTerms | None = None,
) -> None:
    """Follow a source's log until told to stop; the round that runs then is ended first.

    A server, a ledger or a lake that is lost is waited for, as is another process that follows the
    same log.

    Args:
        on_round: called after each round that did something, and now and then.

    Raises:
        ConfigError: there is nothing to follow.
        SourceError: the source can't be followed as it is: a setting, a grant. Where it could be
            before, it is waited for.
    """
    terms = terms or FollowTerms()
    followed_tables(workspace.config, source)
    with (
        ReadBeside(copy_table, waits=terms.once) as copies,
        ReadBeside(sync_source, waits=terms.once) as syncs,
    ):
        beside = ReadingBeside(copies, syncs)
        _Following(workspace, source, stop, on_round, on_wait, terms, beside).run()


@dataclass
class _Following:
    workspace: Workspace
    source: str
    stop: threading.Event
    on_round: OnRound
    on_wait: OnWait
    terms: FollowTerms
    beside: ReadingBeside
    failures: int = 0
    began: bool = False

    def run(self) -> None:
        """Follow over one connection after the other."""
        while not self._is_over():
            try:
                with (
                    self.workspace.ledger.lease(
                        follower_lease(self.source), self.workspace.run_id
                    ) as lease,
                    session(self.workspace.config.sources[self.source]) as connection,
                ):
                    if self._follow(connection, lease):
                        return
                if is_log_wanted(self.workspace.ledger, self.source):
                    self._pause(_SHORTEST)
                for one in BETWEEN_ROUNDS:
                    one.take(self.workspace, self.source, self.terms.note)
            except LeaseHeld as error:
                self._wait(error, f"another process follows source {self.source}: {error.message}")
            except (SourceError, LedgerError, LakeError) as error:
                passing = error.retryable or self.began or isinstance(error, SourceHeld)
                if not passing or self.terms.once:
                    raise
                self._wait(error, str(error))

    def _follow(self, connection: Connection[Any], lease: Lease) -> bool:
        """Round after round; whether all is done, False where others are to have the log, or the
        contract file changed."""
        followed = followed_tables(self.workspace.config, self.source)
        parts = (self.workspace, followed, connection, lease, self.terms.limits)
        rounds = Rounds(*parts, self.beside)
        shown = -SHOWN_EVERY
        with closing(rounds):
            rounds.open()
            while not self._is_over():
                began = time.monotonic()
                done = rounds.take()
                self.began, self.failures = True, 0
                if done.is_busy or began - shown >= SHOWN_EVERY:
                    shown = began
                    self.on_round(done)
                if self.terms.once and done.reached:
                    return True
                if is_log_wanted(self.workspace.ledger, self.source):
                    self.on_wait(f"another process takes the log of source {self.source} for now")
                    return False
                if any(one.is_due(self.workspace, self.source) for one in BETWEEN_ROUNDS):
                    return False
                if (config := self.terms.reload()) is not None:
                    self._take(config)
                    return False
                waits = began + _SHORTEST - time.monotonic() if done.rows else _POLL
                self._pause(waits if done.reached else 0.0)
        return True

    def _is_over(self) -> bool:
        until = self.terms.until
        return self.stop.is_set() or (until is not None and time.monotonic() >= until)

    def _take(self, config: Config) -> None:
        """Go on by a contract file that was changed.

        Raises:
            ConfigError: it means another lake or ledger.
        """
        old = self.workspace.config
        if (old.lake, old.ledger, old.spark) != (config.lake, config.ledger, config.spark):
            raise ConfigError(
                f"{config.path.name} names another lake, ledger or Spark than when this began",
                next_step="Start it again",
            )
        self.workspace = replace(self.workspace, config=config)

    def _wait(self, error: MirrorlakeError, words: str) -> None:
        if self.terms.once:
            raise error
        seconds = BACKOFF[min(self.failures, len(BACKOFF) - 1)]
        self.failures += 1
        self.on_wait(f"{words} Tried again in {seconds:g} s")
        self._pause(seconds)

    def _pause(self, seconds: float) -> None:
        """Wait, but no longer than there is something to wait for."""
        if self.terms.until is not None:
            seconds = min(seconds, self.terms.until - time.monotonic())
        self.stop.wait(max(0.0, seconds))
