"""What the next load of a table is, decided before anything is read.

What belongs here: whether it reads the whole table, and whether a comparison spares it that. What
doesn't: what decides it by itself (`mirrorlake.table.continuity`), and loading
(`mirrorlake.operations.loading.sync`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from pymysql.connections import Connection

from mirrorlake.errors import LakeError, ProofError, SchemaError
from mirrorlake.ledger import Load, Window
from mirrorlake.operations.loading.resolve import needs_first_load
from mirrorlake.proof.comparing.check import check_table
from mirrorlake.proof.comparing.report import Ask
from mirrorlake.table.continuity import (
    Continuity,
    find_continuity,
    find_silent_changes,
    kept_words,
    mark_continuity,
    mark_silent_changes,
)
from mirrorlake.table.log_place import place_of
from mirrorlake.table.resolve import ResolvedTable, by_time
from mirrorlake.table.windows import plan_window
from mirrorlake.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class NextLoad:
    """What the next load of a table is.

    Attributes:
        fresh: whether its schema version needs a first load.
        whole: whether it reads the whole table, for whatever reason.
        compared: whether the mirror was just found equal, though the table was rebuilt.
        reason: why it reads the whole table; '' where it does not.
        last: the load that it continues; None where it reads the whole table.
        again: that all of it is read again, by what the contract or the table is now, in words;
            '' where it is not.
        silent: what a DDL changed that no cursor tells, in words; '' of nothing.
        doubt: of a table that follows its server's log: why it reads the whole table, where the log
            may tell what became of its rows, and spare it that; '' otherwise.
    """

    continuity: Continuity
    fresh: bool
    whole: bool
    reason: str
    last: Load | None
    compared: bool = False
    again: str = ""
    silent: str = ""
    doubt: str = ""

    def window(self, plan: ResolvedTable, clock: datetime, ahead: Any) -> Window:
        """Its window, as `plan_window` says; after a comparison it begins where that ended."""
        if self.compared:
            # Rows within `settle` were not compared: those that came by another way are read.
            reach = max(plan.contract.overlap, plan.contract.settle)
            wider = plan.contract.model_copy(update={"overlap": reach})
            plan = replace(plan, contract=wider)
        return plan_window(plan, self.last, clock, ahead)


def find_next_load(
    connection: Connection[Any], workspace: Workspace, plan: ResolvedTable, server: str
) -> NextLoad:
    """What the next load would be, as far as that is known without a comparison of rows; nothing is
    written.

    Raises:
        MirrorlakeError: it would be refused.
    """
    ledger = workspace.ledger
    continuity = find_continuity(connection, plan, ledger, server)
    fresh = needs_first_load(workspace, plan, elsewhere=continuity.elsewhere)
    mark, silent = ledger.unproved(plan.name), find_silent_changes(plan, ledger)
    reason = continuity.reason
    if fresh and not reason:
        reason = "new columns" if ledger.schema_versions(plan.name) else "never loaded"
    reason = reason or (mark.reason if mark is not None else silent)
    last = ledger.last_load(plan.name, "success", moving=True)
    if plan.contract.by_log and last is not None:
        if not reason and place_of(ledger, plan.name, last) is None:
            reason = "from where on its log has to be read is not known"
            continuity = replace(continuity, whole=True, reason=reason)
        # What was deleted since is in no log that is read: without a new history it would stay.
        begins = bool(reason) and not kept_words(plan.contract)
        begins = continuity.begins or begins
        continuity = replace(continuity, begins=begins, may_be_equal=False)
    # What was read from another server is read again, as a whole, before anything else.
    whole = fresh or continuity.whole or mark is not None or bool(silent)
    if fresh or mark is not None or silent:
        continuity = replace(continuity, may_be_equal=False)
    found = NextLoad(continuity, fresh, whole, reason, None if whole else last)
    by_table = mark is None and (continuity.by_table or not continuity.whole)
    if whole and plan.contract.by_log and last is not None and by_table:
        found = replace(found, doubt=reason)
    return found


def plan_next_load(
    connection: Connection[Any], workspace: Workspace, plan: ResolvedTable, server: str
) -> NextLoad:
    """What the next load is. The rows of a table that was rebuilt, or made again, are compared
    first; one that must be read again is marked as unproved.

    Raises:
        MirrorlakeError: it is refused.
    """
    found, ledger = find_next_load(connection, workspace, plan, server), workspace.ledger
    if found.continuity.may_be_equal and _is_equal(workspace, plan, found.continuity):
        last = ledger.last_load(plan.name, "success", moving=True)
        found = NextLoad(found.continuity.goes_on(), False, False, "", last, compared=True)
    mark = ledger.unproved(plan.name) if plan.contract.by_log else None
    again = mark_continuity(plan, ledger, server, found.continuity)
    if mark is not None and not again:
        again = f"{mark.reason}: the whole table is read again"
    return replace(found, again=again, silent=mark_silent_changes(plan, ledger, server))


def _is_equal(workspace: Workspace, plan: ResolvedTable, continuity: Continuity) -> bool:
    """Whether the mirror has the rows of a table that may be another one: by digests of both sides,
    but for what the next window reads anyway.

    False where that can't be said: then the table is read.
    """
    newest = workspace.ledger.newest_success(plan.name)
    logger.info("table %s: %s: its rows are compared first", plan.name, continuity.reason)
    try:
        report = check_table(workspace, plan.contract, Ask(), most=1)
    except (SchemaError, ProofError, LakeError) as error:
        logger.warning("table %s: its rows can't be compared: %s", plan.name, error)
        return False
    if report.verdict != "equal" or report.through < newest:
        return False
    logger.warning(
        "table %s: %s; its rows were compared, and are those of the mirror: it goes on",
        *(plan.name, continuity.reason),
    )
    return True


def warn_of_set_back(plan: ResolvedTable, by: timedelta) -> None:
    """Say by how much a server's clock was set back since the last load."""
    if by > timedelta(minutes=1) and by_time(plan):
        logger.warning(
            "table %s: the clock of source %s was set back by %s since the last load: the window "
            "reaches back as far",
            *(plan.name, plan.source.name, timedelta(seconds=round(by.total_seconds()))),
        )
