"""A page from a template: all that it is given is escaped, and its policy forbids what is not its
own."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import stat
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from jinja2 import ChoiceLoader, Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from mirrorlake import __version__
from mirrorlake.errors import ConfigError

_HERE: Final = Path(__file__).parent
_OURS: Final = re.compile(
    rb"<!doctype html>\s*<html[^<>]*><head>\s*"
    rb"(?:<meta [^<>]*>\s*)*?"
    rb'<meta name="generator" content="Mirrorlake [^"<>]*">'
)
"""How each page of ours begins: see ``frame.html``."""
_HEAD: Final = 4096
_INVISIBLE: Final = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ud800-\udfff]"  # a lone half of a pair can't be written as UTF-8
)


def plain(text: object) -> str:
    """A text whose signs that nobody sees, or that turn the direction of others, are named.

    >>> plain("abc\u202edef")
    'abc[U+202E]def'
    """
    return _INVISIBLE.sub(lambda found: f"[U+{ord(found[0]):04X}]", str(text))


def render_page(
    folder: Path, name: str, title: str, values: Mapping[str, Any], filters: Mapping[str, Any] = {}
) -> str:
    """A page from ``name.html`` in a folder, in the frame; ``name.css`` there is its style, and
    ``name.js`` its script, where there are such files.

    Args:
        filters: of the template, besides ``plain``.
    """
    environment = Environment(
        loader=ChoiceLoader([FileSystemLoader(folder), FileSystemLoader(_HERE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plain"] = plain
    environment.filters.update(filters)
    style, script = _text(folder / f"{name}.css"), _text(folder / f"{name}.js")
    return environment.get_template(f"{name}.html").render(
        **values,
        title=title,
        generator=f"Mirrorlake {__version__}",
        style=Markup(style),  # noqa: S704 - ours
        script=Markup(script),  # noqa: S704 - ours
        policy=_policy(style, script),
    )


def _text(path: Path) -> str:
    return path.read_text("utf-8").strip() if path.exists() else ""


def _policy(style: str, script: str) -> str:
    """Nothing is fetched from anywhere; of styles and scripts only these.

    Source: https://www.w3.org/TR/CSP3/
    """
    own = {"style-src": style, "script-src": script}
    parts = [f"{name} 'sha256-{_digest(text)}'" for name, text in own.items() if text]
    return "; ".join(["default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def refuse_other_file(path: Path, option: str) -> int | None:
    """See that a page can take a file's place: there is none, or it is a page of ours, whose mode
    is returned.

    Raises:
        ConfigError: it is a folder, a link, a device or somebody else's file, or can't be read.
    """
    try:
        mode = path.lstat().st_mode
        # A pipe would be waited for.
        head = _beginning(path) if stat.S_ISREG(mode) else b""
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unwritable(path, option, error) from error
    if stat.S_ISLNK(mode):
        raise ConfigError(
            f"{option} {path} is a symbolic link", next_step="Name the file that it leads to"
        )
    if not _OURS.match(head):
        raise ConfigError(
            f"{option} {path}: there is a file of that name, and it is no page of Mirrorlake's",
            next_step="Name another file, or move this one away",
        )
    return stat.S_IMODE(mode)


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_HEAD)


def write_page(path: Path, page: str, option: str) -> int:
    """Write a page, whole or not at all; its size in bytes. It has the mode of the page that it
    replaces.

    Args:
        option: by which somebody named it.

    Raises:
        ConfigError: it can't be written, or somebody else's file is there.
    """
    mode = refuse_other_file(path, option)
    encoded = page.encode()
    begun = path.with_name(f".mirrorlake-page-{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        begun.write_bytes(encoded)
        if mode is not None:
            begun.chmod(mode)
        begun.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            begun.unlink()
        raise _unwritable(path, option, error) from error
    return len(encoded)


def _unwritable(path: Path, option: str, error: OSError) -> ConfigError:
    return ConfigError(
        f"{option} {path} can't be written: {error.strerror}", next_step="Name another file"
    )
