"""What can be taken out of Mirrorlake, and the seams at which it is joined to the core.

A capability is one package with all of its own inside: its section of the contract file, its ledger
tables, its commands. The core imports none of it. Each package's `__init__` says in ``ADDS`` what
it adds and where: seam → name → ``module:attribute``, imported when the seam is first used; one
that stands on another names it in ``NEEDS``. To take one out, delete its folders (its tests and the
face's, too) and its name here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Final, Generic, TypeVar, cast

CAPABILITIES: Final = (
    *("trial", "init", "alerts", "backups", "landing", "preflight", "cuts", "other_copies"),
    *("report", "models", "bigquery", "permissions", "records", "metrics"),
)
"""The capabilities that are there: packages of `mirrorlake`, and of the face where they show."""
T = TypeVar("T")


class Seam(Generic[T]):
    """A place in the core where capabilities add something; it is defined beside the code that
    uses it, which says by ``T`` what may be added.

    Args:
        name: as capabilities write it in ``ADDS``.
        package: whose capabilities: the engine's, or the face's.
    """

    def __init__(self, name: str, package: str = "mirrorlake") -> None:
        self.name = name
        self._package = package

    @cached_property
    def added(self) -> Mapping[str, T]:
        """What was added, by its name, in the order of `CAPABILITIES`."""
        return {name: cast("T", resolve(found)) for name, found in self.references.items()}

    @property
    def references(self) -> Mapping[str, str]:
        """The same, not imported: its name → ``module:attribute``."""
        return {
            name: reference
            for adds in additions(self._package).values()
            for name, reference in adds.get(self.name, {}).items()
        }

    def __iter__(self) -> Iterator[T]:
        return iter(self.added.values())


def additions(package: str = "mirrorlake") -> dict[str, Mapping[str, Mapping[str, str]]]:
    """Capability → what it adds: seam → name → reference."""
    found: dict[str, Mapping[str, Mapping[str, str]]] = {}
    for name in CAPABILITIES:
        try:
            found[name] = import_module(f"{package}.{name}").ADDS
        except ModuleNotFoundError as error:
            if package == "mirrorlake" or error.name != f"{package}.{name}":
                raise  # one without a page in Dagster is no error, a broken one is
    return found


def resolve(reference: str) -> object:
    """What ``module:attribute`` names, imported."""
    module, _, attribute = reference.partition(":")
    return getattr(import_module(module), attribute)
