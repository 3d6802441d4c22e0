"""The cuts of a ledger for who reads at one: by name, or the newest of a source."""

from __future__ import annotations

from functools import cached_property

from mirrorlake.config import Config
from mirrorlake.cuts.config import CutsConfig
from mirrorlake.cuts.ledger import Cut, Cuts
from mirrorlake.cuts.report import names_of
from mirrorlake.errors import ConfigError
from mirrorlake.ledger import Ledger


class ReadableCuts:
    """The cuts of one ledger, as they are when they are first asked for."""

    def __init__(self, config: Config, ledger: Ledger) -> None:
        self._config, self._ledger = config.section(CutsConfig), ledger

    @cached_property
    def _all(self) -> list[Cut]:
        return Cuts(self._ledger).all()

    def is_read(self, source: str) -> bool:
        """Whether models read the newest cut of a source by themselves: where cuts of it are made
        by themselves, unless the file says otherwise."""
        said = self._config.of(source)
        return said.every is not None and said.models

    def newest(self, source: str) -> Cut | None:
        """The newest cut of a source; None where there is none."""
        return next((one for one in reversed(self._all) if one.source == source), None)

    def named(self, name: str) -> Cut:
        """A cut by its name.

        Raises:
            ConfigError: there is none.
        """
        found = {one.name: one for one in reversed(self._all)}
        if name not in found:
            there = names_of([*found]) if found else "none"
            raise ConfigError(
                f"there is no cut {name!r}",
                next_step=f"There are {there}: mirrorlake cut SOURCE makes one",
            )
        return found[name]
