"""A cut's tables compared with MySQL as it was at the cut's place, while it is written to.

Both sides stand still: MySQL's is a session whose snapshot was taken at that place, the lake's the
versions that the cut names. So every row is compared, none waits, and no difference can pass.

What belongs here: the comparison. What doesn't: how rows are digested (`mirrorlake.proof.sides`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config import TableContract
from mirrorlake.cuts.digests import digest_clean, evidence_of
from mirrorlake.cuts.evidence import EvidenceOfCuts
from mirrorlake.cuts.ledger import Cut, CutTable
from mirrorlake.destinations.iceberg.spark.errors import spark_errors
from mirrorlake.errors import MirrorlakeError
from mirrorlake.proof.comparing.compare import MOST_ROWS
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.proof.comparing.resolve import resolve_target
from mirrorlake.proof.comparing.sides import Sides, sides_of
from mirrorlake.proof.forms.rows import Key
from mirrorlake.proof.ranges.keys import parts_of
from mirrorlake.proof.ranges.ranges import NOTHING, Range, Tally, total
from mirrorlake.proof.ranges.scope import ALL
from mirrorlake.proof.sides.local_side import digest_locally
from mirrorlake.runtime.plural import plural
from mirrorlake.sources.mysql.reading.limits import reading
from mirrorlake.workspace import Workspace


def prove_table(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    cut: Cut,
    one: CutTable,
) -> CutTable:
    """Compare every row of a table's deduped at a cut; what was found. Of tables larger than
    `MOST_ROWS` that differ, only how many rows each side has. The digest of the lake's rows is
    kept, so that it can be seen later whether they are the same. Of a clean table, that is all.

    Args:
        connection: a session that sees MySQL as it was at the cut's place.
    """
    try:
        if one.layer != "deduped":
            found = digest_clean(workspace.lake, one)
            EvidenceOfCuts(workspace.ledger).keep(cut.name, one.table, one.layer, found)
            return one
        return _prove(workspace, contract, connection, cut, one)
    except MirrorlakeError as error:
        return replace(one, proved="not compared", words=str(error))


def _prove(
    workspace: Workspace,
    contract: TableContract,
    connection: Connection[Any],
    cut: Cut,
    one: CutTable,
) -> CutTable:
    target = resolve_target(workspace, contract, connection)
    mirror = replace(target.mirror, snapshot=one.snapshot_id)
    target = replace(target, mirror=mirror, scope=ALL)
    sides = sides_of(target, Ask())
    with reading(target.source):
        groups = sides.source.read_groups(connection, sides.source.groups_sql("0"))
    ours = groups.get(0, NOTHING)
    local = digest_locally(workspace.lake, target, parts_of(target), Range(), [])
    # What DuckDB does not call equal is Spark's to say.
    alike = local is not None and local.tally == ours
    theirs = ours if alike else _by_spark(workspace, sides)
    kept = evidence_of(target, theirs)
    EvidenceOfCuts(workspace.ledger).keep(cut.name, one.table, one.layer, kept)
    rows, keeps = plural(ours.rows, "row"), contract.deletes == "ignore"
    if ours == theirs:
        return replace(one, proved="equal", words=f"{rows}, all compared")
    if max(ours.rows, theirs.rows) > MOST_ROWS:
        found = f"{rows} in MySQL, {theirs.rows:,} in the lake"
        if keeps:
            found += ": too many to tell which are only in the mirror (deletes: ignore)"
        return replace(one, proved="not compared" if keeps else "different", words=found)
    missing, extra, changed = _differences(workspace, connection, sides)
    if keeps and not missing and not changed:
        kept = f"{rows}, all compared; {extra:,} are only in the mirror (deletes: ignore)"
        return replace(one, proved="equal", words=kept)
    found = f"{missing:,} missing, {extra:,} extra, {changed:,} changed"
    return replace(one, proved="different", words=f"{found} of {rows}")


def _by_spark(workspace: Workspace, sides: Sides) -> Tally:
    with spark_errors(sides.target.name):
        return total(sides.lake.read_groups(workspace.spark.get(), sides.lake.groups_sql("0")))


def _differences(
    workspace: Workspace, connection: Connection[Any], sides: Sides
) -> tuple[int, int, int]:
    """How many rows are missing in the lake, extra there, and others under the same key."""
    with reading(sides.target.source):
        ours = Counter(sides.source.read_digests(connection, sides.source.digests_sql()))
    with spark_errors(sides.target.name):
        spark = workspace.spark.get()
        theirs = Counter(sides.lake.read_digests(spark, sides.lake.digests_sql()))
    left, beyond = _by_key(ours - theirs), _by_key(theirs - ours)
    changed = sum(min(number, beyond[key]) for key, number in left.items())
    return left.total() - changed, beyond.total() - changed, changed


def _by_key(rows: Counter[tuple[Key, int]]) -> Counter[Key]:
    found: Counter[Key] = Counter()
    for (key, _), number in rows.items():
        found[key] += number
    return found
