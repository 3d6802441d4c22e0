"""Alerts: which breaches each hook was notified of, so that it is notified once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from mirrorlake.ledger import Ledger
from mirrorlake.ledger.database.database import waits_for_server
from mirrorlake.ledger.tables import METADATA

ALERTS = sa.Table(
    "alerts",
    METADATA,
    sa.Column("hook", sa.String(64), primary_key=True),
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("kind", sa.String(16), primary_key=True),
    sa.Column("since", sa.DateTime, nullable=False),
    sa.Column("told", sa.Boolean, nullable=False),
    sa.Column("claimed_until", sa.DateTime),
)

_CLAIM_TIME = timedelta(minutes=2)
"""How long a process may take to deliver: after that another may try."""


@dataclass(frozen=True)
class Alert:
    """What somebody wants to be notified of: a table is late, or keeps failing.

    Attributes:
        kind: ``late`` (its freshness limit has passed), ``failing`` (its loads fail one after the
            other) or ``moved`` (other hands changed its lake tables).
        since: when it began (UTC).
    """

    table: str
    kind: str
    since: datetime


@waits_for_server
class SentAlerts:
    """What was sent.

    One row per (hook, table, kind) of a breach that lasts, or whose end was not delivered yet.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._database = ledger.database

    def notified(self, hook: str) -> set[tuple[str, str]]:
        """(table, kind) of the breaches that a hook was notified of, and not yet of their end."""
        mine = sa.and_(ALERTS.c.hook == hook, ALERTS.c.told)
        with self._database.read() as connection:
            rows = connection.execute(sa.select(ALERTS.c.table_name, ALERTS.c.kind).where(mine))
            return {(row.table_name, row.kind) for row in rows}

    def claim_begun(self, hook: str, breaches: Iterable[Alert]) -> list[Alert]:
        """Of these breaches those that the hook was not notified of, and that no other process is
        sending now: they are this process's to send."""
        return [alert for alert in breaches if self._claim_new(hook, alert)]

    def _claim_new(self, hook: str, alert: Alert) -> bool:
        with self._database.read() as connection:
            row = connection.execute(ALERTS.select().where(_key(hook, alert))).first()
        if row is None:
            try:
                with self._database.begin() as connection:
                    now = self._database.now(connection)
                    values = {
                        "hook": hook,
                        "table_name": alert.table,
                        "kind": alert.kind,
                        "since": alert.since.replace(tzinfo=None),
                        "told": False,
                        "claimed_until": now + _CLAIM_TIME,
                    }
                    connection.execute(ALERTS.insert().values(values))
            except IntegrityError:
                return False  # another process was first
            return True
        return not row.told and self._take(hook, alert, notified=False)

    def claim_ended(self, hook: str, lasting: Collection[tuple[str, str]]) -> list[Alert]:
        """The breaches that the hook was notified of and that are over: their end is to be sent.

        One that the hook was never notified of is forgotten: nobody hears that what they
        did not know is over.
        """
        with self._database.read() as connection:
            now = self._database.now(connection)
            rows = connection.execute(ALERTS.select().where(ALERTS.c.hook == hook)).all()
        over = [row for row in rows if (row.table_name, row.kind) not in lasting]
        ended = [
            (row, Alert(row.table_name, row.kind, row.since.replace(tzinfo=UTC))) for row in over
        ]
        for row, alert in ended:
            if not row.told and (row.claimed_until is None or row.claimed_until < now):
                self._forget(hook, alert, notified=False)
        return [
            alert for row, alert in ended if row.told and self._take(hook, alert, notified=True)
        ]

    def _take(self, hook: str, alert: Alert, *, notified: bool) -> bool:
        with self._database.begin() as connection:
            now = self._database.now(connection)
            free = sa.or_(ALERTS.c.claimed_until.is_(None), ALERTS.c.claimed_until < now)
            mine = sa.and_(_key(hook, alert), ALERTS.c.told == notified, free)
            change = ALERTS.update().where(mine).values(claimed_until=now + _CLAIM_TIME)
            return connection.execute(change).rowcount == 1

    def _forget(self, hook: str, alert: Alert, *, notified: bool) -> None:
        with self._database.begin() as connection:
            connection.execute(ALERTS.delete().where(_key(hook, alert), ALERTS.c.told == notified))

    def delivered(self, hook: str, begun: Iterable[Alert], ended: Iterable[Alert]) -> None:
        """The hook has taken these: it is notified of the first, and no more of the second."""
        with self._database.begin() as connection:
            for alert in begun:
                change = ALERTS.update().where(_key(hook, alert))
                connection.execute(change.values(told=True, claimed_until=None))
            for alert in ended:
                connection.execute(ALERTS.delete().where(_key(hook, alert)))

    def not_delivered(self, hook: str, alerts: Iterable[Alert]) -> None:
        """The hook has not taken these: the next look tries again."""
        with self._database.begin() as connection:
            for alert in alerts:
                change = ALERTS.update().where(_key(hook, alert))
                connection.execute(change.values(claimed_until=None))


def _key(hook: str, alert: Alert) -> sa.ColumnElement[bool]:
    return sa.and_(
        ALERTS.c.hook == hook, ALERTS.c.table_name == alert.table, ALERTS.c.kind == alert.kind
    )
