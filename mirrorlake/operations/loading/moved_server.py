"""Tables that follow the log of another server from now on, from where they stand.

A person took it for the source (`mirrorlake accept`), and its log has what follows. What is known
of a table by its server, such as InnoDB's numbers, is that of the other one then.

What belongs here: that step. What doesn't: where the place is in the other log
(`mirrorlake.sources.mysql.following.same_place`).
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from pymysql.connections import Connection

from mirrorlake.config import SourceConfig, TableContract
from mirrorlake.errors import SourceError
from mirrorlake.ledger import Ledger
from mirrorlake.load.following.log_load import LogTerms, load_changes
from mirrorlake.load.following.log_rows import LogRows
from mirrorlake.load.protocol.load_run import settle_loads
from mirrorlake.operations.loading.resolve import resolve_as
from mirrorlake.sources.mysql.following.log_state import LogPlace, refuse_unfollowable
from mirrorlake.sources.mysql.following.same_place import find_same_place
from mirrorlake.sources.mysql.introspection.identity import read_identity
from mirrorlake.sources.mysql.introspection.introspect import read_table
from mirrorlake.sources.mysql.sessions.connect import SourcePosition
from mirrorlake.table.columns.shape_at_place import record_shape, same_columns, shape_at
from mirrorlake.table.continuity import Continuity, meaning_of_plan, note_definition
from mirrorlake.table.log_place import place_of, refuse_unlogged
from mirrorlake.workspace import Workspace

_MOVED: Final = "moved server "
"""How the names begin of what the ledger keeps of tables that go on with another server."""


def moved_tables(ledger: Ledger) -> set[str]:
    """The tables that are to go on with another server."""
    return {name.removeprefix(_MOVED) for name in ledger.definitions(_MOVED)}


class AcceptedPlaces:
    """Where tables of a source go on in the log of the server that answers now.

    Args:
        server: its identity.
    """

    def __init__(
        self, connection: Connection[Any], source: SourceConfig, ledger: Ledger, server: str
    ) -> None:
        self._connection, self._source = connection, source
        self._ledger, self._server = ledger, server
        self._found: dict[str, LogPlace] = {}

    def accept(self, contract: TableContract) -> None:
        """Write down where a table goes on.

        Raises:
            SourceError: it can't be followed on there; why.
        """
        was = place_of(self._ledger, contract.name)
        if was is None:
            raise SourceError("from where on its log has to be read is not known")
        own = (contract.database, contract.table)
        refuse_unfollowable(self._connection, self._source, {own})
        # Most tables are at one place.
        place = self._found.get(was.to_text())
        if place is None:
            parts = (self._connection, self._source, self._server)
            place = self._found[was.to_text()] = find_same_place(*parts, was)
        said = {"server": self._server, "was": was.to_text(), "place": place.to_text()}
        self._ledger.record_definition(_MOVED + contract.name, json.dumps(said))


def move_to_server(
    workspace: Workspace, connection: Connection[Any], contract: TableContract, seen: SourcePosition
) -> None:
    """Have a table follow the server that answers now, if a person took it and its place is known
    there; one that was altered meanwhile is to be read again.

    Args:
        workspace: with the table's lease.

    Raises:
        MirrorlakeError: see the errors of planning and loading.
    """
    ledger, name = workspace.ledger, contract.name
    said = json.loads(ledger.definition(_MOVED + name) or "{}")
    if said.get("server") != seen.server:
        return
    settle_loads(workspace, contract)
    last = ledger.last_load(name, "success", moving=True)
    was = place_of(ledger, name, last)
    if last is None or last.receipt is None or last.receipt.server == seen.server:
        ledger.forget_definition(_MOVED + name)
        return
    place, there = LogPlace.parse(said["place"]), read_table(connection, *_name(contract))
    shape = shape_at(ledger, name, was) if was is not None else None
    known = was is not None and was.to_text() == said["was"]
    if not known or shape is None or not same_columns(shape[1], there):
        why = "its source became another server, where it has other columns by now"
        ledger.mark_unproved(name, seen.server, why if known else "it was followed elsewhere since")
        ledger.forget_definition(_MOVED + name)
        return
    plan = resolve_as(workspace, contract, there)
    refuse_unlogged(plan)
    continuity = Continuity(meaning_of_plan(plan), read_identity(connection, there))
    # Nothing of this server was loaded yet: raw is as of when it was followed last.
    seen = replace(seen, position="", clock=datetime.fromisoformat(last.receipt.moment))
    rows = LogRows((), place.log, plan.key, seen)
    record_shape(ledger, name, place, there)
    load_changes(workspace, LogTerms(connection, plan, continuity, place), rows)
    note_definition(plan, ledger)
    ledger.forget_definition(_MOVED + name)


def _name(contract: TableContract) -> tuple[str, str]:
    return contract.database, contract.table
