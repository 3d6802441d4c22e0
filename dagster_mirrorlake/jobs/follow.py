"""The job that follows one source's log for a while: as `mirrorlake follow`."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.assets.source_log import observed_lag
from dagster_mirrorlake.checks.log_lag import lag_evaluation
from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.tenants import AnyMirrored

if TYPE_CHECKING:
    from mirrorlake.operations.following.followed_round import FollowedRound
    from mirrorlake.workspace import Workspace

SHOWN_EVERY = 30.0
"""Seconds between two observations of the lag, each of which is an event."""


class FollowConfig(dg.Config):
    """For how long a source is followed."""

    minutes: float = Field(default=55.0, gt=0, description="For so long; then the run succeeds.")
    rows: int = Field(default=100_000, ge=1, description="Rows of one round, at most.")


def build_follow(source: str, tables: Sequence[AnyMirrored]) -> dg.JobDefinition:
    """Follow the log of one source.

    Args:
        tables: those that follow it.
    """

    def follow(context: dg.OpExecutionContext, config: FollowConfig) -> Iterator[dg.Output[None]]:
        with dagster_errors():
            workspace: Workspace = tables[0].names.resources(context).mirrorlake.workspace
            done = _Shown(context, source, tables, workspace)
            done.follow(config)
        yield dg.Output(None, metadata=done.metadata)

    words = (
        f"Keep the tables of source {source} that follow its binary log some seconds behind it, "
        "for a stated time: as `mirrorlake follow`. Its lag is shown on the asset of the log."
    )
    name = f"follow_{source}"
    # Nothing of the source waits for it: no tag.
    return job_of(name, words, FollowConfig, follow, tables, waits=False)


class _Shown:
    """What a run shows of its rounds."""

    def __init__(
        self,
        context: dg.OpExecutionContext,
        source: str,
        tables: Sequence[AnyMirrored],
        workspace: "Workspace",
    ) -> None:
        self._context, self._source, self._tables = context, source, tables
        self._workspace = workspace
        self._stop = threading.Event()
        self._shown = 0.0
        self._rows: Counter[str] = Counter()
        self._rounds, self._failed = 0, dict[str, str]()

    @property
    def metadata(self) -> dict[str, Any]:
        """Of the whole run."""
        failed = {"failed in the last round": ", ".join(self._failed)} if self._failed else {}
        return {"rows": self._rows.total(), "rounds": self._rounds, **failed}

    def follow(self, config: FollowConfig) -> None:
        """Follow until the time is over.

        Raises:
            MirrorlakeError: the source can't be followed.
        """
        from mirrorlake.operations.following.followed_tables import followed_tables
        from mirrorlake.operations.following.follower import LIMITS, FollowTerms, follow_source

        followed = followed_tables(self._workspace.config, self._source)
        self._workspace.config.require_secrets(followed.all)
        until = time.monotonic() + config.minutes * 60
        terms = FollowTerms(limits=replace(LIMITS, rows=config.rows), until=until)
        parts = (self._workspace, self._source, self._stop, self._round, self._wait, terms)
        follow_source(*parts)
        self._show()

    def _round(self, done: "FollowedRound") -> None:
        self._rounds += bool(done.rows)
        self._rows.update(done.rows)
        for name, words in done.changed.items():
            self._context.log.info("table %s: %s", name, words)
        for name, error in done.failed.items():
            self._context.log.warning("table %s: %s", name, error)
        self._failed = {name: str(error) for name, error in done.failed.items()}
        if time.monotonic() - self._shown >= SHOWN_EVERY:
            self._show()

    def _wait(self, words: str) -> None:
        self._context.log.warning(words)

    def _show(self) -> None:
        """Report how far all is behind, as an observation and as a verdict."""
        from mirrorlake.operations.following.lag import read_lag
        from mirrorlake.sources.mysql.sessions.connect import session

        self._shown = time.monotonic()
        contracts = [table.contract for table in self._tables]
        source = self._workspace.config.sources[self._source]
        with session(source) as connection:
            lag = read_lag(connection, source, contracts, self._workspace.ledger)
        if lag is None:
            return
        first = self._tables[0]
        more = {"rows": self._rows.total(), "rounds": self._rounds}
        self._context.log_event(observed_lag(self._source, first, lag, more))
        verdict = lag_evaluation(self._source, first, contracts, lag)
        self._context.log_event(verdict)  # pyright: ignore[reportArgumentType]
