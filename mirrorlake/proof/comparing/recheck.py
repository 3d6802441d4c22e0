"""Candidates read again: a difference counts only if it survives a moving source.

The row is read from MySQL, from the newest version of the mirror, and from MySQL again. What MySQL
changed meanwhile, or so late that the mirror need not have it, is not decidable yet; a row that
MySQL wrote so late, and that the mirror lacks, waits. A row that MySQL does not have is extra at
any age: no load will bring it back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.ledger.records import Load
from mirrorlake.proof.comparing.unchanged_since_load import is_still
from mirrorlake.proof.coverage.days import days_of
from mirrorlake.proof.forms.differences import Difference, Differing, compare_counts, compare_rows
from mirrorlake.proof.forms.rows import Key, Row
from mirrorlake.proof.ranges.target import Target
from mirrorlake.proof.sides.mysql_side import SourceSide, changed_at
from mirrorlake.proof.sides.spark_side import LakeSide
from mirrorlake.sources.mysql.sessions.connect import read_position

CHANGING = "changed in MySQL while they were looked at"
_NEWER = "newer than the settle time"


@dataclass
class Rechecked:
    """What became of candidates: differences that are real, of which keys (a row without a key has
    none), and why others can't be decided yet. ``ignored``: rows that MySQL deleted, where that is
    no difference. ``waiting``: rows that MySQL wrote too late for the mirror to have them.
    ``days``: how many keys that differ have a row of a day, where a cursor gives it."""

    differences: list[Difference] = field(default_factory=list[Difference])
    keys: list[Differing] = field(default_factory=list[Differing])
    undecided: Counter[str] = field(default_factory=Counter[str])
    ignored: int = 0
    waiting: int = 0
    days: Counter[date] = field(default_factory=Counter[date])


def recheck(
    connection: Connection[Any],
    spark: Any,
    target: Target,
    source: SourceSide,
    lake: LakeSide,
    keys: Sequence[Key],
) -> Rechecked:
    """Recheck these keys; ``target`` and both sides are those of the newest mirror."""
    read = source.read_rows if target.key else source.read_by_digest
    before = read(connection, keys)
    # The server may know a requested key under other letters: then the lake's rows of both belong
    # together.
    own = {key: found[0].key for key, found in before.items()}
    together: dict[Key, list[Key]] = {}
    for key in keys:
        together.setdefault(own.get(key, key), []).append(key)
    mirrored = lake.read_rows(spark, sorted({*keys, *together}))
    after = read(connection, list(together))
    moved = moved_since(connection, target)
    # Nothing was written since the load, and nothing until both reads were done: no row is too new.
    still = target.scope.still and is_still(
        connection, target.source, target.table, target.mirror.load
    )
    rechecked = Rechecked()
    for key, requested in together.items():
        ours = before.get(requested[0], [])
        theirs = [row for k in dict.fromkeys((key, *requested)) for row in mirrored.get(k, [])]
        found = _compare(target, ours, theirs)
        if not found:
            continue
        reason = _undecidable(ours, after.get(key, []), moved, still=still)
        if reason == _NEWER:
            _wait(target, rechecked, found)
            found = _surplus(target, found)
        elif reason:
            rechecked.undecided[reason] += 1
            continue
        if not found:
            continue
        if not ours and target.contract.deletes == "ignore":
            rechecked.ignored += len(found)
        else:
            rechecked.differences += found
            rechecked.days.update(days_of(target, [*ours, *theirs]))
            if target.key:
                texts = tuple(dict.fromkeys((key, *requested)))
                rechecked.keys.append(Differing(texts, gone=not ours))
    return rechecked


def _compare(target: Target, ours: Sequence[Row], theirs: Sequence[Row]) -> list[Difference]:
    if target.key:
        return compare_rows(target.rows, target.key_names, ours, theirs)
    return compare_counts(target.rows, ours, theirs)


def _undecidable(before: Sequence[Row], after: Sequence[Row], moved: str, *, still: bool) -> str:
    if [row.forms for row in before] != [row.forms for row in after]:
        return CHANGING
    if not still and any(not row.settled for row in before):
        return _NEWER
    return moved


def _wait(target: Target, rechecked: Rechecked, found: Sequence[Difference]) -> None:
    """Of a row that MySQL wrote too late: it waits where the mirror lacks it, else it is open."""
    kinds = Counter(difference.kind for difference in found)
    rechecked.waiting += kinds["missing"]
    rechecked.undecided[_NEWER] += kinds["changed"] + (0 if target.key else kinds["extra"])
    rechecked.undecided += Counter()


def _surplus(target: Target, found: Sequence[Difference]) -> list[Difference]:
    """What is a difference at any age: no unique key of MySQL ever had two rows."""
    return [d for d in found if d.kind == "extra"] if target.key else []


def moved_since(connection: Connection[Any], target: Target) -> str:
    """Why a row's age is not known: it has no cursor, and its table may have changed since the
    load; '' where it can."""
    load = target.mirror.load
    if not (target.contract.copies or target.contract.by_log) or load.receipt is None:
        return ""
    position = read_position(connection).position
    if position and position == load.receipt.position:
        return ""
    moment = datetime.fromisoformat(load.receipt.moment)
    at: datetime | None = changed_at(connection, target.table)
    # Reported in whole seconds: the second of the load itself is not decided.
    if at is not None and at < moment.replace(microsecond=0, tzinfo=None) - timedelta(seconds=1):
        return ""
    return _since(target, load, at)


def _since(target: Target, load: Load, at: datetime | None) -> str:
    moment = load.receipt.moment[:19] if load.receipt else ""
    when = f"changed at {at} UTC" if at else "may have changed"
    what = "the log" if target.contract.by_log else "a full copy"
    return f"of {what} of {moment} UTC, and the table {when}: sync, then check again"
