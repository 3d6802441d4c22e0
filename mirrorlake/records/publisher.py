"""Records, as the core knows who publishes tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from typing_extensions import override

from mirrorlake.config import Config, TableContract
from mirrorlake.ledger import Ledger
from mirrorlake.operations.publishers import (
    PublicationStatus,
    Publisher,
    RoundPublished,
    Unsettled,
)
from mirrorlake.records.config import RecordsConfig
from mirrorlake.records.ledger import RecordPlaces, RecordProgress
from mirrorlake.runtime.outcomes import Outcomes

if TYPE_CHECKING:
    from mirrorlake.records.publish import RecordsPublished
    from mirrorlake.workspace import Leasable, Workspace


class _Records(Publisher):
    title = "records"

    @override
    def address(self, config: Config) -> str | None:
        return None

    @override
    def publish(self, config: Config, chosen: Sequence[Leasable]) -> Outcomes[RecordsPublished]:
        tables = _with_records(config, chosen)
        if not tables:
            return Outcomes()  # a sync of none imports nothing of what publishes
        from mirrorlake.records.publish import publish_tables
        from mirrorlake.workspace import Workspace

        with Workspace.open(config) as workspace:
            return publish_tables(workspace, tables)

    @override
    def publish_round(self, workspace: Workspace, chosen: Sequence[Leasable]) -> RoundPublished:
        tables = _with_records(workspace.config, chosen)
        if not tables:
            return RoundPublished()
        from mirrorlake.records.publish import publish_tables

        done = publish_tables(workspace, tables)
        waiting = [one.table for one in done.results if one.state in ("waiting", "busy")]
        return RoundPublished(done.failures, waiting)

    @override
    def print_published(self, done: Sequence[RecordsPublished]) -> None:
        from mirrorlake.records.cli import print_published

        print_published(done)

    @override
    def settle(self, workspace: Workspace, contract: Leasable) -> str | None:
        """Nothing runs elsewhere: what a run left that died, the next one publishes."""
        return None

    @override
    def unsettled(self, workspace: Workspace, names: Sequence[str]) -> Unsettled:
        return Unsettled(frozenset(), (), [])

    @override
    def statuses(
        self, config: Config, ledger: Ledger, names: Collection[str] | None
    ) -> Mapping[str, PublicationStatus]:
        section, found = config.section(RecordsConfig), dict[str, list[RecordProgress]]()
        # A destination that the contract has no more has no status: what failed there stands in the
        # ledger, for the day that it comes back.
        going = {one.name: section.of_table(one) for one in config.tables} if names else {}
        for (table, place), one in RecordPlaces(ledger).of_tables(names).items() if names else ():
            if place in going.get(table, ()):
                found.setdefault(table, []).append(one)
        return {table: _status(several) for table, several in found.items()}

    @override
    def loaded(self, ledger: Ledger) -> Collection[str]:
        return ()


RECORDS: Final = _Records()


def _with_records(config: Config, chosen: Sequence[Leasable]) -> list[TableContract]:
    """Those of some tables whose records go anywhere."""
    section = config.section(RecordsConfig)
    tables = (one for one in chosen if isinstance(one, TableContract))
    return [one for one in tables if section.of_table(one)] if section.destinations else []


def _status(several: Sequence[RecordProgress]) -> PublicationStatus:
    """What a table's destinations have, of that which is least far: one that failed, if any did."""
    one = min(several, key=lambda each: (each.error is None, each.seq))
    ended, failed = _text(one.published_at), _text(one.failed_at)
    shown = ", ".join(
        f"{each.destination}: {each.records:,} through load {each.seq}"
        + (f" at {each.position}" if each.position else "")
        for each in sorted(several, key=lambda each: each.destination)
    )
    return PublicationStatus(
        state="errored" if one.error else "success",
        version=one.seq,
        job=one.destination,
        rows=sum(each.records for each in several),
        bytes=None,
        submitted=failed or ended or "",
        completed=ended,
        error=f"{one.destination}: {one.error}" if one.error else None,
        words=shown,
    )


def _text(at: datetime | None) -> str | None:
    return at.isoformat(timespec="seconds") if at is not None else None
