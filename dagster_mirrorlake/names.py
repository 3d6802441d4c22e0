"""What the definitions of a mirror are called beside those of others in one Dagster project.

A location of its own needs no name. With one, whatever belongs to no single table carries it:
resources, sensors, schedules, the cleanup and the maintenance, pools, dynamic partitions, and the
tag by which runs of one source wait for each other.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from mirrorlake.errors import ConfigError


@dataclass(frozen=True)
class Names:
    """The name of a mirror, or none.

    >>> Names("crm").of("daily"), Names().of("daily")
    ('crm_daily', 'daily')

    Raises:
        ConfigError: the name is none that Dagster takes.
    """

    mirror: str | None = None

    def __post_init__(self) -> None:
        if self.mirror is not None and not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.mirror):
            raise ConfigError(
                f"a mirror can't be called {self.mirror!r}",
                next_step="Give it a name of letters, digits and _ that begins with a letter",
            )

    def of(self, name: str) -> str:
        """What a resource, sensor, schedule, pool or source is called."""
        return f"{self.mirror}_{name}" if self.mirror else name

    def all_of(self, names: Iterable[str]) -> set[str]:
        """The same of several."""
        return {self.of(name) for name in names}

    def key(self, kind: str, *rest: str) -> dg.AssetKey:
        """The asset of a chore: ``kind``, the mirror, and what it is about."""
        return dg.AssetKey([kind, *([self.mirror] if self.mirror else []), *rest])

    def resources(self, context: Any) -> "Resources":
        """The mirror's own resources, of those that a step or a sensor is given."""
        return Resources(context.resources, self)


@dataclass(frozen=True)
class Resources:
    """A mirror's resources by what `dagster_mirrorlake.resources` calls them."""

    given: Any
    names: Names

    def __getattr__(self, name: str) -> Any:
        return getattr(self.given, self.names.of(name))
