"""What else `check` can compare than our mirror with MySQL: a seam for capabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from mirrorlake.capabilities import Seam

_Command = TypeVar("_Command", bound=Callable[..., Any])


class OtherComparison(Protocol):
    """Something that is compared by options of its own."""

    @property
    def options(self) -> Sequence[Callable[[Any], Any]]:
        """The options that `check` has for it."""
        ...

    def is_meant(self, options: Mapping[str, Any]) -> bool:
        """Whether the options that were given are for it.

        Raises:
            UsageError: some are, and can't be meant.
        """
        ...

    def check(
        self, table: str | None, options: Mapping[str, Any], given: Sequence[str], *, as_json: bool
    ) -> int:
        """Compare, and say what was found; the exit code.

        Args:
            options: all of them, ``config_path`` too.
            given: the options that were given, as parameters' names, its own among them.
        """
        ...


_OTHERS: Seam[OtherComparison] = Seam("check: others")


def with_other_comparisons(command: _Command) -> _Command:
    """Add every other comparison's options to a command, which gets them by name."""
    for option in reversed([option for one in _OTHERS for option in one.options]):
        command = option(command)
    return command


def other_meant(options: Mapping[str, Any]) -> OtherComparison | None:
    """The comparison that the options are for; None: it is the mirror that is checked."""
    return next((one for one in _OTHERS if one.is_meant(options)), None)
