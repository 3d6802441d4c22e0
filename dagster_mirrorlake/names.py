"""What the definitions of a mirror are called beside those of others in one Dagster project.

A location of its own needs no name. With one, whatever belongs to no single table carries it:
resources, sensors, schedules, the cleanup and the maintenance, pools, dynamic partitions, and the
tag by which runs of one source wait for each other.
"""

import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import dagster as dg

from mirrorlake.errors import ConfigError


def letters(name: str) -> str:
    """A name in what Dagster takes in names of groups and pools: letters, digits and ``_``."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def plain(*parts: str, between: str = "__") -> str:
    """The name of a step, a job or a sensor that is about these. Where one of them has what Dagster
    does not take there, or could end elsewhere, a checksum follows: of two tables no step has the
    same name.

    >>> plain("raw", "shop", "orders"), plain("raw", "shop", "order lines")
    ('raw__shop__orders', 'raw__shop__order_lines_2b7268ae')
    """
    name = letters(between.join(parts))
    if all(re.fullmatch(r"[A-Za-z0-9]+(_[A-Za-z0-9]+)*", part) for part in parts):
        return name
    return f"{name}_{zlib.crc32(repr(parts).encode()):08x}"


def step_of(key: dg.AssetKey) -> str:
    """What the step that makes an asset is called."""
    return plain(*key.path)


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
