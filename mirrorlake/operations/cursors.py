"""What a sensor remembers from one look to the next, as text.

Dagster keeps a sensor's cursor, and lets a person edit it. One that can't be read (edited by hand,
or of a release that remembered something else) is forgotten with a warning: the next look then
requests what may have been requested already, and the ledger decides what there is to read.
"""

from __future__ import annotations

import json
import logging
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

logger = logging.getLogger(__name__)
_T = TypeVar("_T")


def cursor_text(remembered: object) -> str:
    """Dataclasses, dicts and lists of plain values as text, keys in one order."""
    plain = TypeAdapter(type(remembered)).dump_python(remembered, mode="json")
    return json.dumps(plain, sort_keys=True)


def read_cursor(kind: type[_T], text: str | None, empty: _T) -> _T:
    """What `cursor_text` wrote of such a value; fields that it does not have any more are left out.

    Args:
        kind: what was written: a dataclass, or ``dict[str, …]`` of one.
        text: a sensor's cursor; None or '' at its first look.
        empty: what a first look remembers, and one whose cursor can't be read.
    """
    if not text:
        return empty
    try:
        return TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        logger.warning(
            "a sensor's cursor can't be read, and is forgotten: %s", error.errors()[0]["msg"]
        )
        return empty
