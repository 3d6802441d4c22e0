"""Values that hold a secret, taken from the environment: passwords, URLs and properties."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast
from urllib.parse import quote

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    SecretStr,
    ValidationInfo,
    WithJsonSchema,
)

from mirrorlake.config.fields import HIDDEN, Findings, hide_url
from mirrorlake.errors import ConfigError

PLACEHOLDER = re.compile(r"\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_NAME = re.compile(
    r"passw|pwd|secret|token|credential|(access|account|private|api)[-_.]?key", re.IGNORECASE
)


def _is_secret_name(name: str) -> bool:
    """Whether a property called so must not hold a literal (``s3.secret-key``, ``token``)."""
    return _SECRET_NAME.search(name) is not None


def has_placeholder(text: str) -> bool:
    """Whether ``text`` means to take something from the environment, even if badly written."""
    return "${env:" in text


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
        if _is_secret_name(name) and isinstance(text, str) and not has_placeholder(text)
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
        literal += text.replace("\0", "") if _is_secret_name(name) else ""
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


_SECRET_SCHEMA: Final = {"type": "string", "pattern": r"^\$\{env:[A-Za-z_][A-Za-z0-9_]*\}$"}

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
