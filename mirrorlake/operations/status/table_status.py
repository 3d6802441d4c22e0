"""The state of one table as `mirrorlake status` shows it, whatever kind it is of.

What belongs here: its fields. What doesn't: finding them (`mirrorlake.operations.status.status`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any

from mirrorlake.operations.publishers import PublicationStatus
from mirrorlake.proof.coverage.coverage import ProofStatus

NOT_KNOWN = "not known: it moved"
"""Of a table that other hands changed: what was proved of it was proved of other rows."""


@dataclass(frozen=True)
class TableStatus:
    """One table as the ledger and the catalog know it.

    Attributes:
        table, mode: as in the contract; of a model ``model dataset.name`` and ``model``.
        state: one word: ``never loaded``, the newest load's ``pending``, ``success`` or
            ``errored``, or ``refused`` where a sync failed since before it began a load; ``moved``
            where the lake is not as the last commit of ours left it. Of a table
            of mode ``snapshot`` its newest snapshot's. Of a table of tenants ``mirrored`` or
            ``partly`` once its newest load ended.
        last_load: when the newest load began (UTC, ISO), or when a snapshot was last published.
        rows: of the version of deduped that the catalog names; a version is counted once.
        freshness: how long ago MySQL was known to stand where the mirror stands: when the newest
            good load read it, or a later sync found it unchanged since. None of a table that moved:
            nobody knows where the mirror stands.
        unchanged: by what a sync found it unchanged since that load (``server``, ``table`` or
            ``digest``); None where none did.
        checks: what is known of folds, proofs and original texts, in words.
        error: why the newest load failed, or the sync was refused.
        refused_since: when the first refusal in a row was (UTC, ISO); None where none is.
        originals: values kept as original text by the newest good load, by column.
        held_until, held_for: until when (UTC, ISO) the source is to be left alone, and why; None
            where nobody requested it.
        held_columns: columns that clean leaves out until a person decides: new ones, and those that
            may have what another one had.
        not_mirrored: columns that the last load left out, by ``schema_changes: freeze``.
        suspected_pii: what looks personal in clean, by column without a rule.
        published: by publisher, what was loaded there last, or why the newest attempt failed;
            None where there was none.
        proved: what checks found equal to MySQL: `as_of` (MySQL's time, UTC), `rows`, `whole` (of
            all rows that were old enough), `waiting` (rows that were too new), and what has come
            since: `loads_since`, counted in `unit`. None where none did, or something since makes
            it unknown.
    """

    table: str
    mode: str
    state: str
    last_load: str | None
    rows: int | None
    freshness: timedelta | None
    checks: str
    error: str | None
    originals: dict[str, int]
    held_until: str | None = None
    held_for: str | None = None
    held_columns: tuple[str, ...] = ()
    not_mirrored: tuple[str, ...] = ()
    suspected_pii: dict[str, str] = field(default_factory=dict[str, str])
    unchanged: str | None = None
    refused_since: str | None = None
    published: Mapping[str, PublicationStatus | None] = field(
        default_factory=dict[str, PublicationStatus | None]
    )
    proved: ProofStatus | None = None

    def as_json(self) -> dict[str, Any]:
        """The same for programs, each publisher by its name."""
        found = asdict(self)
        return found | found.pop("published")
