"""What any service for batches must offer, and which batch is a run's."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import dagster as dg

BatchTask = Literal["sync", "backfill", "fold"]
TASKS: Mapping[str, BatchTask] = {"sync": "sync", "backfill": "backfill", "fold": "fold"}
BatchState = Literal["open", "succeeded", "failed"]
"""``failed`` is one that was cancelled, too."""
ATTEMPTS = 20
"""Of one run: it retries a few times at most."""


@dataclass(frozen=True)
class BatchWork:
    """What is done in a batch.

    Attributes:
        tables: whole names.
        first, last: of a backfill, its days (YYYY-MM-DD); "" as of the job `backfill_errored`.
        missing_too: of a backfill, whether days that were never requested are loaded, too.
    """

    task: BatchTask
    tables: tuple[str, ...]
    first: str = ""
    last: str = ""
    missing_too: bool = False

    def extras(self, config: str, secrets: dict[str, str]) -> dict[str, Any]:
        """Everything that is passed to the batch. These values are visible in its arguments, so
        secrets are passed by name."""
        return {"work": asdict(self), "config": config, "secrets": secrets}


class Batches(Protocol):
    """Where batches run."""

    @property
    def config(self) -> str:
        """Where the contract file is there."""
        ...

    @property
    def secrets(self) -> dict[str, str]:
        """Environment variable → the name under which a store of secrets keeps its value."""
        ...

    @property
    def poll_seconds(self) -> float:
        """How long is waited between two looks."""
        ...

    def look(self, name: str) -> BatchState | None:
        """How a batch stands; None of one that was never started.

        Raises:
            MirrorlakeError: it can't be told.
        """
        ...

    def start(self, name: str, arguments: list[str]) -> None:
        """Start a batch; nothing where one of that name is there.

        Raises:
            MirrorlakeError: it was refused, or nobody knows whether it was started.
        """
        ...

    def why(self, name: str) -> str:
        """Why a batch failed, in a few words."""
        ...

    def cancel(self, name: str) -> None:
        """End a batch that is open.

        Raises:
            MirrorlakeError: it can't be ended.
        """
        ...

    def messages(self, name: str) -> dg.PipesMessageReader:
        """Reads what a batch says, from its beginning, also where it was started before."""
        ...


def batch_of(batches: Batches, run_id: str) -> tuple[str, BatchState | None]:
    """The batch of a run and how it stands: the one that is open or succeeded, else the next name.

    So a retry reattaches to the batch of an earlier attempt, and starts a new one only if that
    failed.

    Raises:
        MirrorlakeError: it can't be told; nothing is started then.
    """
    for number in range(1, ATTEMPTS + 1):
        name = f"mirrorlake-{run_id}-{number}"
        state = batches.look(name)
        if state != "failed":
            return name, state
    raise dg.Failure(f"{ATTEMPTS} batches of this run failed", allow_retries=False)
