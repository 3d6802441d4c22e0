"""What Pydantic finds wrong in a file, in the words of someone who edits YAML, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, cast, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mirrorlake.config.fields import Findings, nearest
from mirrorlake.config.server import TLS_SECTION, TLS_WORD
from mirrorlake.config.yaml.removed import removed_key
from mirrorlake.config.yaml.yaml_file import MOST_BYTES, Problem, YamlFile
from mirrorlake.config.yaml.yaml_file import Path as YamlPath
from mirrorlake.errors import ConfigError

_TAGS: Final = (TLS_WORD, TLS_SECTION)
# What Pydantic says, in the words of someone who edits YAML.
_MESSAGES: Final = {
    "missing": "is missing",
    "tuple_type": "a list is expected: put it in [ ]",
    "dict_type": "a mapping is expected (name: value)",
    "model_type": "a mapping is expected (name: value)",
    "string_type": "a text is expected; put quotes around a name like null",
    "int_type": "a whole number is expected",
    "int_parsing": "a whole number is expected",
    "float_type": "a number is expected",
    "float_parsing": "a number is expected",
    "time_delta_type": "a duration is expected, like 15s, 30m, 1h or 2d",
    "too_short": "is empty",
}


def read_text(path: Path, what: str, next_step: str) -> str:
    """The text of a file that a person writes.

    Args:
        what: it is called in errors; next_step: what to do where there is none.

    Raises:
        ConfigError: it is not there, too large, not UTF-8 or can't be read.
    """
    try:
        with path.open("rb") as stream:
            text = stream.read(MOST_BYTES + 1)
        if len(text) > MOST_BYTES:
            raise ConfigError(
                f"{path} is larger than {MOST_BYTES // 2**20} MB",
                next_step=f"Name the {what}: no {what} is that large",
            )
        return text.decode("utf-8-sig")
    except FileNotFoundError as error:
        raise ConfigError(f"there is no {what} {path}", next_step=next_step) from error
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{path} is not UTF-8 (byte {error.start})", next_step="Save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{path} can't be read: {error.strerror}",
            next_step="Check the path and its permissions",
        ) from error


def raise_problems(path: Path, problems: Iterable[Problem]) -> None:
    """Refuse a file with problems.

    Raises:
        ConfigError: there are some: all of them, one a line.
    """
    found = sorted(set(problems))
    if found:
        count = "1 problem" if len(found) == 1 else f"{len(found)} problems"
        lines = [f"{path}:{problem}" for problem in found]
        raise ConfigError("\n".join([f"{path} has {count}:", *lines]))


def validation_problems(
    file: YamlFile, error: ValidationError, root: type[BaseModel]
) -> Iterator[Problem]:
    """What a file's sections found wrong in it, each at its line.

    Args:
        root: the section that the whole file is.
    """
    details = error.errors(include_url=False)
    removed = {path[:-1] for path in map(_path, details) if removed_key(path, root)}
    for detail in details:
        if detail["type"] == "too_short" and _has_wrong_items(detail, details):
            continue
        path = _path(detail)
        if detail["type"] == "missing" and path[:-1] in removed:
            continue  # the section said what was removed, and needs nothing else
        cause = detail.get("ctx", {}).get("error")
        if isinstance(cause, Findings):
            for field, message in cause.found:
                yield file.problem((*path, field), message)
        elif path[-1:] == ("[key]",):
            yield file.problem(path[:-1], _message(detail), at_key=True)
        elif detail["type"] == "extra_forbidden":
            words = removed_key(path, root) or _unknown_key(path, root)
            yield file.problem(path, words, at_key=True)
        else:
            yield file.problem(path, _message(detail))


def _path(detail: ErrorDetails) -> YamlPath:
    return tuple(part for part in detail["loc"] if part not in _TAGS)


def _has_wrong_items(of: ErrorDetails, details: Sequence[ErrorDetails]) -> bool:
    """Whether a list is too short only without its items that are wrong themselves."""
    size = len(of["loc"])
    return any(one["loc"][:size] == of["loc"] and len(one["loc"]) > size for one in details)


def _message(detail: ErrorDetails) -> str:
    kind, context = detail["type"], detail.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        expected = str(context["expected"])
        written = detail["input"]
        near = (
            nearest(written, re.findall(r"'([^']*)'", expected)) if isinstance(written, str) else ""
        )
        return f"{written!r} is not {expected}{near}"
    if detail["input"] is None and kind != "missing":
        return "has no value"
    return _MESSAGES.get(kind, detail["msg"][:1].lower() + detail["msg"][1:])


def _unknown_key(path: YamlPath, root: type[BaseModel]) -> str:
    *above, name = path
    for place in (path[:end] for end in reversed(range(len(above)))):
        if name in _keys(place, root):
            of = ".".join(map(str, place)) or "the file itself"
            return f"unknown key here: it belongs in {of}"
    known = _keys(above, root)
    return f"unknown key{nearest(str(name), known) or '; known are ' + ', '.join(known)}"


def _keys(path: Sequence[str | int], root: type[BaseModel]) -> list[str]:
    """What may be written in a section; none where names of a person's own are."""
    section = _section_at(path, root)
    if get_origin(section) is dict:
        return []
    return [field.alias or name for name, field in section.model_fields.items()]


def _section_at(path: Sequence[str | int], root: type[BaseModel]) -> type[BaseModel]:
    """The model whose fields stand at ``path`` of the file."""
    found: Any = root
    for part in path:
        if get_origin(found) is dict:
            found = _section_in(get_args(found)[1])
        else:
            found = _section_in(cast("type[BaseModel]", found).model_fields[str(part)].annotation)
    return cast("type[BaseModel]", found)


def _section_in(annotation: Any) -> Any:
    """The model, or the dict of models, inside an annotation like ``Annotated[X | None, …]``."""
    if get_origin(annotation) is dict:
        return annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    inner = (_section_in(part) for part in get_args(annotation))
    return next((part for part in inner if part is not None), None)
