"""Sections of the contract file that capabilities add; each is used as it is written."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from pydantic import Field, create_model

from mirrorlake.capabilities import Seam
from mirrorlake.config.fields import Section
from mirrorlake.config.sections import ConfigSections


class AddedSection(Section):
    """A section that a capability adds; left out of the file, it has its defaults."""

    secrets: ClassVar[str] = ""
    """Where in it ``${env:NAME}`` may stand: a regular expression of paths like ``email/password``;
    nowhere by default."""


SECTIONS: Final[Seam[type[AddedSection]]] = Seam("config.sections")


@functools.cache
def file_sections() -> type[ConfigSections]:
    """The contract file with every section that there is."""
    fields: dict[str, Any] = {
        name: (section, Field(default=section(), description=section.__doc__))
        for name, section in SECTIONS.added.items()
    }
    return create_model(
        "ConfigSections", __base__=ConfigSections, __doc__=ConfigSections.__doc__, **fields
    )


def added_sections(sections: ConfigSections) -> Iterator[tuple[str, AddedSection]]:
    """What a file says in the sections of capabilities, by their names."""
    for name in SECTIONS.added:
        yield name, getattr(sections, name)


def secret_paths() -> Iterator[str]:
    """Regular expressions of the places in these sections where a secret may stand."""
    for name, section in SECTIONS.added.items():
        if section.secrets:
            yield f"/{name}/(?:{section.secrets})"
