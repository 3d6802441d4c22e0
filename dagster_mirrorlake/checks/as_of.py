"""What a verdict is as of: the loads that its layer held when it looked. While the ledger has
recorded no other, the verdict is as true as it was, whatever is reported to Dagster meanwhile.

What belongs here: that note, in a verdict's metadata. What doesn't: showing a verdict again
(`dagster_mirrorlake.checks.shown_again`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from dagster_mirrorlake.checks.series import BY_DAY
from dagster_mirrorlake.table import Layer, MirroredTable
from mirrorlake.ledger import Ledger

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace

AS_OF = "as of"
"""The name of this among a verdict's metadata."""
_BY_LEDGER = ("gaps",)
"""Checks of requests, not of rows: a request that failed, or the next day, changes them."""


@dataclass(frozen=True)
class AsOf:
    """The state of a layer that a verdict is about.

    Attributes:
        contract: the digest of what the contract says of the layer.
        loads: how many loads the layer held; ``newest``: the number of the newest of them.
        requests: of a check of requests: the day and the table's newest attempt; else ''.
        looked: when the look began (UTC, to the second).
        ledger, marked: as `mirrorlake.ledger.reports.LayerContents` has them.
    """

    ledger: str
    contract: str
    loads: int
    newest: int
    marked: str
    requests: str
    looked: str

    @classmethod
    def now(cls, ledger: Ledger, table: MirroredTable, layer: Layer, check: str) -> Self:
        """As the ledger has it; taken before a look, so that what comes meanwhile counts as
        later."""
        contract, at = table.contract, datetime.now(UTC)
        stored = "deduped" if layer == "clean" and contract.clean == "view" else layer
        held = ledger.contents(contract.name, stored)
        of_requests = check.removesuffix(BY_DAY) in _BY_LEDGER
        return cls(
            ledger=held.ledger,
            contract=table.specs[layer].code_version or "",
            loads=held.loads,
            newest=held.newest,
            marked=held.marked,
            requests=f"{at.date()} {held.attempt}" if of_requests else "",
            looked=f"{at:%Y-%m-%d %H:%M:%S} UTC",
        )

    @classmethod
    def read(cls, metadata: Mapping[str, Any]) -> Self | None:
        """What a verdict's metadata say; None where they say nothing."""
        try:
            return cls(**metadata[AS_OF].value)
        except (KeyError, AttributeError, TypeError):
            return None  # of an older release, or somebody else's

    @property
    def metadata(self) -> dict[str, Any]:
        """This, to be shown with a verdict."""
        return {AS_OF: dg.MetadataValue.json(asdict(self))}

    def is_state_of(self, other: "AsOf") -> bool:
        """Whether both are of one state, whenever either looked."""
        return replace(self, looked="") == replace(other, looked="")


class Watch:
    """The state of a layer while a check looks at it; begun before the look."""

    def __init__(
        self, workspace: "Workspace", table: MirroredTable, layer: Layer, check: str
    ) -> None:
        self._parts = (workspace.ledger, table, layer, check)
        self._run = workspace.run_id
        self._before = AsOf.now(*self._parts)

    def ended(self) -> AsOf:
        """The state that the verdict is about: what the look itself loaded (a sweep, a repair:
        compared again) is in it; what another run loaded meanwhile is not."""
        ledger, table, _, _ = self._parts
        before, now = self._before, AsOf.now(*self._parts)
        if now.loads == before.loads and now.newest == before.newest:
            return before
        runs = ledger.runs_since(table.contract.name, before.newest)
        if set(runs) != {self._run} or now.loads - before.loads != len(runs):
            return before
        return replace(before, loads=now.loads, newest=now.newest)
