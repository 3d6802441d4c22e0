"""The files of models: what they are called, and their texts."""

from __future__ import annotations

import re
from pathlib import Path

from mirrorlake.errors import ModelError

FOLDER = "models"
"""Where the models are, beside the contract file."""
MOST_BYTES = 2**20
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def model_name(path: Path) -> str:
    """``dataset.name`` of a file.

    Raises:
        ModelError: it has letters that no table's name has.
    """
    parts = (path.parent.name, path.stem)
    for part in parts:
        if not _NAME.fullmatch(part):
            raise ModelError(
                f"{path}: {part!r} can't name a model",
                next_step="Use small letters, digits and _, a letter first: "
                f"models/<dataset>/<name>{path.suffix}",
            )
    return ".".join(parts)


def read_text(path: Path) -> str:
    """A file's text.

    Raises:
        ModelError: it can't be read, or is too long.
    """
    try:
        # With a mark in front of it, as editors on Windows leave, or without.
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} can't be read: {error}") from None
    if len(text) > MOST_BYTES:
        raise ModelError(f"{path} has more than {MOST_BYTES:,} characters")
    return text
