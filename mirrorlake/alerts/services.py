"""Alerts through Apprise: `alerts.slack`, `alerts.email` and `alerts.services`.

Importing this imports Apprise (about 0.1 s), so it is imported where a message is sent. Apprise
logs URLs and addresses, and reports a failure as False and a line in its log. Nothing that it, or
the HTTP client below it, logs while it works for us reaches a handler; of a failure we keep the
exception's class or the status code, never its text.
"""

from __future__ import annotations

import contextvars
import logging
import re
import smtplib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from urllib.parse import quote, urlsplit

from apprise import Apprise, AppriseAsset, NotifyBase, NotifyFormat, NotifyType
from apprise.plugins.custom_json import NotifyJSON
from apprise.plugins.email import NotifyEmail
from apprise.result import AppriseResultStatus

from mirrorlake.alerts.config import SERVICES, AlertsConfig, EmailConfig, ServiceUrl
from mirrorlake.config.source_url import default_tls
from mirrorlake.errors import ConfigError

Tone = Literal["warning", "success", "info"]
"""What a message is: services show it by a colour, or open and close an incident by it."""

_TONES: Final[Mapping[Tone, NotifyType]] = {
    "warning": NotifyType.WARNING,
    "success": NotifyType.SUCCESS,
    "info": NotifyType.INFO,
}
TIMEOUT: Final = 15.0
"""Seconds that a service may take for each answer."""
_WHOLE: Final = 30.0
"""Seconds for a delivery as a whole: some services take many requests. Less than a claim lasts."""
_SMTP_MODES: Final = {"starttls": "starttls", "on": "ssl", "off": "insecure"}
_LOGGING: Final = ("apprise", "urllib3", "requests", "requests_oauthlib", "oauthlib")
"""Packages whose logs may hold a URL."""


def _asset() -> AppriseAsset:
    return AppriseAsset(
        app_id="Mirrorlake",
        app_desc="Mirrorlake",
        # A POST that is redirected would become a GET: an answer like that is a failure.
        http_redirects=False,
        # `:name:` in a table's name is no emoji.
        interpret_emojis=False,
    )


# --- opening a hook -------------------------------------------------------------------------------


def open_service(config: AlertsConfig, hook: str) -> NotifyBase:
    """The Apprise service that delivers to a hook; sends nothing.

    Raises:
        ConfigError: the hook's variable is not set, or holds nothing that Apprise understands.
    """
    with _quiet():
        if hook == "slack" and config.slack is not None:
            service = _slack(config.slack.get_secret_value())
        elif hook == "email" and config.email is not None:
            service = _email(config.email)
        else:
            service = _named(hook, config)
    service.verify_certificate = True
    service.redirects = False
    # `optional=yes` would call a failure a success, and the hook would never be notified.
    service.optional = False
    service.socket_connect_timeout = service.socket_read_timeout = TIMEOUT
    return service


def _named(hook: str, config: AlertsConfig) -> NotifyBase:
    secret = config.services[hook.removeprefix(SERVICES)]
    url = secret.get_secret_value()
    named = f"the URL in {secret.variable}" if isinstance(secret, ServiceUrl) else "its URL"
    service = Apprise.instantiate(url, asset=_asset())
    if service is None:
        raise ConfigError(
            f"alerts.{hook}: Apprise does not understand {named}",
            next_step="https://appriseit.com/services/ says how each service's URL is written",
        )
    if _password_in_the_clear(service):
        raise ConfigError(
            f"alerts.{hook}: {named} would send its password without TLS",
            next_step="Use the service's encrypted form, like jsons:// or mailtos://",
        )
    return service


def _password_in_the_clear(service: NotifyBase) -> bool:
    plain: Any = service.protocol or ()
    schemas = (plain,) if isinstance(plain, str) else tuple(plain)
    host = str(getattr(service, "smtp_host", None) or service.host or "")
    return (
        bool(service.password)
        and service.schema in schemas
        and not service.secure
        and default_tls(host) != "off"
    )


def _slack(url: str) -> NotifyBase:
    """Slack's own plugin knows no other host and adds a picture and a footer; ours is the JSON
    that Mattermost, Rocket.Chat and other Slack-compatible hooks take, too."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(
            "alerts.slack: its variable holds no web address",
            next_step="Copy the address of the incoming webhook",
        ) from None
    host = parts.netloc.rpartition("@")[2]
    rest = parts._replace(scheme="", netloc="", fragment="").geturl()
    # Apprise decodes host and login, as if they came from a URL of its own; not the path.
    return NotifyJSON(
        schema="jsons" if parts.scheme.lower() == "https" else "json",
        host=quote(host.removesuffix(f":{port}"), safe="[]:"),
        port=port,
        user=parts.username,
        password=parts.password,
        fullpath=rest or "/",
        # The field `message` is called `text`; the others are left out.
        payload={"message": "text", "version": "", "title": "", "attachments": "", "type": ""},
        asset=_asset(),
    )


class _Mail(NotifyEmail):
    """One mail per recipient; delivered once any recipient's was taken.

    Otherwise one address that the server refuses would send the mail to all the others again at
    every look.
    """

    _taken = False

    def mark_delivered(self, key: Any, per_message: bool = False) -> None:
        self._taken = True
        super().mark_delivered(key, per_message)

    def send(self, *args: Any, **kwargs: Any) -> bool:
        return bool(super().send(*args, **kwargs)) or self._taken


def _email(mail: EmailConfig) -> NotifyBase:
    secret = None if mail.password is None else mail.password.get_secret_value()
    service = _Mail(
        schema="mailtos" if mail.tls != "off" else "mailto",
        smtp_host=mail.host,
        port=mail.port,
        secure_mode=_SMTP_MODES[mail.tls],
        user=None if mail.user is None else quote(mail.user, safe=""),
        password=None if secret is None else quote(secret, safe=""),
        from_addr="mirrorlake@example.com",
        asset=_asset(),
    )
    # Set here, not above: Apprise leaves out addresses that don't look to it like one.
    service.from_addr = (False, mail.sender)
    service.targets = [(False, address) for address in mail.to]
    return service


# --- sending --------------------------------------------------------------------------------------


def notify(service: NotifyBase, title: str, body: str, tone: Tone) -> str | None:
    """Send a message through a service; why it was not delivered, None where it was.

    The words hold no address and no secret.
    """
    with _quiet() as heard:
        result = Apprise([service]).notify(
            body=body,
            title=title,
            notify_type=_TONES[tone],
            body_format=NotifyFormat.TEXT,
            timeout=_WHOLE,
        )
    if result.status == AppriseResultStatus.SUCCESS:
        return None
    if result.status == AppriseResultStatus.TIMEOUT:
        return f"it did not answer within {_WHOLE:g} seconds"
    return heard.words()


@dataclass
class _Heard:
    """What Apprise logged during one delivery, as far as it may be shown."""

    status: str | None = None
    errors: list[BaseException] = field(default_factory=list)

    def hear(self, record: logging.LogRecord) -> None:
        # Apprise logs inside its except blocks and says nothing of the exception's class.
        error = sys.exc_info()[1]
        if error is not None and not self.errors:
            self.errors = list(_chain(error))
        try:
            found = re.search(r"\berror=(\d{3})\b", record.getMessage())
        except (TypeError, ValueError):
            return
        if found and self.status is None:
            self.status = found[1]

    def words(self) -> str:
        for error in self.errors:
            if isinstance(error, smtplib.SMTPResponseException):
                return f"the mail server refused with code {error.smtp_code}"
            if isinstance(error, UnicodeEncodeError):
                return "its login or an address has characters that the protocol does not take"
        if self.status is not None:
            return f"it answered with status {self.status}"
        if self.errors:
            return f"it could not be reached ({type(self.errors[-1]).__name__})"
        return "it did not take the message"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and what led to it: the client's own comes last."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


_hearing: contextvars.ContextVar[_Heard | None] = contextvars.ContextVar("hearing", default=None)


class _Quiet(logging.Filter):
    """Keeps what is logged on our behalf from every handler; Apprise's threads inherit the context.

    Others who use these libraries in this process see no difference.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        heard = _hearing.get()
        if heard is None:
            return record.name != "apprise" or record.levelno >= logging.root.level
        if record.name == "apprise":
            heard.hear(record)
        return False


_QUIET: Final = _Quiet()


@contextmanager
def _quiet() -> Iterator[_Heard]:
    # Some causes are logged for debugging alone.
    apprise = logging.getLogger("apprise")
    if apprise.level == logging.NOTSET:
        apprise.setLevel(logging.DEBUG)
    for name in ("urllib3.connectionpool", *logging.root.manager.loggerDict):
        if name.partition(".")[0] in _LOGGING:
            logging.getLogger(name).addFilter(_QUIET)
    heard = _Heard()
    token = _hearing.set(heard)
    try:
        yield heard
    finally:
        _hearing.reset(token)
