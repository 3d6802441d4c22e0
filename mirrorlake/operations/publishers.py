"""Publishers outside of the lake: what the core asks of each capability that publishes tables.

What belongs here: the questions, and the form of their answers. What doesn't: publishing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from mirrorlake.capabilities import Seam
from mirrorlake.runtime.outcomes import Failures, Outcomes

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.ledger import Ledger
    from mirrorlake.proof.coverage.coverage import ProofStatus
    from mirrorlake.workspace import Leasable, Workspace


Loaded: TypeAlias = Mapping[str, Sequence[Any]]
"""By the name of a publisher, what became of each table."""


@dataclass(frozen=True)
class PublicationStatus:
    """A table's newest load into the place that a publisher loads.

    Attributes:
        state: ``pending``, ``success`` or ``errored``.
        version: the lake's version that it is of.
        job: what the ids of its jobs begin with.
        rows: of the table with it; bytes: of its files.
        submitted, completed: when it began, and ended (UTC, ISO).
        proved: what the newest check found equal to the lake (``as_of`` by our clock); None where
            it did not, or there was none.
        words: what people read of one that is there, and not proved; None: nothing more.
    """

    state: str
    version: int
    job: str
    rows: int | None
    bytes: int | None
    submitted: str
    completed: str | None
    error: str | None
    proved: ProofStatus | None = None
    words: str | None = None


@dataclass(frozen=True)
class RoundPublished:
    """What became of tables after a round of a follower.

    Attributes:
        failures: what failed, by table.
        waiting: tables of which something is left for a later round.
    """

    failures: Failures = field(default_factory=Failures)
    waiting: Sequence[str] = ()


@dataclass(frozen=True)
class Unsettled:
    """What a publisher loaded that is no mirrored table, and whose jobs may not be settled.

    Attributes:
        names: those of the names in question that are meant.
        found: what is to be settled.
        failures: what has jobs, and nobody may settle.
    """

    names: frozenset[str]
    found: Sequence[Leasable]
    failures: Failures


@dataclass(frozen=True)
class NamedVersion:
    """A table's version that is to be published under a name, beside what is published of it.

    Attributes:
        table: as the contract calls it.
        there: whether it is.
        reads: how it is read there, in SQL; '' where nobody may read it.
    """

    table: str
    there: bool
    reads: str


@dataclass(frozen=True)
class PublishedVersions:
    """What became of the tables whose versions are to be published under one name.

    Attributes:
        there: table → how its version is read there.
        missing: table → why it is not there, or not yet.
    """

    there: dict[str, str] = field(default_factory=dict[str, str])
    missing: dict[str, str] = field(default_factory=dict[str, str])


class Publisher(ABC):
    """Publishes tables in another place than the lake.

    Attributes:
        title: that place's name, for people.
    """

    title: str

    @abstractmethod
    def address(self, config: Config) -> str | None:
        """What stands before a table's namespace in that place; None where the file says none."""

    @abstractmethod
    def publish(self, config: Config, chosen: Sequence[Leasable]) -> Outcomes[Any]:
        """Publish those of some tables that are to be published; each result is a dataclass."""

    def publish_round(self, workspace: Workspace, chosen: Sequence[Leasable]) -> RoundPublished:  # noqa: ARG002 - for who does
        """Publish what a round of a follower loaded of some tables; by default that is left to
        syncs.

        Raises:
            LedgerError: the ledger failed.
        """
        return RoundPublished()

    def begin_named(  # noqa: B027 - most publish none
        self, config: Config, ledger: Ledger, name: str, versions: Mapping[str, int]
    ) -> None:
        """Write down that versions of deduped are to be published under a name, which the lake
        keeps until they are dropped; by default none ever is.

        Args:
            versions: by table.

        Raises:
            LedgerError: the ledger failed.
        """

    def publish_named(self, workspace: Workspace, name: str) -> PublishedVersions:  # noqa: ARG002 - the same
        """Publish what was written down of a name and is not there yet. One table that fails does
        not stop the others.

        Raises:
            LedgerError: the ledger failed.
        """
        return PublishedVersions()

    def drop_named(self, workspace: Workspace, name: str) -> None:  # noqa: B027 - the same
        """Take away what was published under a name.

        Raises:
            MirrorlakeError: it can't be; what is left goes when this is done again.
        """

    def named(self, ledger: Ledger) -> Mapping[str, Sequence[NamedVersion]]:  # noqa: ARG002 - the same
        """What was written down, by name.

        Raises:
            LedgerError: the ledger can't be read.
        """
        return {}

    @abstractmethod
    def print_published(self, done: Sequence[Any]) -> None:
        """What became of tables, for people."""

    @abstractmethod
    def settle(self, workspace: Workspace, contract: Leasable) -> str | None:
        """Settle what was submitted of a table, without waiting for it; nothing is loaded.

        Returns:
            The state of its newest load; None where there is none.

        Raises:
            MirrorlakeError: the publisher can't be asked.
        """

    @abstractmethod
    def unsettled(self, workspace: Workspace, names: Sequence[str]) -> Unsettled:
        """What else than mirrored tables may have to be settled: of these names; all without any.

        Raises:
            MirrorlakeError: one of these can't be.
        """

    @abstractmethod
    def statuses(
        self, config: Config, ledger: Ledger, names: Collection[str] | None
    ) -> Mapping[str, PublicationStatus]:
        """The newest load of each of these tables that has one; None: of what is no mirrored table.

        Raises:
            LedgerError: the ledger can't be read.
        """

    @abstractmethod
    def loaded(self, ledger: Ledger) -> Collection[str]:
        """The names of what was ever loaded.

        Raises:
            LedgerError: the ledger can't be read.
        """


PUBLISHERS: Final[Seam[Publisher]] = Seam("publishers")


def publish_all(config: Config, chosen: Sequence[Leasable]) -> tuple[Loaded, Failures]:
    """Publish tables wherever they are to be besides the lake; what became of each by publisher,
    and the failures by table."""
    loaded: dict[str, Sequence[Any]] = {}
    failures = Failures()
    for name, publisher in PUBLISHERS.added.items() if chosen else ():
        done = publisher.publish(config, chosen)
        failures += done.failures
        if done.results:
            loaded[name] = done.results
    return loaded, failures


def publish_round(workspace: Workspace, chosen: Sequence[Leasable]) -> RoundPublished:
    """Publish what a round of a follower loaded, wherever that is done by round.

    Raises:
        LedgerError: the ledger failed.
    """
    found = [one.publish_round(workspace, chosen) for one in PUBLISHERS] if chosen else []
    return RoundPublished(
        [failure for one in found for failure in one.failures],
        [name for one in found for name in one.waiting],
    )


def print_published(loaded: Loaded) -> None:
    """What became of tables in each publisher, for people."""
    for name, done in loaded.items():
        PUBLISHERS.added[name].print_published(done)


def settle_published(workspace: Workspace, contract: Leasable) -> dict[str, str | None]:
    """Settle what was submitted of a table, without waiting for it; nothing is loaded.

    Returns:
        By publisher, the state of its newest load there; None where there is none.

    Raises:
        MirrorlakeError: a publisher can't be asked.
    """
    return {name: one.settle(workspace, contract) for name, one in PUBLISHERS.added.items()}


def published_statuses(
    config: Config, ledger: Ledger, names: Collection[str]
) -> Callable[[str], dict[str, PublicationStatus | None]]:
    """What gives, of one of these tables, its newest load by publisher.

    Raises:
        LedgerError: the ledger can't be read.
    """
    found = {name: one.statuses(config, ledger, names) for name, one in PUBLISHERS.added.items()}
    return lambda table: {name: of_all.get(table) for name, of_all in found.items()}


def other_statuses(config: Config, ledger: Ledger) -> dict[str, dict[str, PublicationStatus]]:
    """The newest loads of what is no mirrored table: its name → by publisher.

    Raises:
        LedgerError: the ledger can't be read.
    """
    found: dict[str, dict[str, PublicationStatus]] = {}
    for publisher, one in PUBLISHERS.added.items():
        for name, status in one.statuses(config, ledger, None).items():
            found.setdefault(name, {})[publisher] = status
    return found
