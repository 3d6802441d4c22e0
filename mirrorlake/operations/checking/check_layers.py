"""Raw and clean proved: raw's files against what their loads recorded, clean against deduped.

What belongs here: the verdict on a layer, in words, and its row in the ledger. What doesn't: how a
layer is compared (`mirrorlake.load.raw.raw_files`, `mirrorlake.proof.clean.clean`,
`mirrorlake.serving.views`). Deduped is proved against MySQL by `mirrorlake.proof`.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from shlex import quote
from typing import Any

from mirrorlake.config import TableContract
from mirrorlake.destinations.iceberg.tables.integrity import damage_errors
from mirrorlake.ledger import LayerProof
from mirrorlake.load.raw.raw_proof import RawLook, prove_raw
from mirrorlake.operations.loading.resolve import resolve_table
from mirrorlake.proof.clean.clean import prove_clean
from mirrorlake.proof.comparing.evidence import formatter_of
from mirrorlake.proof.comparing.report import code_version
from mirrorlake.proof.forms.differences import Formatter
from mirrorlake.runtime.plural import plural
from mirrorlake.serving.versions import find_lag, raw_views
from mirrorlake.serving.views import clean_view, find_replaced
from mirrorlake.sources.mysql.sessions.connect import session
from mirrorlake.table.columns.new_columns import held_now
from mirrorlake.table.resolve import ResolvedTable
from mirrorlake.workspace import Workspace

SHOWN = 20
"""Files or rows that differ and are named, at most."""
NOT_LOOKED_AT = "not looked at"
_DRIFT = "MySQL's columns changed since the load: sync first"


@dataclass(frozen=True)
class LayerReport:
    """The verdict on one layer; ``lines`` name files, or rows by their keys; ``next_step`` says
    what to do where it is not equal."""

    proof: LayerProof
    lines: tuple[str, ...]
    next_step: str

    @property
    def verdict(self) -> str:
        return self.proof.verdict


@dataclass(frozen=True)
class _Found:
    """A layer's verdict before it is written down."""

    verdict: str
    words: str
    compared: str
    rows: int = 0
    digest: str = ""
    expected_rows: int = 0
    expected_digest: str = ""
    snapshots: Mapping[str, int | None] | None = None
    through: int = 0
    lines: tuple[str, ...] = ()
    next_step: str = ""


def prove_layers(
    workspace: Workspace, contract: TableContract, *, show_pii: bool = False
) -> tuple[LayerReport, LayerReport]:
    """Prove raw and clean of a table as a whole, and keep the verdicts.

    Raises:
        SourceError: MySQL could not be queried for the table's columns.
        LakeError: a layer can't be read.
        LedgerError: the ledger can't be read or written.
    """
    with damage_errors(workspace.lake, workspace.ledger, contract):
        return (
            prove_raw_layer(workspace, contract),
            prove_clean_layer(workspace, contract, show_pii=show_pii),
        )


def worst(*verdicts: str) -> str:
    """The verdict on all of several layers."""
    for verdict in ("different", "undecided"):
        if verdict in verdicts:
            return verdict
    return "equal"


def prove_raw_layer(
    workspace: Workspace, contract: TableContract, *, most_bytes: int | None = None
) -> LayerReport:
    """Prove that raw's files are those that its loads wrote, and that its view is the one it should
    be; and keep the verdict.

    Args:
        most_bytes: about how many bytes of files are read at most; None: all of them.
    """

    def look() -> _Found:
        found = _of_raw(
            prove_raw(
                workspace.lake,
                workspace.ledger,
                contract,
                most_bytes=most_bytes,
                run_id=workspace.run_id,
            )
        )
        if not workspace.ledger.folded_loads(contract.name, "deduped"):
            return found  # a view is made by the first fold
        return _with_raw_view(workspace, contract, found)

    return _kept(workspace, contract, "raw", look)


def prove_clean_layer(
    workspace: Workspace, contract: TableContract, *, show_pii: bool = False
) -> LayerReport:
    """Prove that clean shows exactly deduped's rows by the contract's rules, and keep the verdict.

    Args:
        show_pii: whether keys with a rule are written out in ``lines``.
    """

    def look() -> _Found:
        if not workspace.ledger.folded_loads(contract.name, "deduped"):
            return _Found("undecided", "nothing is folded yet: sync first", "nothing")
        if contract.clean == "table":
            return _of_clean_table(
                workspace, contract, formatter_of(workspace.config, contract, shown=show_pii)
            )
        return _of_clean_view(workspace, contract)

    return _kept(workspace, contract, "clean", look)


def _kept(
    workspace: Workspace, contract: TableContract, layer: str, look: Callable[[], _Found]
) -> LayerReport:
    started, clock = datetime.now(UTC), time.monotonic()
    found = look()
    proof = LayerProof(
        check_id=uuid.uuid4().hex,
        table=contract.name,
        layer=layer,
        verdict=found.verdict,
        words=found.words,
        compared=found.compared,
        rows=found.rows,
        digest=found.digest,
        expected_rows=found.expected_rows,
        expected_digest=found.expected_digest,
        snapshots=", ".join(f"{k}: {v}" for k, v in sorted((found.snapshots or {}).items())),
        through_seq=found.through,
        code=code_version(),
        started_at=started,
        seconds=round(time.monotonic() - clock, 3),
    )
    workspace.ledger.record_layer_proofs([proof])
    return LayerReport(proof, found.lines, found.next_step if found.verdict != "equal" else "")


# --- raw ------------------------------------------------------------------------------------------


def _of_raw(look: RawLook) -> _Found:
    words = (
        [f"{plural(len(look.found), 'file is', 'files are')} not what their loads wrote"]
        if look.found
        else []
    )
    if look.unsettled:
        words.append("raw holds a load that is not settled: sync, or recover, first")
    if look.unknown:
        words.append(
            f"{plural(look.unknown, 'file')} of {look.unknown_loads:,} loads are "
            f"unknown: no checksum of them "
            "was recorded"
        )
    if look.read < look.files - look.unknown and not look.found:
        words.append(
            f"{plural(look.files - look.unknown - look.read, 'file was', 'files were')} not "
            f"read this time"
        )
    return _Found(
        verdict=look.verdict,
        words="; ".join(words),
        compared=f"{plural(look.files, 'file')}, {plural(look.rows, 'row version')}, "
        f"{look.bytes:,} bytes; "
        f"{plural(look.read, 'file')} read byte by byte",
        rows=look.rows,
        digest=look.digest,
        expected_rows=look.rows,
        expected_digest=look.expected,
        snapshots=look.snapshots,
        lines=tuple(f"raw: {one}" for one in look.found[:SHOWN]),
        next_step="Put the files back from a backup, take foreign ones out: docs/proof-of-layers.md"
        if look.found
        else "",
    )


def _with_raw_view(workspace: Workspace, contract: TableContract, found: _Found) -> _Found:
    """What was found, and what is wrong with the view over raw, or the table in its place."""
    plan = _plan(workspace, contract)
    if not _is_current(workspace, plan):
        return found
    if contract.versions == "table":
        wrong = find_lag(workspace, plan)
        return found if wrong is None else _with_wrong_table(workspace, plan, found, wrong)
    for name, wanted in raw_views(plan, workspace.ledger, workspace.lake).items():
        if wrong := find_replaced(workspace.lake, name, wanted):
            return _with_wrong_view(workspace, contract, found, f"view {name} {wrong}")
    return found


def _with_wrong_table(
    workspace: Workspace, plan: ResolvedTable, found: _Found, wrong: str
) -> _Found:
    words = f"table {plan.raw_view} of all versions {wrong}"
    step = f"`mirrorlake refold {quote(plan.name)}` makes it again"
    return _with_wrong(workspace, plan.contract, found, words, step)


def _with_wrong_view(
    workspace: Workspace, contract: TableContract, found: _Found, words: str
) -> _Found:
    step = f"`mirrorlake sync {quote(contract.name)}` makes the view again"
    return _with_wrong(workspace, contract, found, words, step)


def _with_wrong(
    workspace: Workspace, contract: TableContract, found: _Found, words: str, step: str
) -> _Found:
    # A run that holds the table may be about to make it.
    verdict = "undecided" if workspace.ledger.is_held(contract.name) else "different"
    steps = [found.next_step, step]
    return replace(
        found,
        verdict=worst(found.verdict, verdict),
        words="; ".join(filter(None, [found.words, words])),
        lines=(*found.lines, words),
        next_step="; ".join(filter(None, steps)),
    )


def _plan(workspace: Workspace, contract: TableContract) -> ResolvedTable:
    with session(workspace.config.sources[contract.source], contract.database) as connection:
        return resolve_table(workspace, contract, connection)


def _is_current(workspace: Workspace, plan: ResolvedTable) -> bool:
    """Whether the lake was made by the columns that MySQL has now."""
    versions = workspace.ledger.schema_versions(plan.name)
    return bool(versions) and versions[-1] == plan.version


# --- clean ----------------------------------------------------------------------------------------


def _of_clean_table(workspace: Workspace, contract: TableContract, formatter: Formatter) -> _Found:
    key = workspace.config.privacy.hash_key
    held = held_now(workspace.ledger, workspace.lake, contract)
    secret = key.get_secret_value().encode() if key else None
    look = prove_clean(workspace.lake, workspace.ledger, contract, secret, held)
    words = list(look.words)
    if look.missing:
        rows = plural(look.missing, "row of deduped is", "rows of deduped are")
        words.append(f"{rows} not in clean as its rules show them")
    if look.extra:
        rows = plural(look.extra, "row of clean is", "rows of clean are")
        words.append(f"{rows} none that the rules make of deduped's")
    return _Found(
        verdict=look.verdict,
        words="; ".join(words),
        compared="every row and column with deduped's, by the contract's rules",
        rows=look.found.rows,
        digest=f"{look.found.digest:024x}",
        expected_rows=look.expected.rows,
        expected_digest=f"{look.expected.digest:024x}",
        snapshots=look.snapshots,
        through=look.through,
        lines=tuple(difference.line(formatter) for difference in look.differences[:SHOWN]),
        next_step=f"`mirrorlake refold {quote(contract.name)}` makes clean again from raw"
        if look.verdict == "different"
        else "",
    )


def _of_clean_view(workspace: Workspace, contract: TableContract) -> _Found:
    plan = _plan(workspace, contract)
    found = _Found("equal", "", "the view's definition and its columns' names with the contract's")
    if not _is_current(workspace, plan):
        return _Found("undecided", _DRIFT, found.compared)
    wrong = find_replaced(workspace.lake, plan.clean, clean_view(plan))
    if wrong is None:
        return found
    return _with_wrong_view(workspace, contract, found, f"view {plan.clean} {wrong}")


def summary(report: LayerReport) -> dict[str, Any]:
    """A layer's verdict for programs."""
    proof = report.proof
    return {
        "layer": proof.layer,
        "verdict": proof.verdict,
        "words": proof.words,
        "compared": proof.compared,
        "rows": proof.rows,
        "expected_rows": proof.expected_rows,
        "digest": proof.digest,
        "expected_digest": proof.expected_digest,
        "differences": list(report.lines),
        "next_step": report.next_step,
        "seconds": proof.seconds,
    }
