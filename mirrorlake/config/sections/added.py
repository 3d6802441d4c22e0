"""Sections of the contract file that capabilities add; each is used as it is written."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pydantic import Field, create_model

from mirrorlake.capabilities import Seam
from mirrorlake.config.fields import Section
from mirrorlake.config.sections.contract_file import ConfigSections


class AddedSection(Section):
    """A section that a capability adds; left out of the file, it has its defaults, or is None where
    it has none."""

    secrets: ClassVar[str] = ""
    """Where in it ``${env:NAME}`` may stand: a regular expression of paths like ``email/password``;
    nowhere by default."""


SECTIONS: Final[Seam[type[AddedSection]]] = Seam("config.sections")


@functools.cache
def file_sections() -> type[ConfigSections]:
    """The contract file with every section that there is."""
    fields: dict[str, Any] = {}
    for name, section in SECTIONS.added.items():
        # One that must say something is None where the file leaves it out.
        must = any(field.is_required() for field in section.model_fields.values())
        kind, default = (section | None, None) if must else (section, section())
        fields[name] = (kind, Field(default=default, description=inspect.getdoc(section)))
    return create_model(
        "ConfigSections", __base__=ConfigSections, __doc__=ConfigSections.__doc__, **fields
    )


def added_sections(sections: ConfigSections) -> Iterator[tuple[str, AddedSection]]:
    """What a file says in the sections of capabilities, by their names."""
    for name in SECTIONS.added:
        section = getattr(sections, name)
        if section is not None:
            yield name, section


def secret_paths() -> Iterator[str]:
    """Regular expressions of the places in these sections where a secret may stand."""
    for name, section in SECTIONS.added.items():
        if section.secrets:
            yield f"/{name}/(?:{section.secrets})"
