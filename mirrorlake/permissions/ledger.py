"""Changes of access and of groups' members: recorded before they are made, and how they ended."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

import sqlalchemy as sa

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import utc_now, waits_for_server
from mirrorlake.ledger.tables import COUNTER, METADATA

ACCESS_CHANGES = sa.Table(
    "access_changes",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("dataset", sa.String(1024), nullable=False),
    sa.Column("runner", sa.String(320), nullable=False),
    sa.Column("grants", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("words", sa.Text),
    sa.Column("begun_at", sa.DateTime, nullable=False),
    sa.Column("ended_at", sa.DateTime),
)
AccessState: TypeAlias = Literal["pending", "applied", "refused", "unknown"]
GrantRecord: TypeAlias = Mapping[str, str]
"""``principal``, ``role``, and of a person ``reason``."""


@dataclass(frozen=True)
class AccessChangeRecord:
    """One change, made by one request.

    Attributes:
        resource: ``project.dataset``, ``table:project.dataset.table``, or ``group:`` and an
            address.
        runner: the principal that applied it.
        adds, removes: what it was to add and remove.
        state: ``pending``: it was begun; ``refused``: nothing was changed; ``unknown``: whoever
            began it died, and whether Google did it can't be seen any more.
        words: why it was refused or is unknown.
        begun_at, ended_at: UTC.
    """

    number: int
    resource: str
    runner: str
    adds: Sequence[GrantRecord]
    removes: Sequence[GrantRecord]
    state: AccessState
    words: str | None
    begun_at: datetime
    ended_at: datetime | None


@waits_for_server
class AccessChanges:
    """The changes of access in one ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def begin(
        self,
        resource: str,
        runner: str,
        adds: Iterable[GrantRecord],
        removes: Iterable[GrantRecord],
    ) -> int:
        """Record that access is about to be changed; the change's number."""
        change = json.dumps({"adds": [*adds], "removes": [*removes]}, ensure_ascii=False)
        row = {"dataset": resource, "runner": runner, "grants": change, "state": "pending"}
        with self._database.begin() as connection:
            insert = ACCESS_CHANGES.insert().values(**row, begun_at=utc_now())
            found = connection.execute(insert).inserted_primary_key
        return int(found[0]) if found is not None else 0

    def ended(self, number: int, state: AccessState, words: str | None = None) -> None:
        """Record how a change ended."""
        ended = {"state": state, "words": words, "ended_at": utc_now()}
        with self._database.begin() as connection:
            one = ACCESS_CHANGES.c.number == number
            connection.execute(ACCESS_CHANGES.update().where(one).values(**ended))

    def newest_first(
        self, resource: str | None = None, *, pending: bool = False
    ) -> Sequence[AccessChangeRecord]:
        """Changes, the newest first: of one resource or of all; those alone that have not ended."""
        query = ACCESS_CHANGES.select().order_by(ACCESS_CHANGES.c.number.desc())
        if resource is not None:
            query = query.where(ACCESS_CHANGES.c.dataset == resource)
        if pending:
            query = query.where(ACCESS_CHANGES.c.state == "pending")
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(query)]


def _record(row: sa.Row[tuple[object, ...]]) -> AccessChangeRecord:
    change = json.loads(row.grants)
    return AccessChangeRecord(
        number=row.number,
        resource=row.dataset,
        runner=row.runner,
        adds=change["adds"],
        removes=change["removes"],
        state=row.state,
        words=row.words,
        begun_at=row.begun_at,
        ended_at=row.ended_at,
    )
