"""A cut looked at again: whether what was proved of it is still what its versions have.

MySQL is not asked. A version of a lake table never changes; but a file may be damaged or removed, a
tag may be moved, and clones may be written to.

What belongs here: verdicts on tables, keys and clones. What doesn't: how rows are digested again
(`mirrorlake.cuts.digests`).
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal, TypeAlias

import pyarrow as pa

from mirrorlake.cuts.digests import OtherForm, count_flagged, digest_again, digest_clean
from mirrorlake.cuts.evidence import CutEvidence, EvidenceOfCuts
from mirrorlake.cuts.ledger import Cut, CutKey, CutTable
from mirrorlake.cuts.orphans import KeyVersion, OriginalKept, count_orphans
from mirrorlake.cuts.report import GONE
from mirrorlake.cuts.shown import find_shown_otherwise
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import LakeTable
from mirrorlake.destinations.iceberg.tables.integrity import find_damage
from mirrorlake.errors import LakeDamaged, LakeError, MirrorlakeError
from mirrorlake.ledger import LayerProof
from mirrorlake.proof.comparing.report import code_version
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.runtime.outcomes import Outcome, Outcomes
from mirrorlake.runtime.plural import plural
from mirrorlake.schema.own_columns import DELETED_AT, ORIGINAL
from mirrorlake.workspace import Workspace

AgainVerdict: TypeAlias = Literal["as proved", "changed", "different", "not compared"]
KeyAgain: TypeAlias = Literal["as counted", "changed", "not compared"]
_UNDECIDED = ("string", "binary", "float", "double")
"""Types of the lake whose values may differ there and be equal to MySQL."""
_OF_THEN = {"deduped": "MySQL's digest of then", "clean": "as then"}
_NOTHING_KEPT = (
    "nothing was kept of its rows: the cut was made without --prove, or by an older release"
)


@dataclass(frozen=True)
class TableAgain:
    """A version of a cut, looked at again.

    Attributes:
        table, layer: whose it is.
        verdict: ``as proved`` where every row was read and has the digest that was kept,
            ``different`` where it has, and differed from MySQL when it was proved; ``changed``
            where its rows, its tag or a file are others, or gone; else ``not compared``.
        words: what was found.
        rows: that were read; None where none were.
        proved_rows: that were proved; None where nothing was kept.
        flagged: rows beside them that MySQL had deleted before (``deletes: flag``): nothing was
            kept of them, and they were not compared.
    """

    table: str
    layer: str
    verdict: AgainVerdict
    words: str
    rows: int | None = None
    proved_rows: int | None = None
    flagged: int = 0


@dataclass(frozen=True)
class KeyCounted:
    """A foreign key of a cut, counted again.

    Attributes:
        table, name: whose key it is, and what MySQL calls it.
        verdict: ``as counted``, ``changed``, or ``not compared``.
        words: what was found.
        orphans: rows without a parent now; None where that can't be said.
        before: when the cut was made; None where that could not be said.
    """

    table: str
    name: str
    verdict: KeyAgain
    words: str
    orphans: int | None
    before: int | None


@dataclass(frozen=True)
class CutAgain:
    """A cut, looked at again.

    Attributes:
        cut: its name.
        tables: each version of it, or those of one table.
        foreign_keys: between them.
        shown: what namespaces show otherwise that show this cut, in words.
        failures: tables that could not be looked at, and why.
    """

    cut: str
    tables: tuple[TableAgain, ...]
    foreign_keys: tuple[KeyCounted, ...]
    shown: tuple[str, ...]
    failures: tuple[tuple[str, MirrorlakeError], ...] = ()

    @property
    def verdict(self) -> AgainVerdict:
        """The gravest."""
        found = {*(t.verdict for t in self.tables), *(k.verdict for k in self.foreign_keys)}
        if "changed" in found or self.shown:
            return "changed"
        if "different" in found:
            return "different"
        return "not compared" if "not compared" in found or self.failures else "as proved"


def look_again(
    workspace: Workspace,
    cut: Cut,
    table: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> CutAgain:
    """Read every row of a cut's versions, or of one table's, and compare them with what was kept of
    them when they were proved. What was found of each is kept (`mirrorlake proof TABLE --layers`),
    that one could not be read as well.

    Args:
        say: told what was found of each.

    Raises:
        ConfigError: the cut has no such table, or several.
        LedgerError: the ledger can't be read.
        LakeError: the lake can't be opened.
    """
    chosen = cut.tables_called(table)
    kept = EvidenceOfCuts(workspace.ledger).of(cut.name)
    done = Outcomes[TableAgain]()
    for number, one in enumerate(chosen, 1):
        began, started = time.monotonic(), datetime.now(UTC)
        of_one = kept.get((one.table, one.layer))
        found = done.attempt(one.table, partial(_look, workspace, cut, one, of_one))
        words = found.result.verdict if found.result is not None else "failed"
        proof = _as_kept(cut, one, of_one, found, started, time.monotonic() - began)
        workspace.ledger.record_layer_proofs([proof])
        say(f"{number} of {len(chosen)}: {one.table} ({one.layer}): {words}")
    counting = _Counting(workspace, cut, {(t.table, t.layer): t for t in done.results})
    keys = cut.foreign_keys.keys if cut.foreign_keys is not None else ()
    counted = [counting.count(key) for key in keys if table in (None, key.table, key.parent)]
    shown = list[str]()
    try:
        shown = find_shown_otherwise(workspace.lake, cut)
    except MirrorlakeError as error:
        done.failures.append(("what shows the newest cut", error))
    again = (tuple(done.results), tuple(counted), tuple(shown), tuple(done.failures))
    return CutAgain(cut.name, *again)


# --- versions -------------------------------------------------------------------------------------


def _as_kept(
    cut: Cut,
    one: CutTable,
    kept: CutEvidence | None,
    found: Outcome[TableAgain],
    started: datetime,
    seconds: float,
) -> LayerProof:
    """What was found of a version, as the ledger keeps it."""
    again = found.result
    words = f"could not be read: {found.error}"
    rows, verdict = None, "undecided"
    if again is not None:
        words, rows = f"{again.verdict}: {again.words}", again.rows
        verdict = _KEPT_AS.get(again.verdict, "different")
    return LayerProof(
        check_id=uuid.uuid4().hex,
        table=one.table,
        layer=f"cut: {one.layer}",
        verdict=verdict,
        words=f"{cut.name}: {words}",
        compared="nothing" if rows is None else "every row",
        rows=rows or 0,
        digest="",
        expected_rows=kept.rows if kept is not None else rows or 0,
        expected_digest="",
        snapshots="" if one.snapshot_id is None else f"{one.identifier}: {one.snapshot_id}",
        through_seq=0,
        code=code_version(),
        started_at=started,
        seconds=round(seconds, 3),
    )


_KEPT_AS = {"as proved": "equal", "not compared": "undecided"}


def _look(workspace: Workspace, cut: Cut, one: CutTable, kept: CutEvidence | None) -> TableAgain:
    lake, proved_rows = workspace.lake, kept.rows if kept is not None else None

    flagged = 0

    def found(verdict: AgainVerdict, words: str, rows: int | None = None) -> TableAgain:
        if flagged:
            words += f"; {plural(flagged, 'flagged row')}, not compared"
        return TableAgain(one.table, one.layer, verdict, words, rows, proved_rows, flagged)

    if (wrong := _wrong_version(lake, cut, one)) is not None:
        return found("changed", wrong)
    try:
        again = digest_again(workspace, one, kept) if kept is not None else _count(workspace, one)
        flagged = count_flagged(lake, one, kept)
    except OtherForm:
        return found("not compared", "this release digests rows in another way: prove a new cut")
    except (MirrorlakeError, OSError, pa.ArrowException) as error:
        return found("changed", _damage(workspace.lake, one, error))
    if kept is None:
        return found("not compared", f"{plural(again.rows, 'row')}; {_NOTHING_KEPT}", again.rows)
    rows = plural(again.rows, "row")
    if again != Tally(kept.rows, kept.digest):
        number = f"{kept.rows:,} were proved" if again.rows != kept.rows else "with other values"
        return found("changed", f"{rows}, {number}", again.rows)
    if one.layer == "deduped" and one.proved != "equal":
        verdict = "different" if one.proved == "different" else "not compared"
        return found(verdict, f"{rows} as then: {one.proved}: {one.words}", again.rows)
    read = f"{rows}{', all read' * (not flagged)}"
    return found("as proved", f"{read}; {_OF_THEN[one.layer]}", again.rows)


def _wrong_version(lake: Lake, cut: Cut, one: CutTable) -> str | None:
    """What is wrong with a table's metadata, or the tag of a version there."""
    try:
        return _wrong_tag(lake.load(one.identifier), cut, one)
    except LakeDamaged as error:
        return str(error)


def _wrong_tag(table: LakeTable | None, cut: Cut, one: CutTable) -> str | None:
    """What is wrong with the tag of a version; None: it names what the ledger has."""
    if one.snapshot_id is None:
        return None  # it never had a row, and has no tag
    if table is None:
        return f"lake table {one.identifier} is not there"
    tag = table.metadata.refs.get(cut.tag)
    there = table.snapshot_by_id(one.snapshot_id) is not None
    if tag is None and not there:
        return GONE
    if tag is None:
        return f"its tag {cut.tag} is gone: version {one.snapshot_id} is there until it expires"
    if tag.snapshot_id != one.snapshot_id:
        gone = "" if there else ", which is there no more"
        return (
            f"its tag {cut.tag} names version {tag.snapshot_id}, and the cut is of version "
            f"{one.snapshot_id}{gone}"
        )
    return None if there else GONE


def _count(workspace: Workspace, one: CutTable) -> Tally:
    """Read every row of which nothing was kept."""
    found = digest_clean(workspace.lake, one)
    return Tally(found.rows, found.digest)


def _damage(lake: Lake, one: CutTable, error: Exception) -> str:
    """What keeps a version from being read, in words.

    Raises:
        MirrorlakeError: it is not the version: the catalog or the storage failed, or a file could
            not be read just now.
    """
    ours = isinstance(error, MirrorlakeError)
    if ours and (not isinstance(error, LakeError) or error.retryable):
        raise error
    damage = find_damage(lake, one.identifier, version=one.snapshot_id)
    if damage is not None:
        return str(damage)
    if not _is_of_decoding(error):
        raise error if ours else _unread(one, "can't be read", error) from error
    # Every file is there, and ends as it should: what one holds is wrong, or was read wrong.
    try:
        digest_clean(lake, one)
    except (LakeError, OSError, pa.ArrowException) as again:
        if _is_of_decoding(again):
            return f"a file of it can't be decoded: {again}"
        raise
    raise _unread(one, "could be read at the second try alone", error) from error


def _unread(one: CutTable, words: str, error: Exception) -> LakeError:
    return LakeError(
        f"lake table {one.identifier} {words}: {error}",
        table=one.table,
        next_step="Try again",
        retryable=True,
    )


def _is_of_decoding(error: Exception) -> bool:
    """Whether bytes could be read, and were none of Parquet's."""
    cause = error.__cause__ if isinstance(error, MirrorlakeError) else error
    if isinstance(cause, MemoryError):
        return False
    return isinstance(cause, pa.ArrowException) or (
        isinstance(cause, OSError) and cause.errno is None
    )


# --- keys -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counting:
    workspace: Workspace
    cut: Cut
    looked: Mapping[tuple[str, str], TableAgain]

    def count(self, key: CutKey) -> KeyCounted:
        """Rows without a parent, counted again."""

        def found(verdict: KeyAgain, words: str, orphans: int | None = None) -> KeyCounted:
            return KeyCounted(key.table, key.name, verdict, words, orphans, key.orphans)

        if key.orphans is None:
            return found("not compared", key.words or "it was not counted then")
        try:
            child, exact = self._version(key.table, key.columns)
            parent, _ = self._version(key.parent, key.parent_columns)
            orphans = count_orphans(self.workspace.lake, child, parent)
        except OriginalKept:
            return found("not compared", "a value of it has no place in the lake's type")
        except _NotThere as error:
            return found("not compared", str(error))
        except (MirrorlakeError, OSError, ValueError) as error:
            return found("not compared", f"it can't be counted: {error}")
        if orphans == key.orphans:
            return found("as counted", plural(orphans, "orphan"), orphans)
        if key.in_mysql is not None and not exact:
            return found("not compared", "MySQL's own count was taken: bytes alone don't decide")
        words = f"{plural(orphans, 'orphan')}, {key.orphans:,} when the cut was made"
        return found("changed", words, orphans)

    def _version(self, table: str, columns: Sequence[str]) -> tuple[KeyVersion, bool]:
        """A key's columns in the cut's version of a table; and whether its values are equal to
        MySQL exactly where the lake's are.

        Raises:
            _NotThere: they can't be read as they were.
        """
        one = next((o for o in self.cut.by_table.get(table, ()) if o.layer == "deduped"), None)
        looked = self.looked.get((table, "deduped"))
        if one is None or (looked is not None and looked.verdict == "changed"):
            raise _NotThere(f"{table} is not as it was")
        there = self.workspace.lake.load(one.identifier)
        if there is None or one.snapshot_id is None:
            none = KeyVersion(one.identifier, None, tuple(columns), originals=False, flags=False)
            return none, True
        schema = there.scan(snapshot_id=one.snapshot_id).projection()
        fields = {field.name.lower(): field for field in schema.fields}
        called = self._names(table)
        found = [fields.get(called.get(name.lower(), name.lower())) for name in columns]
        key = [field for field in found if field is not None]
        if len(key) < len(found):
            raise _NotThere(f"{table} has no such columns in the cut: {', '.join(columns)}")
        own = {field.name for field in schema.fields}
        names = tuple(field.name for field in key)
        version = KeyVersion(
            one.identifier, one.snapshot_id, names, ORIGINAL in own, DELETED_AT in own
        )
        return version, not any(str(field.field_type) in _UNDECIDED for field in key)

    def _names(self, table: str) -> dict[str, str]:
        """MySQL's name of a column → the lake's, both in small letters, where they differ."""
        contracts = (c for c in self.workspace.config.tables if c.name == table)
        return {
            before.lower(): now.lower()
            for contract in contracts
            for before, now in contract.lake_names.items()
        }


class _NotThere(Exception):
    """A version has not what its key has, or is not what was counted."""
