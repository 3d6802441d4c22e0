"""What a verdict is as of: the loads that its layer held when it looked. While the ledger has
recorded no other, the verdict is as true as it was, whatever is reported to Dagster meanwhile.

What belongs here: that note, in a verdict's metadata. What doesn't: showing a verdict again
(`dagster_mirrorlake.checks.shown_again`).
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

import dagster as dg

from dagster_mirrorlake.checks.series import BY_DAY, EXACT
from dagster_mirrorlake.table import Layer, MirroredTable
from dagster_mirrorlake.tenants import MirroredTenants
from mirrorlake.ledger import Ledger

if TYPE_CHECKING:
    from mirrorlake.workspace import Workspace

AS_OF = "as of"
"""The name of this among a verdict's metadata."""
_BY_LEDGER = ("gaps",)
"""Checks of requests, not of rows: a request that failed, or the next day, changes them."""
_NO_TIME = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class AsOf:
    """The state of a layer that a verdict is about.

    Attributes:
        contract: the digest of what the contract says of the layer.
        loads: how many loads the layer held; ``newest``: the number of the newest of them.
        requests: of a check of requests: the day, and what was requested until then; else ''.
        looked: when the look began (UTC, to the second).
        shown: of what is not made of loads: the snapshots that are published, the tenants' copies
            that are shown, the load into BigQuery.
        ledger, marked: as `mirrorlake.ledger.reports.reports.LayerContents` has them.
    """

    ledger: str
    contract: str
    loads: int
    newest: int
    marked: str
    requests: str
    looked: str
    shown: str = ""

    @classmethod
    def now(cls, ledger: Ledger, table: MirroredTable, layer: Layer, check: str) -> Self:
        """As the ledger has it; taken before a look, so that what comes meanwhile counts as
        later."""
        contract = table.contract
        stored = "deduped" if layer == "clean" and contract.clean == "view" else layer
        found = cls.of_stored(ledger, contract.name, stored, table.specs[layer].code_version)
        if check.removesuffix(BY_DAY) not in _BY_LEDGER:
            return found
        return found.requested(ledger.contents(contract.name, stored).attempt)

    @classmethod
    def of_tenants(cls, ledger: Ledger, tenants: MirroredTenants, check: str) -> Self:
        """As `now`, of deduped of a table of tenants."""
        from mirrorlake.operations.tenants.looks import read_look
        from mirrorlake.operations.tenants.reports import read_shown

        name = tenants.contract.name
        rules = [tenants.specs[layer].code_version for layer in ("deduped", "clean")]
        found = cls.of_stored(ledger, name, "deduped", digest_of(rules))
        shown = read_shown(ledger, name)
        if shown is not None:
            found = replace(found, shown=f"{shown.through} {shown.state}")
        if check == EXACT:
            return found
        look, refusal = read_look(ledger, tenants.contract), ledger.refusals().get(name)
        known = sorted(
            (one.source, one.database, one.state, one.error or "")
            for one in ledger.tenants(name).values()
        )
        seen = None if look is None else astuple(replace(look, at=_NO_TIME))
        return found.requested(digest_of([known, seen, refusal and refusal.error]))

    @classmethod
    def of_stored(cls, ledger: Ledger, name: str, stored: str, contract: str | None) -> Self:
        """Of a layer by the name that the ledger has it under.

        Args:
            contract: the digest of what the contract says of it.
        """
        held = ledger.contents(name, stored)
        return cls(
            ledger=held.ledger,
            contract=contract or "",
            loads=held.loads,
            newest=held.newest,
            marked=held.marked,
            requests="",
            looked=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        )

    def requested(self, what: object) -> Self:
        """The same, of a check of requests: what was requested until today."""
        return replace(self, requests=f"{datetime.now(UTC).date()} {what}")

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

    def noted(self, result: dg.AssetCheckResult) -> dg.AssetCheckResult:
        """A result that says what it is as of."""
        return result._replace(metadata={**(result.metadata or {}), **self.metadata})

    def is_state_of(self, other: "AsOf") -> bool:
        """Whether both are of one state, whenever either looked."""
        return replace(self, looked="") == replace(other, looked="")


def digest_of(what: object) -> str:
    return hashlib.sha256(json.dumps(what, default=str).encode()).hexdigest()[:16]


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
