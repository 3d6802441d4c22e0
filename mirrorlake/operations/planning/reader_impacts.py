"""What becomes of a model when tables of the mirror get other columns, as a value.

What belongs here: types. What doesn't: finding it out (`mirrorlake.models.changes.impact`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from mirrorlake.operations.planning.forecasts import Forecast

ImpactWord: TypeAlias = Literal["breaks", "again", "reads"]


@dataclass(frozen=True)
class ReadPlace:
    """Where a model names a column that changes.

    Attributes:
        place: ``file:line:column``.
        table, column: what it names, in lower case.
        words: what becomes of the column.
    """

    model: str
    place: str
    table: str
    column: str
    words: str

    @property
    def said(self) -> str:
        return f"{self.place}: {self.model} reads {self.column} of {self.table}, which {self.words}"


@dataclass(frozen=True)
class ModelImpact:
    """What becomes of one model.

    Attributes:
        what: ``breaks`` (it does not compile any more, or what reads it loses something);
            ``again`` (its partitions are computed again); ``reads`` (it names a column that
            changes, and is what it was).
        words: what, one sentence each; where it does not compile with file, line and column.
        places: where it names columns that change, through the models between, too.
        tables: the mirrored tables with other columns that it reads, through others or itself.
        fits: whether every value of the changed columns that it names fits into their new type.
        compiles: whether it does then.
        partitions: how many were computed, and would be computed again; 0 where ``what`` is
            ``reads``, and where it does not compile.
        forecast: what that is expected to take.
    """

    model: str
    what: ImpactWord
    words: tuple[str, ...]
    places: tuple[ReadPlace, ...]
    tables: tuple[str, ...]
    fits: bool = True
    compiles: bool = True
    partitions: int = 0
    forecast: Forecast = field(default_factory=Forecast)

    @property
    def lines(self) -> tuple[str, ...]:
        """All of it, each place once: where it does not compile there, what is wrong follows."""
        said = {f"{one.place}: ": one.said for one in self.places}
        found = [one.said for one in self.unsaid]
        for words in self.words:
            place = next((one for one in said if words.startswith(one)), "")
            found.append(f"{said[place]}: {words[len(place) :]}" if place else words)
        return tuple(found)

    @property
    def unsaid(self) -> tuple[ReadPlace, ...]:
        """The places that no sentence of ``words`` begins with."""
        return tuple(
            one
            for one in self.places
            if not any(words.startswith(f"{one.place}: ") for words in self.words)
        )
