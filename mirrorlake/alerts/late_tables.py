"""Alerts: which tables are late, keep failing or were changed by other hands; each hook is notified
once, and of the end.

What was sent is recorded in the ledger, so a restart forgets nothing and two processes don't both
send it. A delivery that fails is logged and tried again at the next look; it stops nothing. A
process that dies between a delivery and its record may cause a second delivery, never none.

Messages hold names, times and counts: no row's values, no server's words, no secret.
"""

from __future__ import annotations

import html
import json
import logging
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from http.client import HTTPException
from typing import Any

from mirrorlake.alerts.config import AlertsConfig
from mirrorlake.alerts.ledger import Alert, SentAlerts
from mirrorlake.config import Config, TableContract
from mirrorlake.errors import ConfigError, LedgerError, MirrorlakeError
from mirrorlake.ledger import Ledger, age_of
from mirrorlake.operations.other_writers.moved_lake import find_all_moved, recorded_tables
from mirrorlake.operations.other_writers.put_right import KEPT, PUT_RIGHT

logger = logging.getLogger(__name__)

LAKE = "the lake"
"""What an alert names that is of all tables."""
TIMEOUT = 15.0
"""Seconds that the webhook may take to answer."""


@dataclass(frozen=True)
class Delivered:
    """What one hook was sent at one look.

    Attributes:
        hook: ``webhook``, ``slack``, ``email`` or ``services.<name>``.
        table: ``source.db.table``.
        kind: ``late``, ``failing`` or ``moved``.
        event: ``began`` or ``ended``.
        since: when the breach began (UTC).
        delivered: whether the hook took it; else the next look tries again.
        error: why it was not delivered, None where it was.
    """

    hook: str
    table: str
    kind: str
    event: str
    since: datetime
    delivered: bool
    error: str | None


def find_breaches(config: Config, ledger: Ledger, now: datetime | None = None) -> list[Alert]:
    """The tables that are late or keep failing now.

    Moved: other hands changed its lake tables; it lasts as long as what they left is kept.

    Late: MySQL stood where the mirror stands longer ago than the contract's ``fail_after``. A table
    that was never loaded has no such time: it is failing once its loads fail, not late. A sync that
    is refused before it begins a load (a dropped column, say) counts as one that failed; one that
    could not reach the source does not: freshness covers that.

    Raises:
        LedgerError: the ledger can't be read.
    """
    moment = now or datetime.now(UTC)
    names = [c.name for c in config.tables]
    newest = ledger.newest_loads(names)
    failed = ledger.failures_since(newest, names)
    stamps = ledger.stamps(names)
    ages = {n: age_of(newest.get(n), moment, stamps.get(n)) for n in names}
    moved = _moved(config, ledger, moment)
    late = [a for c in config.tables if (a := _late(c, ages[c.name], moment))]
    most = config.section(AlertsConfig).failures
    refused = {name: refusal.times for name, refusal in ledger.refusals().items()}
    failing = [
        Alert(n, "failing", moment) for n in names if failed.get(n, 0) + refused.get(n, 0) >= most
    ]
    return [*late, *failing, *moved]


def _moved(config: Config, ledger: Ledger, now: datetime) -> list[Alert]:
    """The tables and models that other hands changed in the lake: those that nobody has put right
    yet, and those that were, for as long as what the others left there is kept."""
    found: dict[str, datetime] = {}
    for full, said in ledger.definitions(PUT_RIGHT).items():
        at = datetime.fromisoformat(json.loads(said)["at"])
        if now - at < KEPT:
            found[full.removeprefix(PUT_RIGHT)] = at
    try:
        there = find_all_moved(config, ledger, recorded_tables(config, ledger))
    except LedgerError:
        raise
    except MirrorlakeError as error:
        logger.warning("the lake is not the one that the ledger knows: %s", error)
        there = {LAKE: []}
    return [Alert(n, "moved", found.get(n, now)) for n in {**found, **dict.fromkeys(there)}]


def _late(contract: TableContract, age: timedelta | None, now: datetime) -> Alert | None:
    if contract.freshness is None or age is None or age <= contract.freshness.fail_after:
        return None
    return Alert(contract.name, "late", now - age + contract.freshness.fail_after)


def send_alerts(config: Config, ledger: Ledger, now: datetime | None = None) -> list[Delivered]:
    """Notify every hook of the config of what began and ended since its last notification.

    While a source is held nothing of it begins: its tables are late because somebody said so.

    Raises:
        ConfigError: a hook can't be used as it is configured; all the others were notified.
        LedgerError: the ledger can't be read or written.
    """
    alerts, sent = config.section(AlertsConfig), SentAlerts(ledger)
    if not alerts.hooks:
        return []
    breaches = find_breaches(config, ledger, now)
    held = {source for source in config.sources if ledger.held(source)}
    source_of = {c.name: c.source for c in config.tables}
    lasting = {(a.table, a.kind) for a in breaches}
    begins = [a for a in breaches if source_of.get(a.table) not in held or a.kind == "moved"]
    deliveries: list[Delivered] = []
    unusable: list[ConfigError] = []
    for hook in alerts.hooks:
        try:
            deliver = _open(alerts, hook)
        except ConfigError as error:
            unusable.append(error)
            continue
        known = sent.notified(hook)
        begun = sent.claim_begun(hook, [a for a in begins if (a.table, a.kind) not in known])
        ended = sent.claim_ended(hook, lasting)
        if begun or ended:
            deliveries += _deliver(deliver, sent, hook, begun, ended)
    if unusable:
        raise _one(unusable)
    return deliveries


def _one(errors: Sequence[ConfigError]) -> ConfigError:
    first, *more = errors
    if not more:
        return first
    message = "; ".join(error.message for error in errors)
    return ConfigError(message, next_step=first.next_step)


def send_test(config: Config) -> dict[str, str | None]:
    """Send every hook of the config a message that says it is a test; writes nothing.

    Per hook why it was not delivered, None where it was.
    """
    alerts = config.section(AlertsConfig)
    return {hook: _test(alerts, hook) for hook in alerts.hooks}


def _test(config: AlertsConfig, hook: str) -> str | None:
    try:
        deliver = _open(config, hook)
    except ConfigError as error:
        return str(error)
    return deliver("Mirrorlake: this is a test of the alert hook.", [], [])


def _deliver(
    deliver: _Deliver, sent: SentAlerts, hook: str, begun: list[Alert], ended: list[Alert]
) -> list[Delivered]:
    error = deliver(text_of(begun, ended), begun, ended)
    if error is None:
        sent.delivered(hook, begun, ended)
    else:
        logger.warning("alert hook %s was not reached: %s; the next look tries again", hook, error)
        sent.not_delivered(hook, [*begun, *ended])
    events = [*((a, "began") for a in begun), *((a, "ended") for a in ended)]
    return [
        Delivered(hook, a.table, a.kind, event, a.since, error is None, error)
        for a, event in events
    ]


def text_of(begun: Sequence[Alert], ended: Sequence[Alert]) -> str:
    """What a person reads: one line a table."""
    words = {
        "late": "is late: its freshness limit passed at {at} UTC",
        "failing": "is failing: its loads failed one after the other, seen at {at} UTC",
        "moved": "was changed in the lake by other hands, seen at {at} UTC: `mirrorlake status`",
    }
    over = {
        "late": "is no longer late",
        "failing": "is no longer failing",
        "moved": "is as Mirrorlake left it, and what other hands left is kept no more",
    }
    lines = [f"{a.table} {words[a.kind].format(at=f'{a.since:%Y-%m-%d %H:%M}')}" for a in begun]
    lines += [f"{a.table} {over[a.kind]} (since {a.since:%Y-%m-%d %H:%M} UTC)" for a in ended]
    return "\n".join(["Mirrorlake:", *lines])


# --- delivery -------------------------------------------------------------------------------------

_Deliver = Callable[[str, Sequence[Alert], Sequence[Alert]], str | None]
"""Sends a hook a text, what began and what ended; why it was not delivered, None where it was."""


def _open(config: AlertsConfig, hook: str) -> _Deliver:
    """How a hook is notified; sends nothing.

    Raises:
        ConfigError: the hook's variable is not set, or its value is not usable.
    """
    if hook == "webhook" and config.webhook is not None:
        return partial(_post, config.webhook.get_secret_value())
    from mirrorlake.alerts.services import notify, open_service

    service = open_service(config, hook)

    def deliver(text: str, begun: Sequence[Alert], ended: Sequence[Alert]) -> str | None:
        # Slack's own escapes: https://api.slack.com/reference/surfaces/formatting#escaping
        body = html.escape(text, quote=False) if hook == "slack" else text
        if begun:
            return notify(service, "Mirrorlake: tables need a look", body, "warning")
        if ended:
            return notify(service, "Mirrorlake: tables are well again", body, "success")
        return notify(service, "Mirrorlake: test", body, "info")

    return deliver


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected would become a GET: an answer like that is a failure."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _post(url: str, text: str, begun: Sequence[Alert], ended: Sequence[Alert]) -> str | None:
    """Send the webhook its JSON: programs read it, and Apprise's has no place for the list."""
    alerts = [
        {"table": a.table, "kind": a.kind, "event": event, "since": a.since.isoformat()}
        for event, found in (("began", begun), ("ended", ended))
        for a in found
    ]
    try:
        request = urllib.request.Request(  # noqa: S310 - the config takes http and https alone
            url,
            data=json.dumps({"text": text, "alerts": alerts}).encode(),
            headers={"Content-Type": "application/json", "User-Agent": "mirrorlake"},
            method="POST",
        )
        with urllib.request.build_opener(_NoRedirect).open(request, timeout=TIMEOUT):
            return None
    except urllib.error.HTTPError as error:
        return f"it answered with status {error.code}"
    except (OSError, HTTPException, ValueError) as error:
        # Not the error's own text: it may hold the address.
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        cause = cause if isinstance(cause, Exception) else error
        return f"it could not be reached ({type(cause).__name__})"
