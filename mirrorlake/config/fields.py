"""The types of single values: durations, days and names; and what every section of the file has
in common."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date, timedelta, timezone, tzinfo
from difflib import get_close_matches
from typing import Annotated, Any, Final, cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
)
from typing_extensions import override

HIDDEN: Final = "**********"


class Findings(ValueError):
    """Problems that a section sees as a whole, each with the field that it is about."""

    def __init__(self, found: Iterable[tuple[str, str]]) -> None:
        self.found = tuple(found)
        super().__init__("; ".join(message for _, message in self.found))


_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", re.ASCII)
# As MySQL has it: from -13:59 to +14:00.
_OFFSET = re.compile(r"([+-])(0?\d|1[0-4]):([0-5]\d)", re.ASCII)


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


def matches(patterns: Iterable[str], name: str) -> bool:
    """Whether a name is one of those that the patterns mean.

    >>> matches(["shop_%"], "shop_17"), matches(["shop_%"], "shopX17"), matches(["a", "b"], "B")
    (True, False, False)
    """
    return any(
        re.fullmatch(".*".join(map(re.escape, pattern.split("%"))), name, re.DOTALL)
        for pattern in patterns
    )


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


def bucket_of(warehouse: str) -> str:
    """The bucket of a warehouse in Cloud Storage; '' of another one.

    >>> bucket_of("gs://company-lake/mirror"), bucket_of("/srv/lake")
    ('company-lake', '')
    """
    inside = warehouse.removeprefix("gs://")
    return "" if inside == warehouse else inside.partition("/")[0]


def listed(value: object) -> object:
    """What may be written as one text or as a list of them, as a list.

    >>> listed("id"), listed(["id", "day"])
    (['id'], ['id', 'day'])
    """
    return [value] if isinstance(value, str) else value


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

Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(format_duration, return_type=str, when_used="json"),
    WithJsonSchema(_DURATION_SCHEMA),
]
Day = Annotated[date, BeforeValidator(_day)]
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
