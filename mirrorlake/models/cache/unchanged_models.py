"""What was found of models before, by their files alone.

What belongs here: which entries hold for files as they are. What doesn't: entries
(`mirrorlake.models.cache.model`), and binding what is not known
(`mirrorlake.models.compile.project`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from graphlib import CycleError, TopologicalSorter

from mirrorlake.errors import ModelError
from mirrorlake.models.cache.files import KeptModels
from mirrorlake.models.cache.model import KeptModel, found_key, hash_of, offer_of
from mirrorlake.models.files.declaration import Declaration


def text_key(declaration: Declaration) -> str:
    """A hash of what a model's file says, where that matters to what is found of it."""
    scopes = declaration.scopes
    return hash_of(
        declaration.name,
        declaration.sql,
        [[one.name, one.values] for one in scopes.bindings],
        scopes.condition,
        declaration.partition_by,
        declaration.materialized,
        declaration.released,
        declaration.python and declaration.python.source,
        declaration.functions.said(),
    )


def known_models(
    kept: KeptModels, declarations: Sequence[Declaration], now: datetime
) -> Mapping[str, KeptModel]:
    """What was found of models, and holds as far as their files say: without a look at the lake,
    whose tables are taken to be as they were.

    Args:
        now: what ``CURRENT_DATE`` is in their scopes (UTC).
    """
    by_name = {one.name: one for one in declarations}
    there = {
        name: entry
        for name, one in by_name.items()
        if (entry := kept.find(name, text_key(one))) is not None
    }
    above = {name: by_name.keys() & entry.offers.keys() for name, entry in there.items()}
    found: dict[str, KeptModel] = {}
    try:
        order = tuple(TopologicalSorter(above).static_order())
    except CycleError:
        return {}
    for name in order:
        if name in there and above[name] <= found.keys():
            offers = {
                table: offer_of(found[table].fields, by_name[table].partition_by)
                for table in above[name]
            }
            if _holds(by_name[name], there[name], offers, now):
                found[name] = there[name]
    return found


def _holds(
    declared: Declaration, entry: KeptModel, offers: Mapping[str, str], now: datetime
) -> bool:
    """Whether an entry is that of a model, given what those that it reads have for it."""
    try:
        types = declared.scopes.types(declared.scopes.all(now))
    except ModelError:
        return False
    return entry.key == found_key(entry.text, types, {**entry.offers, **offers})
