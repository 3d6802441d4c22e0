"""Stream views: views of tables as if every load were folded already.

What belongs here: what they and their readers may read. What doesn't: making them
(`mirrorlake.models.partition_states.stream_views`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.compile.model import Model
from mirrorlake.models.files.declaration import Declaration
from mirrorlake.models.spark_sql.node_places import at
from mirrorlake.models.spark_sql.parser import table_name
from mirrorlake.serving.catalogue import Catalogue


def refuse_half_streamed(
    declaration: Declaration,
    query: Callable[[], exp.Expr],
    reads: Sequence[str],
    models: Mapping[str, Model],
    catalogue: Catalogue,
) -> None:
    """See that a stream view reads no view that shows what is folded, and no clean that is hashed,
    and that nothing but stream views reads one: when its rows move, nobody could tell.

    Raises:
        ModelError: with the place where the other one is named.
    """
    streams = declaration.materialized == "stream view"
    for name in reads:
        above = models.get(name)
        kind = above.declaration.materialized if above is not None else "table"
        if streams and kind == "view":
            words = f"{name} is a view of what is folded: a stream view can't look behind it"
            step = f"Make {name} a stream view, or read its tables"
        elif streams and (table := catalogue.table(name)) is not None and table.is_hashed:
            words = f"a column of {name} is hashed, which no view can do"
            step = "Leave `materialized: stream view` out, or read another table"
        elif not streams and kind == "stream view":
            words = f"{name} is a stream view: nobody can tell when its rows move"
            step = "Read its tables, or make this a stream view"
        else:
            continue
        nodes = (one for one in query().find_all(exp.Table) if table_name(one) == name)
        place = next((found for one in nodes if (found := at(one)) is not None), None)
        raise ModelError(words, place=place, next_step=step)
