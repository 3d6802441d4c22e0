"""A server in one line, ``mysql://user:password@host:port/db``, as ``init --from`` takes it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import quote, unquote

from pydantic import SecretStr

from mirrorlake.config.fields import nearest
from mirrorlake.config.server import SourceConfig, Tls, TlsConfig
from mirrorlake.errors import ConfigError

_SHAPE = "Write it like mysql://user:password@host:3306/database"
_ENCODED = "in a password write @ / ? # % as %40 %2F %3F %23 %25"
_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://"
    r"(?:(?P<login>[^/?#]*)@)?"
    r"(?P<host>\[[^\]/?#@]*\]|[^:/?#@]*)(?::(?P<port>[^/?#@]*))?"
    r"(?:/(?P<database>[^/?#]*))?(?:\?(?P<query>[^#]*))?",
    re.DOTALL,
)


@dataclass(frozen=True)
class SourceUrl:
    """A server and how it is reached; ``database`` is None where the URL names none."""

    host: str
    port: int
    user: str
    password: SecretStr
    database: str | None
    tls: Tls

    @property
    def shown(self) -> str:
        """The URL without its password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        database = f"/{quote(self.database, safe='')}" if self.database else ""
        where = f"mysql://{quote(self.user, safe='')}@{host}:{self.port}{database}"
        if isinstance(self.tls, TlsConfig):
            return f"{where}?ca={quote(self.tls.ca, safe='/')}"
        return where if self.tls == default_tls(self.host) else f"{where}?tls={self.tls}"

    def source(self, name: str) -> SourceConfig:
        """The same as a source called ``name``, in UTC."""
        return SourceConfig(
            name=name,
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            tls=self.tls,
        )


def parse_source_url(url: str) -> SourceUrl:
    """Read ``mysql://user:password@host:port/db?tls=…&ca=…``.

    User, password and database are percent-decoded. Port 3306, no database and the TLS of
    `default_tls` where the URL says nothing.

    Raises:
        ConfigError: a part is missing or wrong. The message never holds the URL: it has a password.
    """
    match = _URL.fullmatch(url)
    scheme = url.partition("://")[0].lower() if "://" in url else ""
    if scheme not in ("mysql", "mariadb"):
        raise ConfigError("the source's URL does not begin with mysql://", next_step=_SHAPE)
    if match is None:
        raise ConfigError(
            "the source's URL can't be read",
            next_step=f"{_SHAPE}; {_ENCODED}",
        )
    user, _, password = (match["login"] or "").partition(":")
    host = match["host"].strip("[]")
    if "@" in f"{match['database']}{match['query']}":
        # What follows the host is a part of a password then: it is not shown, nor looked for.
        raise ConfigError(
            "the source's URL has an @ after its host",
            next_step=f"{_SHAPE}; {_ENCODED}",
        )
    if not host or not user:
        missing = "host" if not host else "user"
        raise ConfigError(f"the source's URL names no {missing}", next_step=f"{_SHAPE}; {_ENCODED}")
    return SourceUrl(
        host=_decoded(host, "host"),
        port=_port(match["port"]),
        user=_decoded(user, "user"),
        password=SecretStr(_decoded(password, "password")),
        database=_decoded(match["database"] or "", "database") or None,
        tls=_tls(match["query"] or "") or default_tls(host),
    )


def default_tls(host: str) -> Tls:
    """``off`` for a loopback address, whose packets leave no machine, else ``required``."""
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = host.casefold() == "localhost"
    return "off" if loopback else "required"


def _decoded(text: str, part: str) -> str:
    message = f"the {part} in the source's URL is not percent-encoded UTF-8"
    refusal = ConfigError(message, next_step="Write a literal % as %25")
    if re.search(r"%(?![0-9A-Fa-f]{2})", text):
        raise refusal
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        # Not chained: the cause would show the text, which may be the password.
        raise refusal from None


def _port(text: str | None) -> int:
    if text is None:
        return 3306
    if re.fullmatch(r"[0-9]{1,5}", text) and 1 <= int(text) <= 65535:
        return int(text)
    raise ConfigError(
        "the port in the source's URL is not a number from 1 to 65535",
        next_step=f"{_SHAPE}; in a password write @ / : ? # % as %40 %2F %3A %3F %23 %25",
    )


def _tls(query: str) -> Tls | None:
    found: dict[str, str] = {}
    for pair in filter(None, query.split("&")):
        name, _, value = pair.partition("=")
        if name not in ("tls", "ca"):
            raise ConfigError(
                f"the source's URL has an unknown setting {name!r}{nearest(name, ['tls', 'ca'])}",
                next_step="Known are tls=off, tls=required and ca=<file>",
            )
        found[name] = _decoded(value, name)
    mode = found.get("tls", "required")
    if mode not in ("off", "required") or ("ca" in found and (mode == "off" or not found["ca"])):
        raise ConfigError(
            "tls in the source's URL is off, or required, or a file of authorities is named",
            next_step="Write ?tls=off, ?tls=required or ?ca=<file>",
        )
    if "ca" in found:
        return TlsConfig(ca=found["ca"])
    return ("off" if mode == "off" else "required") if "tls" in found else None
