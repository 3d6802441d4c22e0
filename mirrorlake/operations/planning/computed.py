"""What capabilities compute from mirrored tables, partition by partition: what the core asks of it.

The core loads and folds tables. What is computed from them, which of those partitions are due, and
what readers lose when a table changes, only the capability that computes can say. Without one,
nothing derives from a table.

What belongs here: the questions, and the form of their answers. What doesn't: computing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from mirrorlake.capabilities import Seam

if TYPE_CHECKING:
    from mirrorlake.config import Config
    from mirrorlake.destinations.iceberg.lake import Lake
    from mirrorlake.errors import ModelError
    from mirrorlake.ledger import Ledger
    from mirrorlake.operations.days.backfill_windows import WorkRequest
    from mirrorlake.operations.days.invalid import DayPeriod, InvalidRange
    from mirrorlake.operations.planning.planned_steps import PlannedStep
    from mirrorlake.operations.planning.reader_impacts import ModelImpact
    from mirrorlake.operations.schema_changes.altered_tables import AlteredCatalogue
    from mirrorlake.operations.upkeep.maintain import Ages, Maintained
    from mirrorlake.serving.catalogue import Catalogue
    from mirrorlake.workspace import Leasable, Workspace

PlannedChange = Literal["added", "unchanged", "changed", "breaking", "removed"]
CODES: Final[Mapping[PlannedChange, int]] = {
    "unchanged": 0,
    "added": 0,
    "changed": 10,
    "removed": 10,
    "breaking": 20,
}
"""What `mirrorlake plan` ends with."""


class PartitionWork(Protocol):
    """The partitions of one model that are to be computed."""

    @property
    def target(self) -> str: ...
    @property
    def count(self) -> int: ...
    def first(self, count: int) -> Self:
        """So many of them, the first ones."""
        ...


@dataclass(frozen=True)
class FoundPartitions:
    """What is to be computed.

    Attributes:
        works: each after those that it reads.
        ranges: days of tables that were declared invalid together with some of it: they are loaded
            and folded first.
        warnings: of what was declared invalid, and is there no more or stays.
    """

    works: Sequence[PartitionWork] = ()
    ranges: Sequence[InvalidRange] = ()
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class ModelFilled:
    """What became of the partitions of one model.

    Attributes:
        computed: how many were computed; ``rows`` and ``seconds`` are theirs.
        unchanged: how many needed nothing any more.
        waiting: how many were left out, because what they read is not there yet.
        error: what stopped it, or what they wait for; None where it went well.
        code: the error's exit code, 0 where it went well.
    """

    model: str
    computed: int
    unchanged: int
    waiting: int
    rows: int
    seconds: float
    error: str | None
    code: int


@dataclass(frozen=True)
class ModelChange:
    """What became of one model since it was run last.

    Attributes:
        words: what changed of it, one thing each.
        readers: where models read what breaks: ``file:line:column: model reads column``.
    """

    model: str
    change: PlannedChange
    words: tuple[str, ...] = ()
    readers: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlannedModels:
    """What files change of what was run.

    Attributes:
        facts: by model that compiles, what programs get of it beside its change.
        problems: all for which models do not compile.
    """

    changes: Sequence[ModelChange]
    facts: Mapping[str, Mapping[str, Any]]
    problems: Sequence[ModelError]


@dataclass(frozen=True)
class Unreadable:
    """What does not compile as it is, and may read some tables; and what to do."""

    words: str
    next_step: str


@dataclass(frozen=True)
class NamedPartitions:
    """What somebody names to declare it invalid.

    Attributes:
        values: name → value of its partitions.
        first, last: days, both included; None: without an end there.
    """

    name: str
    values: Mapping[str, str] = field(default_factory=dict[str, str])
    first: date | None = None
    last: date | None = None


class Computed(ABC):
    """What one capability computes, as its files are now; compiled once."""

    @classmethod
    @abstractmethod
    def names(cls, config: Config, name: str) -> bool:
        """Whether there is a file of this name, whatever is in it."""

    @classmethod
    @abstractmethod
    def used(cls, config: Config) -> bool:
        """Whether there is anything beside this contract file."""

    @classmethod
    @abstractmethod
    def open(
        cls, config: Config, ledger: Ledger, lake: Lake, catalogue: Catalogue | None = None
    ) -> Self:
        """Compile everything; of what does not compile the reasons are in `problems`.

        Args:
            catalogue: the mirror's tables, where somebody has looked at them.

        Raises:
            LakeError: the lake can't be read.
        """

    @classmethod
    @abstractmethod
    def maintenance(
        cls, workspace: Workspace, names: Sequence[str], ages: Ages | None = None
    ) -> Iterator[tuple[str, Callable[[], list[Maintained]]]]:
        """The lake tables of these (all without any), each by its name with what compacts, expires
        and cleans up."""

    @property
    @abstractmethod
    def problems(self) -> Sequence[ModelError]:
        """Why files do not compile, and what reads them."""

    # --- which partitions are due -----------------------------------------------------------------

    @abstractmethod
    def with_days(self, first: date | None, last: date | None) -> tuple[str, ...]:
        """What has partitions of some days; all of it where no day is meant."""

    @abstractmethod
    def find(self, request: WorkRequest) -> FoundPartitions:
        """What is to be computed of what is requested, and what that waits for.

        Raises:
            ModelError: the request can't be meant.
            LakeError, LedgerError: they can't be read.
        """

    @abstractmethod
    def plan(self, works: Iterable[PartitionWork], today: date) -> Iterator[PlannedStep]:
        """What those of some works that are its own are expected to take."""

    @abstractmethod
    def run(
        self,
        workspace: Workspace,
        works: Iterable[PartitionWork],
        watch: Callable[[object], None],
    ) -> list[ModelFilled]:
        """Compute those of some works that are its own, after their tables were loaded and folded:
        with what they wait for now.

        Raises:
            LakeError, LedgerError: they can't be read.
        """

    @abstractmethod
    def published(self, names: Iterable[str]) -> Sequence[Leasable]:
        """Those of some that are published elsewhere than in the lake, as publishers know them."""

    # --- what derives from something --------------------------------------------------------------

    @abstractmethod
    def declared(
        self, target: NamedPartitions, choice: str
    ) -> tuple[str, Mapping[str, tuple[str, ...]]] | None:
        """Its own name of what is named, and by model the partitions to be declared invalid, its
        own first; None where no file has this name.

        Args:
            choice: as for `derived`.

        Raises:
            ModelError: it can't be declared invalid.
        """

    @abstractmethod
    def derived(
        self, tables: frozenset[str], days: DayPeriod, choice: str
    ) -> Mapping[str, tuple[str, ...]]:
        """By model, its partitions that derive from some days of a mirrored table.

        Args:
            tables: its names in the lake, in lower case: deduped and clean.
            choice: ``all``; ``direct``; ``none``; or names, separated by commas.

        Raises:
            ModelError: it can't be said, or a chosen one does not derive from it.
        """

    # --- what a change means to readers -----------------------------------------------------------

    @abstractmethod
    def planned(self) -> PlannedModels:
        """What the files change of what was run last.

        Raises:
            LakeError, LedgerError: they can't be read.
        """

    @abstractmethod
    def impacts(self, altered: AlteredCatalogue, *, costs: bool = False) -> list[ModelImpact]:
        """What becomes of what reads tables with other columns.

        Args:
            costs: whether to say what computing it again takes.
        """

    @abstractmethod
    def readers(self, tables: Sequence[str]) -> Iterator[tuple[str, str, str]]:
        """Where some lake tables are read: ``file:line:column``, by whom, and which table."""

    @abstractmethod
    def unreadable(self, tables: Sequence[str]) -> Iterator[Unreadable]:
        """What does not compile as it is, and may read one of these tables."""


COMPUTED: Final[Seam[type[Computed]]] = Seam("computed")


def is_computed(config: Config, name: str) -> bool:
    """Whether something is computed under this name: no table is meant then."""
    return any(one.names(config, name) for one in COMPUTED)


def open_computed(
    config: Config, ledger: Ledger, lake: Lake, catalogue: Catalogue | None = None
) -> list[Computed]:
    """Everything that is computed from mirrored tables.

    Raises:
        LakeError: the lake can't be read.
    """
    return [one.open(config, ledger, lake, catalogue) for one in COMPUTED]
