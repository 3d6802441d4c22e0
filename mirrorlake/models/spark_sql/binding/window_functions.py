"""Windows, and the calls that stand in them.

What belongs here: one window by itself. What doesn't: where it may stand
(`mirrorlake.models.spark_sql.binding.grouping`).

Source: Spark SQL Reference, "Window Functions"; Spark's ``CheckAnalysis``.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from mirrorlake.errors import ModelError
from mirrorlake.models.spark_sql import functions
from mirrorlake.models.spark_sql.node_places import at

_ORDERED = frozenset(
    {"row_number", "rank", "dense_rank", "ntile", "percent_rank", "cume_dist", "lag", "lead"}
)
WINDOWED = _ORDERED | {"nth_value"}
"""Functions that need OVER; those of `_ORDERED` take no frame."""


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call that is of a group's rows."""
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in functions.AGGREGATES
    return isinstance(node, exp.AggFunc | exp.Any)


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and all below it, without queries in it."""
    if isinstance(node, exp.Select | exp.SetOperation):
        return
    yield node
    for child in node.iter_expressions():
        yield from own_nodes(child)


def is_windowed(node: exp.Expr) -> bool:
    """Whether a call is that of a window."""
    around = node.parent
    while isinstance(around, exp.Filter | exp.WithinGroup | exp.IgnoreNulls | exp.RespectNulls):
        node, around = around, around.parent
    return isinstance(around, exp.Window) and around.this is node


def arguments_of(node: exp.Expr) -> Iterator[exp.Expr]:
    """What a window's function is called with."""
    while isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        node = node.this
    yield from node.iter_expressions()


def window_parts(node: exp.Window) -> Iterator[exp.Expr]:
    yield from node.args.get("partition_by") or []
    order = node.args.get("order")
    for one in order.expressions if order is not None else []:
        yield one.this


def check_window(node: exp.Window, defined: exp.Window) -> None:
    """See that a window is one that Spark takes.

    Args:
        defined: what its name means, or itself.

    Raises:
        ModelError: it is none, with its place.
    """
    call = node.this
    while isinstance(call, exp.IgnoreNulls | exp.RespectNulls):
        call = call.this
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    words, place = "", at(node)
    if isinstance(call, exp.Filter):
        words = "a window takes no FILTER"
    elif name not in WINDOWED and not is_aggregate(call):
        words = f"{name or call.key} can't have OVER (…)"
    elif any(isinstance(one, exp.Distinct) for one in call.iter_expressions()):
        words = "a window takes no DISTINCT"
    if name in WINDOWED and defined.args.get("order") is None:
        words = f"{name} needs ORDER BY in its window"
    if name in _ORDERED and defined.args.get("spec") is not None:
        words = f"{name} takes no frame"
    for one in (*arguments_of(call), *window_parts(node)):
        if any(isinstance(inner, exp.Window) for inner in own_nodes(one)):
            words, place = "a window has another one in it", at(one)
    if words:
        raise ModelError(words, place=place)
    _check_frame(defined)


def _check_frame(window: exp.Window) -> None:
    spec = window.args.get("spec")
    if spec is None:
        return
    ends: list[float] = []
    for key in ("start", "end"):
        value, side = spec.args.get(key), str(spec.args.get(f"{key}_side") or "").upper()
        if value is None or str(value).upper() == "CURRENT ROW":
            ends.append(0)
            continue
        sign = -1 if side == "PRECEDING" else 1
        if str(value).upper() == "UNBOUNDED":
            ends.append(sign * float("inf"))
        elif isinstance(value, exp.Literal) and str(value.this).isdecimal():
            ends.append(sign * int(str(value.this)))
        else:
            raise ModelError("a frame's ends are whole numbers of rows here", place=at(window))
    order = window.args.get("order")
    by_value = str(spec.args.get("kind")).upper() == "RANGE"
    words = ""
    if ends[0] > ends[1] or ends[0] == float("inf") or ends[1] == -float("inf"):
        words = "a frame begins after its end"
    elif by_value and any(abs(end) not in (0, float("inf")) for end in ends):
        words = "RANGE with a distance can't be analysed: write ROWS, or join"
    elif by_value and order is None and 0 in ends:
        words = "RANGE needs ORDER BY in its window"
    if words:
        raise ModelError(words, place=at(window))
