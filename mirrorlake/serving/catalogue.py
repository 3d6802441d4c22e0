"""What can be read of the mirror: deduped and clean of every table, as the lake has them now.

Nothing is read of their rows, and no Spark is started. A table that was never loaded has no columns
yet, and is said to be so.

What belongs here: columns, the day of a row, and what the contract says of them. What doesn't:
who reads them (capabilities).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from shlex import quote

from mirrorlake.config.configuration import Config
from mirrorlake.config.contract import Mirrored, TableContract, TenantTable
from mirrorlake.destinations.base import Identifier
from mirrorlake.destinations.iceberg.lake import Lake
from mirrorlake.destinations.iceberg.model import spark_types
from mirrorlake.destinations.iceberg.tables.views import shown_schema
from mirrorlake.schema.own_columns import ORIGINAL
from mirrorlake.serving.mirrored_places import ReadLayer, mirrored_places

_TIMES = ("date", "timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class MirroredTable:
    """A lake table that a mirrored table's chain makes.

    Attributes:
        name: as queries write it, in lower case; where another's differs in case alone, its exact
            name.
        columns: empty where it was never loaded.
        day: the column whose date is the day of a row, in lower case; None where none is.
    """

    name: str
    identifier: Identifier
    layer: ReadLayer
    contract: Mirrored
    columns: tuple[tuple[str, str, bool], ...]
    day: str | None

    @property
    def is_hashed(self) -> bool:
        """Whether a column of it is hashed, which only a table can be: no view."""
        rules = self.contract.columns.values()
        return self.layer == "clean" and any(rule.pii == "hash" for rule in rules)

    @property
    def times(self) -> tuple[str, ...]:
        """Its columns that have a day, in lower case."""
        return tuple(name.lower() for name, kind, _ in self.columns if kind in _TIMES)


class Catalogue:
    """The mirrored tables of a config; each is looked at once, when it is first asked for."""

    def __init__(self, config: Config, lake: Lake) -> None:
        self.config = config
        self._lake = lake
        self._places = mirrored_places(config)
        self._found: dict[str, MirroredTable] = {}
        self._spelled: dict[str, list[str]] = {}
        for name in self._places:
            self._spelled.setdefault(name.lower(), []).append(name)

    def names(self) -> list[str]:
        """The tables that can be named in a query."""
        return list(self._places)

    def spelled(self, name: str) -> Sequence[str]:
        """The tables that have a name, in whatever case: queries do not tell several apart."""
        return self._spelled.get(name.lower(), ())

    def at(self, identifier: Identifier) -> MirroredTable | None:
        """A table by its place in the lake; None where the contract has none there.

        Raises:
            LakeError: the lake can't be read.
        """
        name = str(identifier)
        found = self.table(name if name in self._places else name.lower())
        return found if found is not None and found.identifier == identifier else None

    def table(self, name: str) -> MirroredTable | None:
        """A table by its name in `MirroredTable`; None where the contract has none.

        Raises:
            LakeError: the lake can't be read.
        """
        if name not in self._places:
            return None
        if name not in self._found:
            identifier, layer, contract = self._places[name]
            schema = shown_schema(self._lake, identifier)
            columns = tuple(spark_types(schema)) if schema is not None else ()
            day = _day_of(contract, columns)
            self._found[name] = MirroredTable(name, identifier, layer, contract, columns, day)
        return self._found[name]

    def hidden(self, table: MirroredTable) -> frozenset[str]:
        """The columns of a table that its contract keeps from people, in lower case: those of
        deduped that a rule changes, or that clean does not have. In clean nothing is hidden.

        Raises:
            LakeError: the lake can't be read.
        """
        if table.layer == "clean":
            return frozenset()
        rules = {name.lower(): rule for name, rule in table.contract.columns.items()}
        clean = self.at(Identifier(table.contract.namespaces.clean, table.contract.table))
        shown = {name.lower() for name, _, _ in clean.columns} if clean is not None else set[str]()
        ruled = {n for n, rule in rules.items() if rule.pii != "show"}
        names = {name.lower() for name, _, _ in table.columns}
        own = {name for name in names if name.startswith("_mirror_")}
        found = (names & ruled) | (names - shown - own)
        # The texts that are kept beside values are of hidden columns, too.
        return frozenset(found | (own & {ORIGINAL} if found else set()))

    def why_hidden(self, table: MirroredTable, column: str) -> tuple[str, str]:
        """Why a column of `hidden` is, as words of a relative clause; and the step that changes it,
        which is empty where the contract has it so."""
        contract = table.contract
        rule = next((r for name, r in contract.columns.items() if name.lower() == column), None)
        if column == ORIGINAL or (rule is not None and rule.pii != "show"):
            return "which the contract hides", ""
        sync = f"`mirrorlake sync {quote(contract.name)}` brings it into clean"
        roles = (
            contract.named if isinstance(contract, TableContract) else map(str.lower, contract.key)
        )
        if rule is not None or column in roles:
            return "which the contract shows, but clean does not have yet", sync
        if contract.new_columns == "show":
            words = "which is not in clean yet"
            return words, f"{sync}, or a rule in the contract does: {{pii: show}}"
        words = "which the contract hides until it names it"
        return words, "Give it a rule in the contract: {pii: show} shows it"


def _day_of(contract: Mirrored, columns: tuple[tuple[str, str, bool], ...]) -> str | None:
    if isinstance(contract, TenantTable):
        return None
    settings = contract.snapshot
    named = [settings.day] if settings is not None else [contract.cursor, contract.created]
    kinds = {name.lower(): kind for name, kind, _ in columns}
    found = (name.lower() for name in named if name and kinds.get(name.lower()) in _TIMES)
    return next(found, None)
