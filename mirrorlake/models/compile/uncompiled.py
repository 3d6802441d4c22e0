"""Models that do not compile, and why: what is wrong with their own files, or what they read.

What belongs here: reasons. What doesn't: finding them (`mirrorlake.models.compile.project`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.parser import table_name


@dataclass
class Broken:
    """What is wrong with the files of a folder.

    Attributes:
        problems: of files by themselves, and of circles.
        why: model, or table made elsewhere → why it can't be read.
        readers: of each model that reads one of these: that it does, and why that can't be read.
    """

    problems: list[ModelError]
    why: dict[str, ModelError]
    readers: list[ModelError] = field(default_factory=list[ModelError])
    _roots: dict[str, ModelError] = field(default_factory=dict[str, ModelError])

    def __contains__(self, name: str) -> bool:
        return name in self.why

    def add(self, name: str, problem: ModelError) -> None:
        """Something is wrong with a file itself."""
        self.problems.append(problem)
        self.why[name] = problem

    def add_circle(self, names: Collection[str], problem: ModelError) -> None:
        self.problems.append(problem)
        self.why |= dict.fromkeys(names, problem)

    def add_reader(self, declaration: Declaration, query: exp.Expr, above: str) -> None:
        """A model reads one that does not compile."""
        root = self._roots.get(above, self.why[above])
        reason = root.message.partition("\n")[0]
        words = f"{declaration.name} reads {above}, which does not compile: {reason}"
        place = place_of(query, (above,))
        found = declaration.located(ModelError(words, place=place))
        self._roots[declaration.name] = root
        # What is to be done stands beside the root, where all are named.
        self.readers.append(found)
        self.why[declaration.name] = ModelError(found.message, next_step=root.next_step)


def place_of(query: exp.Expr, tables: Collection[str]) -> TextPlace | None:
    """Where a query first names one of some tables."""
    named = (one for one in query.find_all(exp.Table) if table_name(one) in tables)
    mention = next(named, None)
    return at(mention) if mention is not None else None
