"""The commands by name, each imported when somebody asks for it: a sync needs one of fifty."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping

import click

from mirrorlake.capabilities import resolve


class Commands(MutableMapping[str, click.Command]):
    """Name → command.

    Args:
        references: name → ``module:attribute`` of those that are not imported yet.
    """

    def __init__(self, references: Mapping[str, str]) -> None:
        self._references = dict(references)
        self._imported: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._imported:
            found = resolve(self._references[name])
            assert isinstance(found, click.Command)  # noqa: S101
            self._imported[name] = found
        return self._imported[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._references[name] = ""
        self._imported[name] = command

    def __delitem__(self, name: str) -> None:
        del self._references[name]
        self._imported.pop(name, None)

    def __contains__(self, name: object) -> bool:
        return name in self._references

    def __iter__(self) -> Iterator[str]:
        return iter(self._references)

    def __len__(self) -> int:
        return len(self._references)
