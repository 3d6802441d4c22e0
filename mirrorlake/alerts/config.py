"""The `alerts` section: who is notified when a table is late or keeps failing."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import (
    AfterValidator,
    Field,
    SecretStr,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from mirrorlake.config.fields import Findings, Port, Section
from mirrorlake.config.secrets import PLACEHOLDER, Secret, UnsetSecret
from mirrorlake.config.sections.added import AddedSection

SERVICES: Final = "services."
"""What the names of hooks under ``alerts.services`` begin with."""


def _http(url: SecretStr) -> SecretStr:
    if not isinstance(url, UnsetSecret) and not url.get_secret_value().startswith(
        ("http://", "https://")
    ):
        raise ValueError("the variable holds no address that begins with https:// or http://")
    return url


class ServiceUrl(SecretStr):
    """An Apprise URL that knows the environment variable it came from, so that errors name it."""

    def __init__(self, url: str, variable: str) -> None:
        super().__init__(url)
        self.variable = variable


def _service(value: object, read: ValidatorFunctionWrapHandler) -> SecretStr:
    """The shape alone: whether Apprise understands the URL is only known once it is imported."""
    found: SecretStr = read(value)
    match = PLACEHOLDER.fullmatch(value) if isinstance(value, str) else None
    if isinstance(found, UnsetSecret) or match is None:
        return found
    url = found.get_secret_value()
    if not re.match(r"[A-Za-z0-9]{1,32}://.", url):
        raise ValueError(
            f"the variable {match[1]} holds no Apprise URL, which begins like msteams:// or json://"
        )
    return ServiceUrl(url, match[1])


def _service_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", name):
        raise ValueError("a service's name is 1 to 32 letters, digits, hyphens and underscores")
    return name


_Address = Annotated[
    str, Field(pattern=r"^[^@\s<>,]+@[^@\s<>,]+$", description="An e-mail address.")
]
_HttpUrl = Annotated[Secret, AfterValidator(_http)]
_ServiceName = Annotated[str, AfterValidator(_service_name)]
_ServiceUrl = Annotated[Secret, WrapValidator(_service)]


class EmailConfig(Section):
    """Alerts by e-mail, through an SMTP server."""

    host: str = Field(min_length=1)
    """The SMTP server."""
    port: Port = 587
    """Its port: 587 for ``starttls``, 465 for ``on``, 25 for ``off``."""
    tls: Literal["starttls", "on", "off"] = "starttls"
    """``starttls`` (begins plain, is then encrypted), ``on`` (encrypted from the start) or ``off``.
    The server's certificate and name are checked. A password is never sent without it."""
    user: str | None = None
    """The account. Without it: no login."""
    password: Secret | None = None
    """Its password, as ``${env:NAME}``."""
    sender: _Address
    """The address that the mails come from."""
    to: tuple[_Address, ...] = Field(min_length=1)
    """The addresses that they go to."""

    @model_validator(mode="after")
    def _whole_login(self) -> EmailConfig:
        if (self.user is None) != (self.password is None):
            raise Findings([("user", "a login has a user and a password: name both, or neither")])
        if self.password is not None and self.tls == "off":
            raise Findings([("tls", "a password is not sent without TLS: use starttls or on")])
        return self


class AlertsConfig(AddedSection):
    """Who is notified, once, when a table becomes late or keeps failing, and when that is over."""

    secrets: ClassVar[str] = "webhook|slack|email/password|services/[^/]*"

    webhook: _HttpUrl | None = None
    """An address, as ``${env:NAME}``, that is sent JSON by POST."""
    slack: _HttpUrl | None = None
    """A Slack incoming webhook, or one that takes the same JSON, as ``${env:NAME}``."""
    email: EmailConfig | None = None
    """An SMTP server and addresses."""
    services: dict[_ServiceName, _ServiceUrl] = Field(default_factory=dict)
    """Any service that Apprise knows (Teams, PagerDuty, Telegram…): a name of your own, and the
    service's Apprise URL as ``${env:NAME}``."""
    failures: int = Field(default=3, ge=1)
    """After how many failed loads in a row a table counts as failing."""

    @property
    def hooks(self) -> tuple[str, ...]:
        """The names of the hooks that are set; a service's is ``services.<name>``."""
        own = (n for n in ("webhook", "slack", "email") if getattr(self, n) is not None)
        return (*own, *(f"{SERVICES}{name}" for name in self.services))
