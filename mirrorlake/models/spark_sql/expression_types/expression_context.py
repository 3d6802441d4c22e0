"""What an expression's rules ask of the place where it stands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sqlglot import exp

from mirrorlake.models.spark_sql.columns import Typed
from mirrorlake.models.spark_sql.functions import DeclaredFunction


class Names(Protocol):
    """What names mean where an expression stands."""

    def typed(self, node: exp.Expr) -> Typed:
        """What an expression gives here."""
        ...

    def column(self, node: exp.Column) -> Typed:
        """A column, or a constant of the model's scope."""
        ...

    def query(self, node: exp.Expr) -> Sequence[Typed]:
        """The columns of a subquery."""
        ...

    def declared(self, name: str) -> DeclaredFunction | None:
        """A function that the project declares."""
        ...


NodeRule: TypeAlias = Callable[[exp.Expr, Names], Typed]
"""What a node of one class gives; raises ModelError where its parts don't fit."""
