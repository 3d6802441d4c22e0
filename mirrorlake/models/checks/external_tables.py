"""Checks of tables that are made elsewhere: contract, freshness, count of rows, readers' view.

All by metadata: no row is read, and no JVM starts. What can't be told is undecided, which is no
success; a table that can't be looked at is an exception.

What belongs here: a verdict with its words. What doesn't: looking
(`mirrorlake.models.external_sources.inspect`, `mirrorlake.models.show.external`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from mirrorlake.config import Config
from mirrorlake.config.fields import format_duration
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.errors import LandingError
from mirrorlake.models.external_sources.inspect import compare_declared
from mirrorlake.models.external_sources.own_places import OwnPlaces
from mirrorlake.models.external_sources.stores import store_of_format
from mirrorlake.models.external_sources.tables import ExternalLook
from mirrorlake.models.files.external_table import ExternalCheck, ExternalDeclaration
from mirrorlake.models.show.external import ExternalSeen, observe
from mirrorlake.runtime.plural import plural

CLOCKS = timedelta(minutes=5)
"""A writer's clock may be ahead of ours by so much."""


@dataclass(frozen=True)
class ExternalVerdict:
    """What one check says.

    Attributes:
        verdict: ``late`` is past a warning, and before the failure.
    """

    check: ExternalCheck
    verdict: Literal["passed", "late", "failed", "undecided"]
    words: str


@dataclass(frozen=True)
class CheckedExternal:
    """A table as it is, and what its checks say of it."""

    seen: ExternalSeen
    verdicts: tuple[ExternalVerdict, ...]


def check_external(
    declared: ExternalDeclaration, lake: Lake, own: OwnPlaces, now: datetime
) -> CheckedExternal:
    """Look at a table and check it.

    Args:
        own: what it may not be, and the contract file.
        now: this moment (UTC).

    Raises:
        ModelError: it is not there; with the place in its file.
        LakeError, LandingError: the lake, the store or BigQuery can't be read.
    """
    look = compare_declared(declared, lake, own)
    seen, drift = _seen(look, lake)
    checks: Mapping[ExternalCheck, Callable[[], ExternalVerdict]] = {
        "contract": lambda: _contract(look, drift),
        "fresh": lambda: fresh_verdict(declared, seen, now),
        "row_count": lambda: row_count_verdict(declared, seen),
        "clean": lambda: _clean(look, own.config),
    }
    return CheckedExternal(seen, tuple(checks[name]() for name in declared.checks))


def _seen(look: ExternalLook, lake: Lake) -> tuple[ExternalSeen, Sequence[str]]:
    """What is seen of a table, and all that is otherwise than declared. Of Parquet each file is
    looked at, and where one is otherwise nobody counts rows."""
    drift = [one.message for one in look.drift]
    if look.table.folder is None or not drift:
        try:
            return observe(look.table, lake), drift
        except LandingError as error:
            if error.retryable:
                raise
            drift = [error.message]
    return observe(look.table, lake, counted=False), drift


def _contract(look: ExternalLook, drift: Sequence[str]) -> ExternalVerdict:
    if drift:
        return ExternalVerdict("contract", "failed", "; ".join(drift))
    words = f"{plural(len(look.table.declaration.columns), 'column')} as declared"
    if look.undeclared:
        words += f"; there and not declared: {', '.join(look.undeclared)}"
    return ExternalVerdict("contract", "passed", words)


def _clean(look: ExternalLook, config: Config | None) -> ExternalVerdict:
    if look.drift:
        words = "The table is not as declared: what its view shows is not compared"
        return ExternalVerdict("clean", "undecided", words)
    if wrong := store_of_format(look.table.declaration).find_other_view(look, config):
        words = f"{wrong}: mirrorlake external views makes it"
        return ExternalVerdict("clean", "failed", words)
    return ExternalVerdict("clean", "passed", "The view for readers is as declared")


def fresh_verdict(
    declared: ExternalDeclaration, seen: ExternalSeen, now: datetime
) -> ExternalVerdict:
    """Whether a table was written within its limit."""
    limit, written = declared.freshness, seen.changed_at
    if limit is None or written is None:
        return ExternalVerdict("fresh", "undecided", "Nothing says when it was last written")
    said = f"written {written:%Y-%m-%d %H:%M:%S} UTC"
    if written - now > CLOCKS:
        return ExternalVerdict("fresh", "undecided", f"{said}, which is yet to come: see clocks")
    age, first = now - written, limit.warn_after or limit.fail_after
    if age <= first:
        return ExternalVerdict("fresh", "passed", said)
    if seen.streamed is not None:
        words = f"{said}, or later: nothing says when the newest of the streamed rows came"
        return ExternalVerdict("fresh", "undecided", words)
    if age <= limit.fail_after:
        words = f"{said}, more than {format_duration(first)} ago"
        return ExternalVerdict("fresh", "late", words)
    words = f"{said}, more than {format_duration(limit.fail_after)} ago"
    return ExternalVerdict("fresh", "failed", words)


def row_count_verdict(declared: ExternalDeclaration, seen: ExternalSeen) -> ExternalVerdict:
    """Whether a table has as many rows as are declared at least."""
    wanted = declared.min_rows or 0
    if seen.rows is None:
        return ExternalVerdict("row_count", "undecided", "Its rows are not counted exactly")
    if seen.rows >= wanted:
        return ExternalVerdict("row_count", "passed", plural(seen.rows, "row"))
    if seen.streamed is not None:
        words = (
            f"{plural(seen.rows, 'row')}, and about {seen.streamed:,} streamed in that "
            f"are not counted"
        )
        return ExternalVerdict("row_count", "undecided", words)
    return ExternalVerdict(
        "row_count", "failed", f"{plural(seen.rows, 'row')}, fewer than {wanted:,}"
    )
