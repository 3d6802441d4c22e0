"""Alerts through Apprise, to real servers on loopback: services, mail, and what is never shown."""

from __future__ import annotations

import base64
import json
import logging
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from aiosmtpd.smtp import AuthResult, LoginPassword
from click.testing import CliRunner

from mirrorlake.alerts import services as alert_services
from mirrorlake.alerts.config import AlertsConfig
from mirrorlake.alerts.late_tables import send_alerts, send_test
from mirrorlake.alerts.ledger import ALERTS
from mirrorlake.cli.main import cli
from mirrorlake.config import Config, load_config
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger
from tests.integration.certificates import write_certificates
from tests.unit.alerts.test_late_tables import (
    HOUR,
    MAIL,
    NOW,
    SECRET,
    Hook,
    Kept,
    Make,
    hook,
    loaded,
    make,
    serve,
)

__all__ = ["hook", "make"]

HARD = "p@:/?#% é"
"""A password of all that means something in a URL."""
DEAD = f"json://mirror:{SECRET}@127.0.0.1:1/{SECRET}"


def service(hook: Hook, query: str = "", login: str = "") -> str:
    """The Apprise URL of the server."""
    return hook.url.replace("http://", f"json://{login}") + query


def rows(ledger: Ledger) -> list[tuple[Any, ...]]:
    with ledger._database.read() as connection:
        return [tuple(row) for row in connection.execute(ALERTS.select())]


def test_a_service_is_told_once_and_of_the_end(make: Make, hook: Hook) -> None:
    config, ledger = make({"PAGER": service(hook)}, services={"on-call": "${env:PAGER}"})
    assert config.section(AlertsConfig).hooks == ("services.on-call",)
    loaded(ledger, NOW - 3 * HOUR)
    (told,) = send_alerts(config, ledger, NOW)
    assert (told.hook, told.delivered, told.error) == ("services.on-call", True, None)
    assert send_alerts(config, ledger, NOW) == []
    assert [row[:3] for row in rows(ledger)] == [("services.on-call", "s.shop.t", "late")]
    loaded(ledger, NOW)
    (told,) = send_alerts(config, ledger, NOW)
    assert (told.event, told.delivered) == ("ended", True)
    began, ended = hook.bodies
    assert (began["title"], began["type"]) == ("Mirrorlake: tables need a look", "warning")
    assert began["message"].startswith("Mirrorlake:\ns.shop.t is late")
    assert (ended["title"], ended["type"]) == ("Mirrorlake: tables are well again", "success")
    assert "s.shop.t is no longer late" in ended["message"]


@pytest.mark.parametrize("status", [500, 302])
def test_a_service_that_refuses_is_tried_again_and_the_others_are_told(
    make: Make, hook: Hook, status: int
) -> None:
    """Apprise would follow a redirect, and calls every failure of an `optional` service success."""
    hooks = {"a": "${env:DEAD}", "b": "${env:PAGER}"}
    environ = {"DEAD": DEAD, "PAGER": service(hook, "?optional=yes&redirect=yes"), "HOOK": hook.url}
    config, ledger = make(environ, services=hooks, webhook="${env:HOOK}")
    loaded(ledger, NOW - 3 * HOUR)
    hook.status = status
    found = {one.hook: one.error for one in send_alerts(config, ledger, NOW)}
    assert found == {
        "webhook": f"it answered with status {status}",
        "services.a": "it could not be reached (ConnectionRefusedError)",
        "services.b": f"it answered with status {status}",
    }
    assert len(hook.bodies) == 2
    hook.status = 200
    found = {one.hook: one.delivered for one in send_alerts(config, ledger, NOW)}
    assert found == {"webhook": True, "services.a": False, "services.b": True}
    assert [one.hook for one in send_alerts(config, ledger, NOW)] == ["services.a"]


def test_a_service_that_does_not_answer_is_left(
    make: Make, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alert_services, "_WHOLE", 0.2)
    config, ledger = make({"PAGER": service(hook)}, services={"pager": "${env:PAGER}"})
    loaded(ledger, NOW - 3 * HOUR)
    hook.gate.clear()
    (told,) = send_alerts(config, ledger, NOW)
    hook.gate.set()
    assert told.error == "it did not answer within 0.2 seconds"


@pytest.mark.parametrize("level", [logging.NOTSET, 1])
def test_nothing_that_is_logged_or_kept_shows_a_secret(
    make: Make, hook: Hook, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    """Apprise logs URLs and addresses, urllib3 the path; both at DEBUG, Apprise below it too."""
    environ = {
        "PAGER": service(hook, login=f"mirror:{SECRET}@"),
        "DEAD": DEAD,
        "BAD": f"nosuch://mirror:{SECRET}@127.0.0.1/{SECRET}",
        "HOOK": hook.url,
        "MAIL": SECRET,
    }
    mail = {**MAIL, "port": 1, "user": "mirror", "password": "${env:MAIL}"}
    services = {"pager": "${env:PAGER}", "dead": "${env:DEAD}", "bad": "${env:BAD}"}
    config, ledger = make(environ, slack="${env:HOOK}", email=mail, services=services)
    loaded(ledger, NOW - 3 * HOUR)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(level, "apprise")
    shown: list[str] = []
    for hook.status in (500, 200):
        with pytest.raises(ConfigError) as raised:
            send_alerts(config, ledger, NOW)
        shown += [str(raised.value), repr(raised.value.__cause__), repr(raised.value.__context__)]
        shown += [str(send_test(config)), str(rows(ledger))]
    assert len(hook.bodies) == 8
    assert "alert hook services.pager was not reached" in caplog.text
    assert SECRET not in repr(config)
    # Neither secrets nor addresses, nor anything else in words of Apprise's.
    for text in (caplog.text, *shown):
        for hidden in (SECRET, "127.0.0.1", MAIL["to"][0]):
            assert hidden not in text
    assert {r.name for r in caplog.records if r.name.startswith(("apprise", "urllib3"))} == set()


def test_others_go_on_to_log_with_the_same_libraries(
    make: Make, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    config, _ = make({"PAGER": service(hook)}, services={"pager": "${env:PAGER}"})
    assert send_test(config) == {"services.pager": None}
    caplog.set_level(logging.DEBUG)
    logging.getLogger("urllib3.connectionpool").debug("somebody else's request")
    logging.getLogger("apprise").debug("somebody else's message")
    assert [r.getMessage() for r in caplog.records] == [
        "somebody else's request",
        "somebody else's message",
    ]


# --- URLs that can't be used ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (f"nosuch://{SECRET}/x", "Apprise does not understand the URL in PAGER"),
        (f"slack://{SECRET}", "Apprise does not understand the URL in PAGER"),
        (f"json://m:{SECRET}@hook.example.com/x", "the URL in PAGER would send its password"),
        (f"mailto://m:{SECRET}@mail.example.com", "the URL in PAGER would send its password"),
    ],
)
def test_a_url_that_can_not_be_used_is_one_error_and_the_others_are_told(
    make: Make, hook: Hook, monkeypatch: pytest.MonkeyPatch, url: str, words: str
) -> None:
    environ = {"PAGER": url, "HOOK": hook.url, "WELL": service(hook)}
    services = {"pager": "${env:PAGER}", "well": "${env:WELL}"}
    config, ledger = make(environ, services=services, slack="${env:HOOK}")
    loaded(ledger, NOW - 3 * HOUR)
    with pytest.raises(ConfigError) as raised:
        send_alerts(config, ledger, NOW)
    assert str(raised.value).startswith("alerts.services.pager: ")
    assert words in str(raised.value)
    assert (raised.value.__cause__, raised.value.__context__) == (None, None)
    assert len(hook.bodies) == 2
    assert {row[0] for row in rows(ledger)} == {"slack", "services.well"}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    tested = CliRunner().invoke(cli, ["alert", "--test", "--config", str(config.path)])
    assert tested.exit_code == 1
    assert "slack: the test message was delivered" in tested.output
    assert "services.well: the test message was delivered" in tested.output
    assert words in tested.output
    assert SECRET not in tested.output + str(raised.value)


@pytest.mark.parametrize(
    ("services", "words"),
    [
        (
            {"pager": "${env:SHAPELESS}"},
            "services.pager: the variable SHAPELESS holds no Apprise URL",
        ),
        ({"pager": "${env:MISSING}"}, "the environment variable MISSING is not set"),
        ({"pager": f"json://{SECRET}"}, "a secret is not written into this file"),
        ({"on call": "${env:PAGER}"}, "a service's name is 1 to 32 letters"),
        ({"x" * 33: "${env:PAGER}"}, "a service's name is 1 to 32 letters"),
    ],
)
def test_services_that_do_not_load(make: Make, services: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        make({"SHAPELESS": SECRET, "PAGER": "json://127.0.0.1"}, services=services)
    assert words in str(raised.value)
    assert "has 1 problem:" in str(raised.value)
    assert SECRET not in str(raised.value)


def test_a_variable_that_is_not_set_stops_its_own_hook_alone(make: Make, hook: Hook) -> None:
    config, ledger = make(
        {"PAGER": "json://127.0.0.1", "WELL": service(hook)},
        services={"pager": "${env:PAGER}", "well": "${env:WELL}"},
    )
    config = load_config(config.path, environ={"WELL": service(hook)}, secrets="when used")
    loaded(ledger, NOW - 3 * HOUR)
    with pytest.raises(ConfigError, match="variable PAGER is not set"):
        send_alerts(config, ledger, NOW)
    assert len(hook.bodies) == 1


def test_the_command_tells_and_tests_every_kind(
    make: Make, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Kept()
    server = serve(kept)
    try:
        environ = {"PAGER": service(hook), "HOOK": hook.url}
        config, _ = make(
            environ,
            webhook="${env:HOOK}",
            slack="${env:HOOK}",
            email={**MAIL, "port": server.port, "tls": "off"},
            services={"pager": "${env:PAGER}"},
        )
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        arguments = ["alert", "--test", "--json", "--config", str(config.path)]
        tested = json.loads(CliRunner().invoke(cli, arguments).stdout)
    finally:
        server.stop()
    assert {one["hook"]: one["delivered"] for one in tested} == dict.fromkeys(
        ("webhook", "slack", "email", "services.pager"), True
    )
    texts = [body.get("text") or body["message"] for body in hook.bodies]
    assert texts == ["Mirrorlake: this is a test of the alert hook."] * 3
    assert b"Subject: Mirrorlake: test" in kept.mails[0].content


def test_what_one_setting_needs_is_not_imported_before(tmp_path: Path) -> None:
    text = {
        "version": 1,
        "alerts": {"services": {"pager": "${env:PAGER}"}},
        "sources": {"s": {"host": "h", "user": "u", "databases": {"d": {"tables": {}}}}},
    }
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text))
    look = (
        "import sys; from pathlib import Path; import mirrorlake.cli.main, mirrorlake.alerts.late_tables;"
        "import mirrorlake.operations.status.status, mirrorlake.operations.checking.readers; import sensors;"
        "from mirrorlake.config import load_config; load_config(Path(sys.argv[1]),"
        " environ={'PAGER': 'json://127.0.0.1'});"
        "sys.exit(' '.join({'apprise', 'trino'} & {*sys.modules}) or None)"
    )
    subprocess.run([sys.executable, "-c", look, str(path)], check=True)


# --- passwords and addresses ----------------------------------------------------------------------


def test_a_service_gets_its_password_whatever_is_in_it(make: Make, hook: Hook) -> None:
    url = service(hook, login=f"mirror:{quote(HARD, safe='')}@")
    config, _ = make({"PAGER": url}, services={"pager": "${env:PAGER}"})
    assert send_test(config) == {"services.pager": None}
    (login,) = hook.logins
    assert login is not None
    assert base64.b64decode(login.removeprefix("Basic ")).decode("latin-1") == f"mirror:{HARD}"


def test_slack_keeps_its_address_as_it_is_written(make: Make, hook: Hook) -> None:
    path = f"/{SECRET}%2Fb%25c/d?e=%20f&e=g"
    config, _ = make({"HOOK": hook.url.replace(f"/{SECRET}", path)}, slack="${env:HOOK}")
    assert send_test(config) == {"slack": None}
    assert hook.paths == [path]


@pytest.mark.parametrize("password", [HARD.removesuffix("é") + "%41&+'\"\\ ${x}", HARD])
def test_a_mail_servers_password_survives(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, password: str
) -> None:
    """All of ASCII. Python's smtplib can't send other characters, and then says so."""
    write_certificates(tmp_path / "tls", "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "tls" / "cert.pem", tmp_path / "tls" / "key.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "tls" / "ca.pem"))
    seen: list[LoginPassword] = []

    def keep(_server: Any, _session: Any, _envelope: Any, _how: Any, login: Any) -> AuthResult:
        seen.append(login)
        return AuthResult(success=True)

    kept = Kept()
    server = serve(
        kept, tls_context=context, require_starttls=True, authenticator=keep, auth_required=True
    )
    try:
        user = "a%40b@c:d/e"
        mail = {**MAIL, "port": server.port, "user": user, "password": "${env:MAIL}"}
        config, _ = make({"MAIL": password}, email=mail)
        (error,) = send_test(config).values()
    finally:
        server.stop()
    if password == HARD:
        assert error == "its login or an address has characters that the protocol does not take"
    else:
        assert error is None
        assert [(one.login, one.password) for one in seen] == [(user.encode(), password.encode())]
        assert len(kept.mails) == 1


class Choosy(Kept):
    """Refuses one recipient for good, as a server does when somebody has left."""

    async def handle_RCPT(self, _s: Any, _t: Any, envelope: Any, address: str, _o: Any) -> str:
        if address.startswith("gone"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"


def mailed(make: Make, kept: Kept, **mail: Any) -> tuple[Config, list[str | None]]:
    server = serve(kept)
    try:
        config, _ = make({}, email={**MAIL, "port": server.port, "tls": "off", **mail})
        return config, list(send_test(config).values())
    finally:
        server.stop()


def test_one_recipient_that_is_refused_does_not_mail_the_others_again(make: Make) -> None:
    kept = Choosy()
    _, errors = mailed(make, kept, to=["gone@example.com", "data@example.com"])
    assert (errors, [mail.rcpt_tos for mail in kept.mails]) == ([None], [["data@example.com"]])
    _, errors = mailed(make, Choosy(), to=["gone@example.com"])
    assert errors == ["it could not be reached (SMTPRecipientsRefused)"]


def test_addresses_that_apprise_takes_for_none_are_mailed_too(make: Make) -> None:
    kept, to = Kept(), ["ops@b", "o'neil+x@example.com", "data@localhost"]
    _, errors = mailed(make, kept, sender="mirror@h", to=to)
    assert errors == [None]
    assert [mail.rcpt_tos for mail in kept.mails] == [[address] for address in to]
    assert {mail.mail_from for mail in kept.mails} == {"mirror@h"}
