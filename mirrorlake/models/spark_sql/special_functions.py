"""What those of Spark's functions give whose result depends on more than a line can say.

Arguments are of the types that the function takes (`mirrorlake.models.spark_sql.functions`); what
is decided here is what they must have in common.

Source: Spark's analyser, by which the tests hold every function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.columns import Typed

_Rule = Callable[[Sequence[Typed]], "tuple[str, bool] | None"]
"""The type and nullability of a call; None where its arguments have no place in it."""


def _or(kind: str | None, nullable: bool) -> tuple[str, bool] | None:
    return None if kind is None else (kind, nullable)


def _all_null(arguments: Sequence[Typed]) -> bool:
    """Whether every argument may be NULL: one that may not gives a value."""
    return all(a.nullable for a in arguments)


def _sum(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.total(arguments[0].type), True)


def _avg(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.average(arguments[0].type), True)


def _coalesce(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.common(a.type for a in arguments), _all_null(arguments))


def _greatest(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """Texts are compared with texts alone."""
    kinds = {a.type for a in arguments} - {types.VOID}
    if "string" in kinds and len(kinds) > 1:
        return None
    return _or(types.common(a.type for a in arguments), _all_null(arguments))


def _widest_any(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    wide = types.common(a.type for a in arguments)
    return _or(wide, any(a.nullable for a in arguments))


def _nvl2(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _widest_any(arguments[1:])


def _nullif(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.common(a.type for a in arguments) and arguments[0].type, True)


def _rounded(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kind = arguments[0].type
    if not types.is_decimal(kind):
        return ("double" if kind in ("string", types.VOID) else kind), True
    precision, scale = types.digits_of(kind) or (0, 0)
    return _rounded_to(precision, scale, _places(arguments)), True


def _places(arguments: Sequence[Typed]) -> int:
    """To how many places a number is rounded."""
    literal = arguments[1].literal if len(arguments) > 1 else None
    return 0 if literal is None else int(literal)


def _rounded_to(precision: int, scale: int, wanted: int) -> str:
    whole = precision - scale + 1
    if wanted < 0:
        return types.decimal(max(whole, -wanted + 1), 0)
    kept = min(scale, wanted)
    return types.decimal(whole + kept, kept)


def _ceiled(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    found = types.digits_of(arguments[0].type) if types.is_decimal(arguments[0].type) else None
    if found is None:
        # With places Spark makes a decimal of any number.
        return ("bigint", True) if len(arguments) == 1 else None
    if len(arguments) == 1:
        return types.decimal(found[0] - found[1] + 1, 0), True
    return _rounded_to(*found, _places(arguments)), True


def _array(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    inner = types.common(a.type for a in arguments) if arguments else types.VOID
    return _or(inner and f"array<{inner}>", False)


def _map(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    if len(arguments) % 2 or not arguments:
        return None
    key = types.common(a.type for a in arguments[::2])
    value = types.common(a.type for a in arguments[1::2])
    return (f"map<{key},{value}>", False) if key and value and "map<" not in key else None


def _collected(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return f"array<{arguments[0].type}>", False


def _concat(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kinds = {a.type for a in arguments}
    nullable = any(a.nullable for a in arguments)
    if any(one.startswith("array<") for one in kinds):
        return (kinds.pop(), nullable) if len(kinds) == 1 else None
    return ("binary" if kinds == {"binary"} else "string"), nullable


def _part(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """A part of a text or of bytes, or more of it."""
    nullable = any(a.nullable or a.type == "string" for a in arguments[1:2]) or any(
        a.nullable for a in arguments
    )
    return ("binary" if arguments[0].type == "binary" else "string"), nullable


def _padded(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """Bytes are padded with bytes: beside a text they are one."""
    kinds = {a.type for a in (arguments[0], *arguments[2:])}
    return ("binary" if kinds == {"binary"} else "string"), bool(
        (_part(arguments) or ("", True))[1]
    )


def _same(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kind = arguments[0].type
    return ("string" if not kind.startswith("array<") else kind), arguments[0].nullable


def _to_date(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return "date", _moment_null(arguments)


def _to_timestamp(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    if len(arguments) > 1 and types.is_number(arguments[0].type):
        return None
    return "timestamp", _moment_null(arguments)


def _moment_null(arguments: Sequence[Typed]) -> bool:
    """Whether the result may be NULL. With a format, a text that is no moment is an error."""
    cast = arguments[0].type == "string" and len(arguments) == 1
    return cast or any(a.nullable for a in arguments)


def _unix_timestamp(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return "bigint", any(a.nullable for a in arguments)


def _element(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """``element_at`` and ``get``: by its number, or of a map by its key."""
    pair = types.map_of(arguments[0].type)
    if pair is not None:
        return (pair[1], True) if arguments[1].type == pair[0] else None
    whole = arguments[1].type in ("tinyint", "smallint", "int")
    return _or(types.element(arguments[0].type) if whole else None, True)


def _most(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    inner = types.element(arguments[0].type)
    return None if inner is None or "map<" in inner else (inner, True)


def _flatten(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    inner = types.element(arguments[0].type) or ""
    return (inner, True) if inner.startswith("array<") else None


def _found_in(kind: str) -> _Rule:
    """A value that is looked for in an array: of the type of its elements."""

    def rule(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
        inner, wanted = types.element(arguments[0].type), arguments[1].type
        fits = inner is not None and inner != types.VOID and "map<" not in inner
        if fits and inner != wanted:
            fits = types.is_number(str(inner)) and types.is_number(wanted)
            # The elements become the wider type.
            fits = fits and (bool(kind) or types.wider(str(inner), wanted) == inner)
        if not fits:
            return None
        nullable = kind == "boolean" or any(a.nullable for a in arguments)
        return kind or arguments[0].type, nullable

    return rule


def _of_two_arrays(kind: str) -> _Rule:
    def rule(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
        one, other = arguments
        if one.type != other.type or "map<" in one.type:
            return None
        nullable = kind == "boolean" or one.nullable or other.nullable
        return kind or one.type, nullable

    return rule


def _map_keys(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    pair = types.map_of(arguments[0].type)
    return _or(pair and f"array<{pair[0]}>", arguments[0].nullable)


def _map_values(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    pair = types.map_of(arguments[0].type)
    return _or(pair and f"array<{pair[1]}>", arguments[0].nullable)


def _sequence(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kinds = {a.type for a in arguments[:2]}
    step = arguments[2].type if len(arguments) > 2 else ""
    if kinds <= set(types.INTEGERS):
        fits = not step or step in types.INTEGERS
    else:
        fits = len(kinds) == 1 and kinds <= set(types.MOMENTS)
        fits = fits and (not step or step.startswith("interval"))
    wide = types.common(kinds | ({step} if step in types.INTEGERS else set[str]()))
    return _or(f"array<{wide}>" if fits else None, any(a.nullable for a in arguments))


def _as_digits(value: Typed) -> str:
    """The decimal that a number is beside another: a literal is one of its own digits."""
    if value.literal is None or types.is_decimal(value.type):
        return value.type
    return types.decimal(*types.digits(value.literal))


def _counted(whole: Callable[[str, str], str]) -> _Rule:
    """``mod``, ``try_add`` …: of decimals by their digits, of others the wider type."""

    def rule(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
        left, right = arguments
        kinds = {left.type, right.type}
        if any(map(types.is_decimal, kinds)) and not kinds & {*types.FRACTIONS, "string"}:
            if types.VOID in kinds:
                return None
            return whole(_as_digits(left), _as_digits(right)), True
        if "string" in kinds:
            return ("bigint" if kinds & set(types.INTEGERS) else "double"), True
        wide = types.wider(left.type, right.type)
        return (wide, True) if wide and types.is_number(wide) else None

    return rule


def _divided(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    left, right = arguments
    kinds = {left.type, right.type}
    exact = any(map(types.is_decimal, kinds)) and not kinds & {*types.FRACTIONS, "string"}
    if exact and types.VOID in kinds:
        return None
    return (types.quotient(_as_digits(left), _as_digits(right)) if exact else "double"), True


def _shifted_row(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """``lag`` and ``lead``: with a default that is not NULL, a row always has a value."""
    if len(arguments) < 3:
        return arguments[0].type, True
    default = arguments[2]
    return _or(
        types.wider(arguments[0].type, default.type), arguments[0].nullable or default.nullable
    )


RULES: dict[str, _Rule] = {
    **dict.fromkeys(("sum", "try_sum"), _sum),
    **dict.fromkeys(("avg", "mean", "try_avg"), _avg),
    **dict.fromkeys(("coalesce", "nvl", "ifnull"), _coalesce),
    "nvl2": _nvl2,
    "nanvl": _widest_any,
    "nullif": _nullif,
    **dict.fromkeys(("greatest", "least"), _greatest),
    **dict.fromkeys(("round", "bround"), _rounded),
    **dict.fromkeys(("ceil", "ceiling", "floor"), _ceiled),
    "array": _array,
    "map": _map,
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), _collected),
    "concat": _concat,
    **dict.fromkeys(("substr", "substring", "left"), _part),
    **dict.fromkeys(("lpad", "rpad"), _padded),
    "reverse": _same,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    **dict.fromkeys(("unix_timestamp", "to_unix_timestamp"), _unix_timestamp),
    **dict.fromkeys(("element_at", "get"), _element),
    **dict.fromkeys(("array_max", "array_min"), _most),
    "array_contains": _found_in("boolean"),
    "array_position": _found_in("bigint"),
    "array_remove": _found_in(""),
    **dict.fromkeys(("array_union", "array_except", "array_intersect"), _of_two_arrays("")),
    "arrays_overlap": _of_two_arrays("boolean"),
    "flatten": _flatten,
    "map_keys": _map_keys,
    "map_values": _map_values,
    "sequence": _sequence,
    **dict.fromkeys(("mod", "pmod"), _counted(types.remainder)),
    **dict.fromkeys(("try_add", "try_subtract"), _counted(types.sum_of_two)),
    "try_divide": _divided,
    **dict.fromkeys(("lag", "lead"), _shifted_row),
}
