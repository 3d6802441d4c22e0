"""Views over many tables: of more than Spark plans at once, views over views."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from mirrorlake.destinations.base import Identifier, as_sql_identifier
from mirrorlake.serving.views import ViewText, drop_view, make_view
from mirrorlake.workspace import Workspace

BRANCHES: Final = 50
"""Measured: a view over 500 tables takes seconds to plan, and over 2,000 it can't be."""
MOST: Final = 500
"""With more tables than this a query of the view is slow in any form, which is reported."""


def views_over(
    identifier: Identifier, names: Sequence[str], view_of: Callable[[Sequence[str]], ViewText]
) -> dict[Identifier, ViewText]:
    """The view over tables of these names, last, and the views that it is over, where there are
    more than `BRANCHES`: Spark plans each branch of a view, whatever a query asks for.

    Args:
        view_of: the view over some of them; of none, its columns alone.
    """
    if len(names) <= BRANCHES:
        return {identifier: view_of(names)}
    found: dict[Identifier, ViewText] = {}
    for first in range(0, len(names), BRANCHES):
        part = view_of(names[first : first + BRANCHES])
        digest = hashlib.sha256(repr((part.sql, part.columns)).encode()).hexdigest()[:10]
        found[Identifier(identifier.namespace, f"{identifier.name}__part_{digest}")] = part
    whole = view_of(())
    columns = ", ".join(as_sql_identifier(name) for name in whole.columns)
    selects = [f"SELECT {columns} FROM {part.sql}" for part in found]  # noqa: S608
    return {**found, identifier: ViewText(" UNION ALL ".join(selects), whole.columns, whole.schema)}


def make_views(
    workspace: Workspace, wanted: Mapping[Identifier, ViewText], *, over_table: bool = False
) -> None:
    """Make what `views_over` says, each only where it is not there as it must be; views that it was
    over before, and is no more, are dropped. They have other names than those that are new, so that
    no query fails meanwhile."""
    *_, identifier = wanted
    for name, text in wanted.items():
        make_view(workspace, name, text, over_table=over_table and name == identifier)
    for old in _parts(workspace, identifier):
        if old not in wanted:
            drop_view(workspace, old)


def drop_views(workspace: Workspace, identifier: Identifier) -> None:
    """Drop a view, and those that it is over."""
    drop_view(workspace, identifier)
    for part in _parts(workspace, identifier):
        drop_view(workspace, part)


def _parts(workspace: Workspace, identifier: Identifier) -> list[Identifier]:
    """The views that the ledger knows as those that a view is, or was, over."""
    known = workspace.ledger.definitions(f"view {identifier}__part_")
    within = f"view {identifier.namespace}."
    return [Identifier(identifier.namespace, name.removeprefix(within)) for name in known]


def many_words(tables: int, *, tenants: bool) -> str:
    """A warning about a view over this many tables; '' where none is needed.

    >>> many_words(500, tenants=True)
    ''
    """
    if tables <= MOST:
        return ""
    instead = "deduped has all in one table" if tenants else "`versions: table` is one table"
    return f"a query of the view over {tables:,} versions of raw plans each of them: {instead}"
