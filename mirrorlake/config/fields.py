"""The types of single values: durations, days, names, and secrets from the environment; and what
every section of the file has in common."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date, timedelta, timezone, tzinfo
from difflib import get_close_matches
from typing import Annotated, Any, Final, cast
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
)
from typing_extensions import override

from mirrorlake.errors import ConfigError

HIDDEN: Final = "**********"


class Findings(ValueError):
    """Problems that a section sees as a whole, each with the field that it is about."""

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(message for _, message in self.found))


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
# As MySQL has it: from -13:59 to +14:00.
_OFFSET = re.compile(r"([+-])(0?\d|1[0-4]):([0-5]\d)", re.ASCII)
PLACEHOLDER = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(
    r"passw|pwd|secret|token|credential|(access|account|private|api)[-_.]?key", re.IGNORECASE
)


def parse_duration(text: str) -> timedelta:
    """``90s``, ``30m``, ``1h30m``, ``2d`` → a timedelta.

    Raises:
        ValueError: not such a text; the message says how to write one.
    """
    match = _DURATION.fullmatch(text)
    if not text or match is None:
        raise ValueError(f"{text!r} is not a duration: write it like 15s, 30m, 1h or 2d")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    try:
        return timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any window can be") from error


def format_duration(length: timedelta) -> str:
    """The shortest text that `parse_duration` reads back as ``length`` (whole seconds)."""
    minutes, seconds = divmod(int(length.total_seconds()), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = ((days, "d"), (hours, "h"), (minutes, "m"), (seconds, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"


def nearest(name: str, known: Mapping[str, object] | list[str] | set[str]) -> str:
    """`` Did you mean 'x'?``, or nothing where no known name is near."""
    lower = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower(), sorted(lower), n=1, cutoff=0.6)
    return f"; did you mean {lower[found[0]]!r}?" if found else ""


def is_secret_name(name: str) -> bool:
    """Whether a property called so must not hold a literal (``s3.secret-key``, ``token``)."""
    return _SECRET_NAME.search(name) is not None


def has_placeholder(text: str) -> bool:
    """Whether ``text`` means to take something from the environment, even if badly written."""
    return "${env:" in text


def hide_url(url: str) -> str:
    """``url`` without its password and without the values of its query."""
    head, mark, query = url.partition("?")
    match = re.fullmatch(r"([^:/]+://)(.*)@([^@]*)", head, re.DOTALL)
    if match:
        scheme, login, rest = match.groups()
        user, colon, _ = login.partition(":")
        head = f"{scheme}{user}{':***' if colon else ''}@{rest}"
    elif "://" not in head:
        return HIDDEN
    return head + mark + re.sub(r"=[^&]*", "=***", query)


class UnsetSecret(SecretStr):
    """A secret whose environment variable is not set: an error where it is used, not before."""

    def __init__(self, name: str, place: str) -> None:
        super().__init__("")
        self.name, self.place = name, place

    def get_secret_value(self) -> str:
        """Never a value.

        Raises:
            ConfigError: always; it names the variable and the place that takes it.
        """
        raise ConfigError(
            f"{self.place}: the environment variable {self.name} is not set",
            next_step=f"Set {self.name}, then try again",
        )

    def __repr__(self) -> str:
        return f"UnsetSecret({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnsetSecret) and other.name == self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __len__(self) -> int:
        return 0


def _environment(info: ValidationInfo) -> Mapping[str, str]:
    context = cast("Mapping[str, Any] | None", info.context)
    return context["environ"] if context else os.environ


def _place_if_unset(placeholder: str, info: ValidationInfo) -> tuple[str, str] | None:
    """The variable of a secret that may be looked up when it is used and is not set now, and the
    place in the file that takes it; None where it must be looked up at once."""
    match = PLACEHOLDER.fullmatch(placeholder)
    context = cast("Mapping[str, Any] | None", info.context)
    places = cast("Mapping[str, str] | None", context.get("places")) if context else None
    if match is None or places is None or match[1] in _environment(info):
        return None
    return match[1], places.get(match[1], "")


def _replace(text: str, info: ValidationInfo, encode: Callable[[str], str] = str) -> str:
    environ = _environment(info)

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in environ:
            raise ValueError(f"the environment variable {name} is not set: set it, then try again")
        return encode(environ[name])

    rest = PLACEHOLDER.sub("", text)
    if has_placeholder(rest):
        raise ValueError("a placeholder is written ${env:NAME}, of letters, digits and underscores")
    return PLACEHOLDER.sub(value, text)


def _secret(value: object, info: ValidationInfo) -> object:
    if isinstance(value, SecretStr) or value is None:
        return value
    if not isinstance(value, str) or not PLACEHOLDER.fullmatch(value):
        raise ValueError(
            "a secret is not written into this file: write ${env:NAME} and set that variable"
        )
    unset = _place_if_unset(value, info)
    return SecretStr(_replace(value, info)) if unset is None else UnsetSecret(*unset)


def _property(value: object, info: ValidationInfo) -> object:
    return _replace(value, info) if isinstance(value, str) else value


def _properties(value: object) -> object:
    if not isinstance(value, dict):
        return value
    found = [
        (name, "a secret is not written into this file: write ${env:NAME} and set that variable")
        for name, text in cast("dict[str, object]", value).items()
        if is_secret_name(name) and isinstance(text, str) and not has_placeholder(text)
    ]
    if found:
        raise Findings(found)
    return cast("object", value)


def _url(value: object, info: ValidationInfo) -> object:
    if not isinstance(value, str):
        return value
    _refuse_literal_password(value)
    head, mark, query = value.partition("?")
    login, at, rest = head.rpartition("@")
    # A password may hold '@', '/' or '%', so that it is encoded for its place in a URL.
    login = _replace(login, info, encode=lambda text: quote(text, safe=""))
    return login + at + _replace(rest, info) + mark + _replace(query, info)


def _server_url(value: object, info: ValidationInfo) -> object:
    """As `_url`; a password that may be looked up when it is used stays a placeholder."""
    if isinstance(value, str):
        _refuse_literal_password(value)
        login, at, rest = value.rpartition("@")
        user, colon, password = login.partition("://")[2].partition(":")
        if at and colon and "$" not in user and _place_if_unset(password, info) is not None:
            return login + at + _replace(rest, info)
    return _url(value, info)


def _refuse_literal_password(template: str) -> None:
    blank = PLACEHOLDER.sub("\0", template)
    head, _, query = blank.partition("?")
    login = head.partition("://")[2].rpartition("@")[0]
    literal = login.partition(":")[2].replace("\0", "")
    for name, _, text in (pair.partition("=") for pair in query.split("&")):
        literal += text.replace("\0", "") if is_secret_name(name) else ""
    if literal:
        raise ValueError(
            "a password is not written into this file: write ${env:NAME} in its place"
            " and set that variable"
        )


def _sqlite_file(url: str) -> str:
    if re.fullmatch(r"sqlite(\+\w+)?:(//?/?)?(:memory:)?(\?.*)?", url):
        raise ValueError("a database in memory forgets: name a file, like sqlite:///folder/file.db")
    if "://" not in url:
        raise ValueError("this is not a database URL, like sqlite:///file.db or postgresql://…")
    return url


def _duration(value: object) -> object:
    return parse_duration(value) if isinstance(value, str) else value


def _day(value: object) -> object:
    if isinstance(value, date) or value is None:
        return value
    # Pydantic alone would read 20260101 as seconds since 1970.
    if isinstance(value, str) and re.fullmatch(r"\d{4}-\d{2}-\d{2}", value, re.ASCII):
        try:
            return date.fromisoformat(value)
        except ValueError as error:
            raise ValueError(f"{value} is not a day of the calendar") from error
    raise ValueError("a day is written like 2026-01-31")


def _mysql_name(name: str) -> str:
    if not name or len(name) > 64 or "\0" in name:
        raise ValueError("a MySQL name has 1 to 64 characters and no NUL")
    return name


def _source_name(name: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"a source's name is part of names in the lake: write {name!r} with lower-case letters,"
            " digits and underscores, beginning with a letter"
        )
    return name


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError("a namespace is written with letters, digits and underscores")
    return name


def _owner(name: str) -> str:
    if not re.fullmatch(r"team:\S.*|[^@\s]+@[^@\s]+\.[^@\s]+", name):
        raise ValueError(f"an owner is an e-mail address or team:<name>, not {name!r}")
    return name


def zone_of(name: str) -> tzinfo:
    """A zone by its name (``Europe/Berlin``), or by its offset where it always has the same.

    >>> zone_of("+05:30").utcoffset(None)
    datetime.timedelta(seconds=19800)

    Raises:
        ValueError: there is no such zone.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        length = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone(-length if offset[1] == "-" else length)
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(f"unknown time zone {name!r}") from error


def _time_zone(name: str) -> str:
    try:
        zone_of(name)
    except ValueError as error:
        raise ValueError(
            f"unknown time zone {name!r}{nearest(name, available_timezones())}"
        ) from error
    return name


_DURATION_SCHEMA: Final = {
    "type": "string",
    "pattern": r"^(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s)?$",
    "examples": ["15s", "30m", "1h", "2d"],
}
_SECRET_SCHEMA: Final = {"type": "string", "pattern": r"^\$\{env:[A-Za-z_][A-Za-z0-9_]*\}$"}

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
]
Day = Annotated[date, BeforeValidator(_day)]
Secret = Annotated[SecretStr, BeforeValidator(_secret), WithJsonSchema(_SECRET_SCHEMA)]
DatabaseUrl = Annotated[
    str,
    AfterValidator(_sqlite_file),
    BeforeValidator(_url),
    PlainSerializer(hide_url, return_type=str),
]
ServerUrl = Annotated[str, BeforeValidator(_server_url), PlainSerializer(hide_url, return_type=str)]
Properties = Annotated[
    dict[str, Annotated[str, BeforeValidator(_property)]],
    BeforeValidator(_properties),
    PlainSerializer(lambda found: dict.fromkeys(found, HIDDEN), return_type=dict[str, str]),
]
MysqlName = Annotated[str, AfterValidator(_mysql_name)]
SourceName = Annotated[str, AfterValidator(_source_name)]
NamespaceName = Annotated[str, AfterValidator(_namespace)]
Owner = Annotated[str, AfterValidator(_owner)]
TimeZone = Annotated[str, AfterValidator(_time_zone)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Section(BaseModel):
    """A part of the file: frozen, and an unknown key is an error. Shown without any secret."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    @override
    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            if name in ("url", "uri", "replica") and isinstance(value, str):
                yield name, hide_url(value)
            elif name in ("properties", "conf") and isinstance(value, dict):
                yield name, dict.fromkeys(cast("dict[str, str]", value), HIDDEN)
            else:
                yield name, value
