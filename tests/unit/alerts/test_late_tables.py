"""Alerts: told once to real servers on loopback, and their end too, whoever looks."""

from __future__ import annotations

import json
import logging
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from click.testing import CliRunner

from mirrorlake.alerts.late_tables import send_alerts
from mirrorlake.alerts.ledger import ALERTS, Alert, SentAlerts
from mirrorlake.cli.main import cli
from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from mirrorlake.ledger.lake.lake_heads import LakeHead
from mirrorlake.operations.other_writers.put_right import KEPT, note_put_right
from tests.integration.certificates import write_certificates
from tests.unit.ledger.test_ledger import RECEIPT, started

SECRET = "T0k3n-of-the-hook"
NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)


@dataclass
class Hook:
    """An HTTP server that keeps what it is sent, and answers as it is told."""

    url: str
    status: int = 200
    bodies: list[Any] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def hook() -> Iterator[Hook]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            kept.bodies.append(json.loads(self.rfile.read(length)))
            kept.paths.append(self.path)
            kept.logins.append(self.headers["Authorization"])
            kept.gate.wait(5)
            self.send_response(kept.status)
            self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    kept = Hook(f"http://127.0.0.1:{server.server_port}/{SECRET}")
    kept.gate.set()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield kept
    server.shutdown()
    server.server_close()


Make = Callable[..., tuple[Config, Ledger]]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A contract file with these alerts, over tables t and u that are late after an hour."""

    def make(environ: dict[str, str], **section: Any) -> tuple[Config, Ledger]:
        table = {"mode": "full", "freshness": {"fail_after": "1h"}}
        text = {
            "version": 1,
            "ledger": {"url": "sqlite:///ledger.db"},
            "alerts": section,
            "sources": {
                "s": {
                    "host": "h",
                    "user": "u",
                    "databases": {"shop": {"tables": {"t": table, "u": table}}},
                }
            },
        }
        path = tmp_path / "mirrorlake.yaml"
        path.write_text(yaml.safe_dump(text))
        config = load_config(path, environ=environ)
        return config, Ledger(config.ledger.url)

    return make


@pytest.fixture
def webhook(make: Make, hook: Hook) -> tuple[Config, Ledger]:
    return make({"HOOK": hook.url}, webhook="${env:HOOK}")


def loaded(ledger: Ledger, moment: datetime, table: str = "t") -> None:
    """A load of a table that read MySQL as it stood then."""
    ledger.finish_load(
        _begun(ledger, table), 1, replace(RECEIPT, moment=moment.replace(tzinfo=None).isoformat())
    )


def failed(ledger: Ledger, table: str = "t") -> None:
    ledger.fail_load(_begun(ledger, table), "Duplicate entry 'secret value'")


def _begun(ledger: Ledger, table: str) -> Any:
    name = f"s.shop.{table}"
    with ledger.lease(name, "run"):
        return started(ledger, name)


def events(hook: Hook) -> list[tuple[str, str, str]]:
    return [(a["table"], a["kind"], a["event"]) for body in hook.bodies for a in body["alerts"]]


LATE = ("s.shop.t", "late", "began")
OVER = ("s.shop.t", "late", "ended")


def test_a_breach_is_told_once_and_so_is_its_end(
    webhook: tuple[Config, Ledger], hook: Hook
) -> None:
    config, ledger = webhook
    assert send_alerts(config, ledger, NOW) == []  # never loaded: it was never fresh
    loaded(ledger, NOW - HOUR)
    loaded(ledger, NOW - 3 * HOUR, "u")
    assert send_alerts(config, ledger, NOW)[0].table == "s.shop.u"
    assert send_alerts(config, ledger, NOW) == []
    # Another process, after a restart: only the ledger remembers.
    again = Ledger(config.ledger.url)
    send_alerts(config, again, NOW + timedelta(seconds=1))
    assert events(hook) == [("s.shop.u", "late", "began"), LATE]
    loaded(ledger, NOW)
    loaded(ledger, NOW, "u")
    told = send_alerts(config, again, NOW + timedelta(seconds=2))
    assert [(one.event, one.delivered) for one in told] == [("ended", True)] * 2
    assert send_alerts(config, again, NOW + timedelta(seconds=3)) == []
    assert len(hook.bodies) == 3
    send_alerts(config, again, NOW + 2 * HOUR)
    assert len(events(hook)) == 6


def test_when_it_began_is_when_the_limit_passed(webhook: tuple[Config, Ledger], hook: Hook) -> None:
    config, ledger = webhook
    loaded(ledger, NOW - 3 * HOUR)
    send_alerts(config, ledger, NOW)
    (body,) = hook.bodies
    assert body["alerts"][0]["since"] == (NOW - 2 * HOUR).isoformat()
    assert "s.shop.t is late: its freshness limit passed at 2026-03-10 10:00 UTC" in body["text"]


def test_loads_that_fail_one_after_the_other(webhook: tuple[Config, Ledger], hook: Hook) -> None:
    config, ledger = webhook
    loaded(ledger, NOW)
    failed(ledger)
    failed(ledger)
    assert send_alerts(config, ledger, NOW) == []
    failed(ledger)
    send_alerts(config, ledger, NOW)
    assert events(hook) == [("s.shop.t", "failing", "began")]
    assert "secret value" not in json.dumps(hook.bodies)
    loaded(ledger, NOW)
    send_alerts(config, ledger, NOW)
    assert events(hook)[1:] == [("s.shop.t", "failing", "ended")]


def test_what_other_hands_did_is_told_for_as_long_as_it_is_kept(
    webhook: tuple[Config, Ledger], hook: Hook
) -> None:
    """A table that was put right before anybody looked, too; and of models and tenants."""
    config, ledger = webhook
    for name in ("s.shop.t", "model m.daily"):
        note_put_right(ledger, name, ["its deduped table was written to"])
    now = datetime.now(UTC)
    send_alerts(config, ledger, now)
    assert sorted(events(hook)) == [
        ("model m.daily", "moved", "began"),
        ("s.shop.t", "moved", "began"),
    ]
    assert "s.shop.t was changed in the lake by other hands" in hook.bodies[0]["text"]
    assert send_alerts(config, ledger, now + KEPT - HOUR) == []
    send_alerts(config, ledger, now + KEPT + HOUR)
    assert {event for *_, event in events(hook)[2:]} == {"ended"}


def test_a_lake_that_is_not_there_is_told_as_a_whole(
    webhook: tuple[Config, Ledger], hook: Hook
) -> None:
    config, ledger = webhook
    ledger.claim_lake("a", "file:///elsewhere")
    ledger.record_lake_heads([LakeHead("s_shop", "t", "s.shop.t", "u", 1, 1, "file:///x.json")])
    send_alerts(config, ledger, NOW)
    assert events(hook) == [("the lake", "moved", "began")]


def test_a_table_that_is_refused_again_and_again_is_failing(make: Make, hook: Hook) -> None:
    """A dropped column stops a sync before it begins a load: only the refusal tells of it."""
    config, ledger = make({"HOOK": hook.url}, webhook="${env:HOOK}", failures=2)
    ledger.record_refusal("s.shop.t", "its schema changed")
    ledger.record_refusal("s.shop.t", "the source is down", passing=True)
    assert send_alerts(config, ledger, NOW) == []
    ledger.record_refusal("s.shop.t", "its schema changed")
    send_alerts(config, ledger, NOW)
    assert events(hook) == [("s.shop.t", "failing", "began")]
    load = started(ledger, "s.shop.t")
    assert ledger.refusals() == {}
    ledger.finish_load(load, 1, RECEIPT)
    ledger.record_refusal("s.shop.t", "another thing")
    assert ledger.refusals()["s.shop.t"].times == 1


@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_hook_that_refuses_is_told_again_at_the_next_look(
    webhook: tuple[Config, Ledger], hook: Hook, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    config, ledger = webhook
    loaded(ledger, NOW - 3 * HOUR)
    hook.status = status
    (told,) = send_alerts(config, ledger, NOW)
    assert (told.delivered, told.error) == (False, f"it answered with status {status}")
    hook.status = 200
    (told,) = send_alerts(config, ledger, NOW)
    assert told.delivered
    assert events(hook) == [LATE, LATE]
    assert SECRET not in caplog.text
    assert SECRET not in repr(config)


def test_a_server_that_is_not_there_stops_nothing_and_shows_no_secret(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    config, ledger = make({"HOOK": f"http://127.0.0.1:1/{SECRET}"}, slack="${env:HOOK}")
    loaded(ledger, NOW - 3 * HOUR)
    with caplog.at_level(logging.DEBUG):
        (told,) = send_alerts(config, ledger, NOW)
    assert told.error == "it could not be reached (ConnectionRefusedError)"
    assert SECRET not in caplog.text
    # Its end is not told to those who never knew.
    loaded(ledger, NOW)
    assert send_alerts(config, ledger, NOW) == []


def test_of_two_that_look_at_once_one_tells(webhook: tuple[Config, Ledger], hook: Hook) -> None:
    config, ledger = webhook
    loaded(ledger, NOW - 3 * HOUR)
    hook.gate.clear()  # the first delivery lasts until the others have looked

    def look(_: int) -> int:
        return len(send_alerts(config, Ledger(config.ledger.url), NOW))

    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(look, n) for n in range(4)]
        threading.Timer(0.5, hook.gate.set).start()
        assert sorted(f.result() for f in found) == [0, 0, 0, 1]
    assert events(hook) == [LATE]


def test_what_a_dead_process_was_telling_is_told_by_the_next(
    webhook: tuple[Config, Ledger], hook: Hook
) -> None:
    config, ledger = webhook
    loaded(ledger, NOW - 3 * HOUR)
    assert SentAlerts(ledger).claim_begun("webhook", [Alert("s.shop.t", "late", NOW)])
    assert send_alerts(config, ledger, NOW) == []
    with ledger._database.begin() as connection:  # its claim ends
        connection.execute(ALERTS.update().values(claimed_until=datetime(2000, 1, 1)))
    send_alerts(config, ledger, NOW)
    assert events(hook) == [LATE]


def test_nothing_begins_while_the_source_is_held(
    webhook: tuple[Config, Ledger], hook: Hook
) -> None:
    config, ledger = webhook
    loaded(ledger, NOW - 3 * HOUR)
    ledger.hold("s", datetime.now(UTC) + HOUR)
    assert send_alerts(config, ledger, NOW) == []
    ledger.release("s")
    send_alerts(config, ledger, NOW)
    ledger.hold("s", datetime.now(UTC) + HOUR)
    assert send_alerts(config, ledger, NOW) == []  # what began goes on
    assert events(hook) == [LATE]


def test_slack_gets_its_text(make: Make, hook: Hook) -> None:
    config, ledger = make({"HOOK": hook.url}, slack="${env:HOOK}")
    loaded(ledger, NOW - 3 * HOUR)
    send_alerts(config, ledger, NOW)
    (body,) = hook.bodies
    assert list(body) == ["text"]
    assert body["text"].startswith("Mirrorlake:\ns.shop.t is late")


# --- mail -----------------------------------------------------------------------------------------


class Kept:
    """What an SMTP server was given."""

    def __init__(self) -> None:
        self.mails: list[Any] = []

    async def handle_DATA(self, _server: SMTP, _session: Any, envelope: Any) -> str:
        self.mails.append(envelope)
        return "250 taken"


def password_is_right(_server: Any, _session: Any, _envelope: Any, _how: Any, data: Any) -> Any:
    good = isinstance(data, LoginPassword) and data.password == SECRET.encode()
    return AuthResult(success=good, handled=False)


def serve(kept: Kept, **settings: Any) -> Controller:
    class AnyPort(Controller):
        """Its own check connects to the port that it was given: 0 is none."""

        def _trigger_server(self) -> None:
            self.port = self.server.sockets[0].getsockname()[1]
            super()._trigger_server()

    server = AnyPort(kept, hostname="127.0.0.1", port=0, **settings)
    server.start()
    return server


MAIL = {"host": "127.0.0.1", "sender": "mirror@example.com", "to": ["data@example.com"]}


def test_a_mail_is_delivered(make: Make) -> None:
    kept = Kept()
    server = serve(kept)
    try:
        config, ledger = make({}, email={**MAIL, "port": server.port, "tls": "off"})
        loaded(ledger, NOW - 3 * HOUR)
        (told,) = send_alerts(config, ledger, NOW)
    finally:
        server.stop()
    assert told.delivered, told.error
    (mail,) = kept.mails
    assert (mail.mail_from, mail.rcpt_tos) == ("mirror@example.com", ["data@example.com"])
    assert b"Subject: Mirrorlake: tables need a look" in mail.content
    assert b"s.shop.t is late" in mail.content


@pytest.mark.parametrize(("known", "password"), [(True, SECRET), (True, "wrong"), (False, SECRET)])
def test_a_password_goes_only_to_a_server_that_is_proved(
    make: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    known: bool,
    password: str,
) -> None:
    folder = tmp_path / "tls"
    write_certificates(folder, "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    if known:
        monkeypatch.setenv("SSL_CERT_FILE", str(folder / "ca.pem"))
    kept = Kept()
    server = serve(
        kept, tls_context=context, require_starttls=True, authenticator=password_is_right,
        auth_required=True,
    )  # fmt: skip
    try:
        mail = {**MAIL, "port": server.port, "user": "mirror", "password": "${env:MAIL}"}
        config, ledger = make({"MAIL": password}, email=mail)
        loaded(ledger, NOW - 3 * HOUR)
        (told,) = send_alerts(config, ledger, NOW)
    finally:
        server.stop()
    assert told.delivered == (known and password == SECRET), told.error
    assert len(kept.mails) == told.delivered
    if not known:
        assert told.error == "it could not be reached (SSLCertVerificationError)"
    elif not told.delivered:
        assert told.error == "the mail server refused with code 535"
    assert password not in caplog.text


# --- the contract file and the command ------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"webhook": "https://hooks.example.com/x"}, "a secret is not written into this file"),
        ({"webhook": "${env:NOT_HTTP}"}, "no address that begins with https://"),
        ({"slack": "${env:MISSING}"}, "the environment variable MISSING is not set"),
        ({"webhok": "${env:HOOK}"}, "did you mean 'webhook'?"),
        ({"failures": 0}, "failures"),
        ({"email": {**MAIL, "password": "${env:HOOK}"}}, "a user and a password"),
        (
            {"email": {**MAIL, "user": "m", "password": "${env:HOOK}", "tls": "off"}},
            "a password is not sent without TLS",
        ),
        ({"email": {**MAIL, "to": []}}, "alerts.email.to: is empty"),
        ({"email": {**MAIL, "to": ["a@b\r\nBcc: c@d"]}}, "alerts.email.to"),
    ],
)
def test_a_section_that_can_not_be_kept(make: Make, section: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make({"NOT_HTTP": f"file:///{SECRET}", "HOOK": "x"}, **section)
    assert words in str(raised.value)
    assert SECRET not in str(raised.value)


def test_the_command_tells_what_it_told(
    make: Make, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK", hook.url)
    config, ledger = make({"HOOK": hook.url}, webhook="${env:HOOK}")
    run = lambda *a: CliRunner().invoke(cli, ["alert", *a, "--config", str(config.path)])  # noqa: E731
    loaded(ledger, datetime.now(UTC) - 3 * HOUR)
    (told,) = json.loads(run("--json").stdout)
    assert (told["hook"], told["table"], told["delivered"]) == ("webhook", "s.shop.t", True)
    assert "Nothing to report" in run().stdout
    assert run("--test").exit_code == 0
    assert "this is a test" in hook.bodies[-1]["text"]
    hook.status = 500
    tested = run("--test")
    assert (tested.exit_code, "status 500" in tested.stdout) == (1, True)
    assert SECRET not in tested.output


def test_without_a_hook_the_command_says_so(make: Make) -> None:
    config, _ = make({})
    result = CliRunner().invoke(cli, ["alert", "--config", str(config.path)])
    assert isinstance(result.exception, ConfigError)
    assert "no hook under alerts" in str(result.exception)
