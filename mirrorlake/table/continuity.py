"""Whether the next load of a table continues its history, reads everything again, or begins again.

Before anything is read, three things are compared with what the newest load's receipt says: what
its contract and its key mean (`mirrorlake.table.meaning`), which table its name means
(`mirrorlake.sources.mysql.introspection.identity`), and whether keys are given out again that a
window has passed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pymysql.connections import Connection

from mirrorlake.config.contract import TableContract
from mirrorlake.errors import ConfigError
from mirrorlake.ledger.records import Load, Receipt, Window
from mirrorlake.ledger.store import Ledger
from mirrorlake.schema.reserved_names import UNREADABLE
from mirrorlake.sources.mysql.introspection.identity import (
    Identity,
    Sign,
    filled_partitions,
    read_identity,
    why_another,
)
from mirrorlake.sources.mysql.sessions.connect import rows_of
from mirrorlake.sources.mysql.tables import quote
from mirrorlake.sources.mysql.types.collations import is_collated
from mirrorlake.table.ddl import definition_of, silent_changes
from mirrorlake.table.key_forms import key_form
from mirrorlake.table.meaning import (
    Meaning,
    carried,
    changes_between,
    meaning_of,
    recorded_meaning,
    strongest,
    words_of,
)
from mirrorlake.table.resolve import ResolvedTable, by_time

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Continuity:
    """What the next load is to a table's history.

    Attributes:
        meaning: what its rows mean.
        identity: of the table, just before it is read.
        whole: whether it must read the whole table.
        begins: whether a new history begins with it: no fold reaches behind it.
        elsewhere: whether its raw tables are in another namespace than the last load's: nothing
            that was loaded is there.
        may_be_equal: whether all that speaks for reading it is what a mere rebuild shows, too: if
            the mirror has MySQL's rows still, it goes on as it was.
        by_table: whether what speaks for reading it is the table alone, as its server shows it: the
            server's log may tell what became of its rows.
        filled: columns that were added, and the text of the value that all rows have in them.
        reason: why it reads the whole table; '' where it does not.
    """

    meaning: Meaning
    identity: Identity | None = None
    whole: bool = False
    begins: bool = False
    elsewhere: bool = False
    may_be_equal: bool = False
    reason: str = ""
    by_table: bool = False
    filled: Mapping[str, str] | None = None

    def goes_on(self) -> Continuity:
        """The continuity of a table whose rows were found to be those that were read."""
        as_it_was = replace(self, whole=False, begins=False, may_be_equal=False, reason="")
        return replace(as_it_was, by_table=False, filled=None)


def meaning_of_plan(plan: ResolvedTable) -> Meaning:
    """What loads of this plan mean: `meaning_of`, with the types of its key in the lake, and how
    its values are compared."""
    types = {exact.name: exact.iceberg for exact in plan.columns}
    meaning = meaning_of(plan.contract, plan.source, plan.table)
    key_types = tuple(types[name] for name in meaning.key)
    return replace(meaning, key_types=key_types, key_forms=_key_forms(plan))


def _key_forms(plan: ResolvedTable) -> tuple[str, ...]:
    if plan.contract.copies:
        return ()
    hashed = plan.keeps_aliases
    columns = dict.fromkeys(plan.key, hashed)
    if plan.entity is not None:
        columns[plan.entity.token.name] = True  # it is known by its bytes, too
    found: list[str] = []
    for name, by_bytes in columns.items():
        column = plan.table.column(name)
        collated = by_bytes and is_collated(column)
        found.append(key_form(column, collated=collated, hashed=by_bytes))
    return tuple(found)


def mark_continuity(plan: ResolvedTable, ledger: Ledger, server: str, found: Continuity) -> str:
    """Mark a table that must be read again as unproved, with the reason; what follows, in words, ''
    where it need not be."""
    if not found.whole:
        return ""
    # Marked first: should the load fail, nobody takes the mirror for proved.
    ledger.mark_unproved(plan.name, server, found.reason)
    begins = ", and a new history begins" if found.begins else ""
    return f"{found.reason}: the whole table is read again{begins}"


def find_continuity(
    connection: Connection[Any], plan: ResolvedTable, ledger: Ledger, server: str
) -> Continuity:
    """What the next load is to the table's history; nothing is written.

    Raises:
        ConfigError: a new history would have to begin, and rows that only the mirror holds would
            not be in it.
        SourceError: the server could not be queried.
    """
    now = meaning_of_plan(plan)
    identity = read_identity(connection, plan.table) if not plan.contract.copies else None
    last = ledger.last_load(plan.name, "success", moving=True)
    newest = ledger.last_load(plan.name, "success")
    if newest is None:
        return Continuity(now, identity)
    if why := _unreadable(ledger, newest):
        if ledger.folded_loads(plan.name, "deduped") and kept_words(plan.contract):
            raise _would_lose(plan, why)
        return Continuity(now, identity, whole=True, begins=True, reason=why)
    found = _by_contract(plan, ledger, Continuity(now, identity))
    if found.whole or identity is None or last is None:
        return found
    sign = _why_other_rows(connection, plan, last, server, identity)
    if sign is None:
        return found
    return replace(
        found,
        whole=True,
        begins=not sign.altered and not kept_words(plan.contract),
        may_be_equal=sign.may_be_equal,
        by_table=last.receipt is not None and last.receipt.server == server,
        reason=f"since it was read, {sign.words}",
    )


def stamp_receipt(
    receipt: Receipt, load: Load, plan: ResolvedTable, ledger: Ledger, continuity: Continuity | None
) -> Receipt:
    """A load's receipt with what its rows mean and with which load its history began.

    Args:
        continuity: None of a load that only repeats what was read: then all of it is as it was.
    """
    before = ledger.newest_receipt(plan.name)
    now = continuity.meaning if continuity else meaning_of_plan(plan)
    whole = load.window.kind in ("initial", "full")
    meaning = carried(recorded_meaning(before), now, whole=whole)
    identity = continuity.identity.to_fields() if continuity and continuity.identity else None
    if identity is None and before is not None and not plan.contract.copies:
        identity = before.identity
    begins = continuity is not None and continuity.begins
    filled = before.filled if before is not None and not begins else None
    if continuity is not None and continuity.filled:
        filled = {**(filled or {}), **continuity.filled}
    # No row of an earlier load is shown any more, or there is none.
    alone = begins or (whole and plan.contract.replaces_all) or not ledger.newest_success(plan.name)
    return replace(
        receipt,
        meaning=meaning.to_fields(),
        began=load.seq if begins else (before.began if before else 0),
        identity=identity,
        filled=filled,
        all_proved=receipt.source_digest is not None
        and (alone or (before is not None and before.all_proved)),
    )


def find_silent_changes(plan: ResolvedTable, ledger: Ledger) -> str:
    """What a DDL changed since the table was read that changed values without moving a cursor, in
    words; '' if nothing. Nothing is written."""
    if plan.contract.copies:
        return ""  # every copy is of all values
    now = definition_of(plan.table, {exact.name for exact in plan.columns})
    before = ledger.definition(_definition_name(plan))
    if before is None or before == now:
        return ""
    changes = silent_changes(before, now, plan.name_in)
    no_cursor = "no cursor tells which rows changed"
    return f"since it was read, {'; '.join(changes)}: {no_cursor}" if changes else ""


def _definition_name(plan: ResolvedTable) -> str:
    """The name under which the ledger keeps what a table was defined as when it was read."""
    return f"definition {plan.name}"


def note_definition(plan: ResolvedTable, ledger: Ledger) -> None:
    """Write down what a table is defined as: what its DDL did to values is known."""
    now = definition_of(plan.table, {exact.name for exact in plan.columns})
    if ledger.definition(_definition_name(plan)) != now:
        ledger.record_definition(_definition_name(plan), now)


def mark_silent_changes(plan: ResolvedTable, ledger: Ledger, server: str) -> str:
    """See whether a DDL changed values without moving a cursor; the table is then unproved. What it
    changed, in words; '' where nothing."""
    if plan.contract.copies:
        return ""
    name = _definition_name(plan)
    now = definition_of(plan.table, {exact.name for exact in plan.columns})
    if ledger.definition(name) == now:
        return ""
    if reason := find_silent_changes(plan, ledger):
        # Marked first: a death in between marks it again.
        ledger.mark_unproved(plan.name, server, reason)
    if plan.table.unseen_rules:
        logger.warning(
            "table %s: this account can't see whether a foreign key changes rows without "
            "moving the cursor: grant SELECT on the whole table",
            plan.name,
        )
    ledger.record_definition(name, now)
    return reason


def _by_contract(plan: ResolvedTable, ledger: Ledger, continuity: Continuity) -> Continuity:
    """The continuity as far as the contract decides it."""
    receipt = ledger.newest_receipt(plan.name)
    if receipt is None:
        # A rebuilt ledger knows loads by their files alone: by which contract is not known.
        reason = "what its loads mean is not known since the ledger was rebuilt"
        begins = not kept_words(plan.contract)
        return replace(continuity, whole=True, begins=begins, reason=reason)
    before = recorded_meaning(receipt)
    if before is None:
        before = _assumed(plan, ledger, continuity.meaning)
    changes = changes_between(before, continuity.meaning)
    effect, elsewhere = strongest(changes), before.raw != continuity.meaning.raw
    for change in changes if effect == "none" else ():
        logger.info("table %s: its contract changed: %s", plan.name, change.words)
    words = words_of(changes)
    if effect == "begin" and not elsewhere and not before.copies and kept_words(plan.contract):
        raise _would_lose(plan, f"since it was loaded, {words}", "Change it back; or mirror")
    reason = f"since it was loaded, {words}" if effect != "none" else ""
    whole, begins = effect != "none", effect == "begin"
    return replace(continuity, whole=whole, begins=begins, elsewhere=elsewhere, reason=reason)


def _would_lose(plan: ResolvedTable, why: str, step: str = "Mirror") -> ConfigError:
    return ConfigError(
        f"table {plan.name}: {why}. A new history would have to begin, and rows that only the "
        f"mirror holds ({kept_words(plan.contract)}) would not be in it",
        table=plan.name,
        next_step=f"{step} the table under other namespaces, where a new history begins and the "
        "old one stays",
    )


def _unreadable(ledger: Ledger, newest: Load) -> str:
    """Why Spark can't read what the newest load wrote, in words; '' where it can. Earlier releases
    loaded columns of any name."""
    versions = ledger.schema_versions(newest.table)
    names = next((v.columns for v in versions if v.raw_table == newest.raw_table), ())
    reserved = next((name for name, _ in names if name in UNREADABLE), None)
    return f"what was loaded can't be read: {reserved!r} is a name of Iceberg's" if reserved else ""


def _assumed(plan: ResolvedTable, ledger: Ledger, now: Meaning) -> Meaning:
    """What loads of a release mean that did not record it: what the contract says now, but for
    what the windows contradict."""
    logger.warning(
        "table %s: an older release did not record what its loads mean: its contract is taken to "
        "be the one by which it was loaded",
        plan.name,
    )
    last = ledger.last_load(plan.name, "success", moving=True)
    if last is None:
        return now
    if now.time_zone not in (None, "UTC"):
        # It took any zone: where that was not the server's, changes were missed.
        now = replace(now, time_zone="not recorded")
    copied, hi = last.window.kind == "full", last.window.hi
    if copied != now.copies:
        return replace(now, mode="full" if copied else "append or incremental")
    by_time = hi is not None and "-" in hi[1:]
    if not copied and hi is not None and by_time != now.by_time:
        return replace(now, cursor="a time" if by_time else "a key", by_time=by_time)
    return now


def kept_words(contract: TableContract) -> str:
    """What of a mirror MySQL may not have any more, in words; '' if nothing."""
    if contract.entity is not None:
        return "the first times of entities"
    return f"deletes: {contract.deletes}" if contract.deletes in ("flag", "ignore") else ""


def _why_other_rows(
    connection: Connection[Any], plan: ResolvedTable, last: Load, server: str, now: Identity
) -> Sign | None:
    """What shows that the table's rows may not be those that were read; None where nothing does."""
    if last.receipt is not None and last.receipt.server != server:
        # A person took it for the source; it need not have every row that the other one had.
        return Sign(f"its source became server {server}")
    recorded = last.receipt.identity if last.receipt else None
    sign = why_another(Identity.from_fields(recorded), now) if recorded else None
    if sign is not None and sign.altered and sign.partitions:
        # Rows went with partitions that are empty now, as with a DELETE, and none came: so do
        # those that are split off month by month.
        filled = filled_partitions(connection, plan.table, sign.partitions)
        sign = sign if filled else None
    if sign is not None and not sign.may_be_equal:
        return sign
    fell = _why_keys_fell(connection, plan, last.window, now)
    return Sign(fell) if fell else sign


def _why_keys_fell(
    connection: Connection[Any], plan: ResolvedTable, window: Window, now: Identity
) -> str | None:
    """Why a window that continues from its last key would miss rows; None where it would not."""
    cursor = plan.cursor
    if cursor is None or by_time(plan) or window.hi is None or "-" in window.hi[1:]:
        return None
    reached = int(window.hi)
    counts = "auto_increment" in cursor.extra.lower()
    if counts and now.next_key is not None and now.next_key > reached:
        return None  # rows at the end were deleted, perhaps: their keys don't come again
    table = f"{quote(plan.table.database)}.{quote(plan.table.name)}"
    highest = rows_of(connection, f"SELECT MAX({cursor.sql}) FROM {table}")[0][0]  # noqa: S608
    if highest is not None and int(highest) >= reached:
        return None
    return f"its highest {cursor.name} fell below one that was read: keys may come again"
