"""The jobs that leave a source alone for a while, and end that."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import dagster as dg
from pydantic import Field

from dagster_mirrorlake.jobs.job import job_of
from dagster_mirrorlake.resources.failures import dagster_errors
from dagster_mirrorlake.tenants import AnyMirrored
from mirrorlake.errors import ConfigError

if TYPE_CHECKING:
    from mirrorlake.ledger import Ledger


class HoldConfig(dg.Config):
    """Which source is left alone, and for how long."""

    source: str = Field(description="A source of the contract file.")
    hours: float = Field(default=1.0, description="For how long from now.")
    until: str = Field(
        default="",
        description="Or until when: YYYY-MM-DDTHH:MM[+00:00]; without an offset in UTC.",
    )
    reason: str = Field(default="", description="Shown to everyone who meets the hold.")


class ReleaseConfig(dg.Config):
    """Whose hold ends."""

    source: str = Field(description="A source of the contract file.")


def build_hold(tables: Sequence[AnyMirrored]) -> dg.JobDefinition:
    """Nothing is requested of a source until a moment."""
    sources, names = _sources(tables), tables[0].names

    def hold(context: dg.OpExecutionContext, config: HoldConfig) -> Iterator[dg.Output[None]]:
        with dagster_errors():
            ledger: Ledger = names.resources(context).ledger.ledger
            source = _known(sources, config.source)
            held = ledger.hold(source, _moment(config), config.reason)
        until = f"{held.until:%Y-%m-%d %H:%M} UTC"
        context.log.info("source %s is held until %s", source, until)
        shown = {"source": source, "held until": until, "reason": config.reason or "none given"}
        yield dg.Output(None, metadata=shown)

    words = (
        "Leave a source alone until a moment (its maintenance): no load reads it. What it changes "
        f"meanwhile is read afterwards. Sources: {', '.join(sources)}."
    )
    return job_of("hold", words, HoldConfig, hold, tables, needs="ledger")


def build_release(tables: Sequence[AnyMirrored]) -> dg.JobDefinition:
    """End a source's hold now."""
    sources, names = _sources(tables), tables[0].names

    def release(context: dg.OpExecutionContext, config: ReleaseConfig) -> Iterator[dg.Output[None]]:
        with dagster_errors():
            ledger: Ledger = names.resources(context).ledger.ledger
            source = _known(sources, config.source)
            words = "no longer held" if ledger.release(source) else "it was not held"
        context.log.info("source %s: %s", source, words)
        yield dg.Output(None, metadata={"source": source, "outcome": words})

    words = f"End a source's hold now. Sources: {', '.join(sources)}."
    return job_of("release", words, ReleaseConfig, release, tables, needs="ledger")


def _sources(tables: Sequence[AnyMirrored]) -> list[str]:
    return sorted({name for table in tables for name in table.contract.servers})


def _known(sources: Sequence[str], name: str) -> str:
    """A source's name.

    Raises:
        ConfigError: the location has no table of it.
    """
    if name not in sources:
        raise ConfigError(
            f"there is no source {name!r}", next_step=f"Sources are: {', '.join(sources)}"
        )
    return name


def _moment(config: HoldConfig) -> datetime:
    """When a hold ends.

    Raises:
        ConfigError: that is no moment, or none to come.
    """
    now = datetime.now(UTC)
    try:
        at = datetime.fromisoformat(config.until) if config.until else None
    except ValueError as error:
        raise ConfigError(
            f"until: {config.until!r} is no date and time", next_step="Write 2026-11-22T06:00"
        ) from error
    if at is None:
        at = now + timedelta(hours=config.hours)
    elif at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    if at <= now:
        raise ConfigError("the hold would have ended already", next_step="Give a moment to come")
    return at
