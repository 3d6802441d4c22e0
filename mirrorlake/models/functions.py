"""What Spark's functions give: the type, and whether it may be NULL.

A line is a name, what its arguments are, and its result. An argument is ``d`` (a date), ``t`` (a
moment), ``n`` (a number), ``s`` (a text) or ``.`` (anything); ``*`` repeats the last. A text where
a date, a moment or a number is meant is turned into one, and may then be NULL. The result is NULL
where an argument is, always perhaps (``?``), or never (``!``). ``=2`` is the type of the second
argument, ``widest`` the one that all have in common.

What belongs here: Spark's built-in functions. What doesn't: functions that a project declares, and
operators (`mirrorlake.models.expressions`).

Source: Spark's analyser, by which the tests hold every line
(``tests/integration/models/test_spark_agrees.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mirrorlake.models import types
from mirrorlake.models.columns import Typed

_TABLE = """
year d int; quarter d int; month d int; day d int; dayofmonth d int; dayofweek d int
dayofyear d int; weekday d int; weekofyear d int; hour t int; minute t int; second t int
date . date; date_add dn date; dateadd dn date; date_sub dn date; add_months dn date
last_day d date; next_day ds date?; datediff dd int; date_diff dd int; months_between tt. double
date_trunc st timestamp?; trunc ds date?; make_date nnn date; make_timestamp nnnnnn. timestamp
unix_date d int; unix_seconds t bigint; unix_millis t bigint; unix_micros t bigint
timestamp_seconds n timestamp; timestamp_millis n timestamp; timestamp_micros n timestamp
date_from_unix_date n date; from_unixtime ns string?; from_utc_timestamp ts timestamp
to_utc_timestamp ts timestamp; date_format ts string
current_date - date!; current_timestamp - timestamp!; now - timestamp!
localtimestamp - timestamp_ntz!
upper s string; lower s string; ucase s string; lcase s string; trim ss string; ltrim ss string
rtrim ss string; btrim ss string; length s int; len s int; char_length s int
character_length s int
octet_length s int; bit_length s int; substr snn string; substring snn string; left sn string
right sn string?; concat_ws s* string!; replace sss string; regexp_replace sss. string
regexp_extract ss. string; regexp_like ss boolean; rlike ss boolean; translate sss string
lpad sns string; rpad sns string; repeat sn string; initcap s string; instr ss int
locate ssn int; position ssn int; split ssn array<string>; split_part ssn string?; ascii s int
chr n string; char n string; base64 . string; unbase64 s binary; hex . string; unhex s binary?
md5 . string; sha . string; sha1 . string; sha2 .n string?; crc32 . bigint; hash .* int!
xxhash64 .* bigint!; encode ss binary?; decode .s string?; format_string .* string!
printf .* string!; format_number n. string?; soundex s string; levenshtein ss. int
contains ss boolean; startswith ss boolean; endswith ss boolean
sign n double?; signum n double?; sqrt n double?; cbrt n double?; exp n double?; ln n double?
log n* double?; log10 n double?; log2 n double?; log1p n double?; expm1 n double?
pow nn double; power nn double; sin n double?; cos n double?; tan n double?; asin n double?
acos n double?; atan n double?; sinh n double?; cosh n double?; tanh n double?; atan2 nn double
degrees n double?; radians n double?; pi - double!; e - double!; factorial n bigint?; bin n string
conv snn string?; rand . double!; randn . double!; random . double!; uuid - string!
width_bucket nnnn bigint?; shiftleft nn =1; shiftright nn =1; bit_count . int
isnull . boolean!; isnotnull . boolean!; isnan n boolean!
count .* bigint!; count_if . bigint!; min . =1?; max . =1?; first .. =1?; first_value .. =1?
last .. =1?; last_value .. =1?; any_value .. =1?; max_by .. =1?; min_by .. =1?
stddev n double?; stddev_samp n double?; stddev_pop n double?; std n double?; variance n double?
var_samp n double?; var_pop n double?; corr nn double?; covar_pop nn double?; covar_samp nn double?
skewness n double?; kurtosis n double?; median n double?; mode .. =1?; percentile nn. double?
percentile_cont n double?; percentile_disc n double?
percentile_approx nn. =1?; approx_percentile nn. =1?; approx_count_distinct .. bigint!
bool_and . boolean?; bool_or . boolean?; every . boolean?; some . boolean?; any . boolean?
bit_and n =1?; bit_or n =1?; bit_xor n =1?; string_agg .. string?; listagg .. string?
regr_count nn bigint!; regr_slope nn double?; regr_intercept nn double?; regr_r2 nn double?
row_number - int!; rank - int!; dense_rank - int!; ntile n int!; percent_rank - double!
cume_dist - double!; nth_value .n. =1?
size . int; cardinality . int; array_size . int; array_contains .. boolean?
array_distinct . =1; array_join .ss string; array_sort .. =1; sort_array .. =1
array_position .. bigint; array_remove .. =1; array_union .. =1; array_except .. =1
array_intersect .. =1; arrays_overlap .. boolean?; slice .nn =1; array_compact . =1
get_json_object ss string?; to_json .. string?; json_array_length s int?
typeof . string!; version - string!; current_user - string!; monotonically_increasing_id - bigint!
spark_partition_id - int!; input_file_name - string!
try_add nn widest?; try_subtract nn widest?
greatest .* widest; least .* widest; positive n =1; negative n =1; abs n =1
to_char .s string; to_varchar .s string; assert_true .. void?; raise_error . void?
grouping . tinyint!; grouping_id .* bigint!; bitmap_bit_position n bigint
"""

NON_DETERMINISTIC = frozenset(
    {
        *("rand", "randn", "random", "uuid", "shuffle", "monotonically_increasing_id"),
        *("spark_partition_id", "input_file_name", "current_date", "current_timestamp", "now"),
        *("curdate", "localtimestamp", "current_user", "user", "session_user", "current_timezone"),
        *("unix_timestamp()", "input_file_block_start", "input_file_block_length"),
    }
)
"""Functions whose value is not decided by the rows that they are given: ``unix_timestamp()`` is
the one without an argument."""

AGGREGATES = frozenset(
    {
        *("count", "count_if", "min", "max", "sum", "avg", "mean", "first", "last", "any_value"),
        *("first_value", "last_value", "max_by", "min_by", "stddev", "stddev_samp", "stddev_pop"),
        *("std", "variance", "var_samp", "var_pop", "corr", "covar_pop", "covar_samp", "skewness"),
        *("kurtosis", "median", "mode", "percentile", "percentile_approx", "approx_percentile"),
        *("approx_count_distinct", "collect_list", "collect_set", "array_agg", "bool_and"),
        *("bool_or", "every", "some", "any", "bit_and", "bit_or", "bit_xor", "string_agg"),
        *("listagg", "regr_count", "regr_slope", "regr_intercept", "regr_r2", "try_sum", "try_avg"),
        *("percentile_cont", "percentile_disc", "grouping", "grouping_id"),
    }
)


@dataclass(frozen=True)
class Signature:
    """What one function takes and gives; ``result`` is a type, ``=n`` or ``widest``.

    ``nulls``: '' where an argument is NULL, ``?`` perhaps always, ``!`` never.
    """

    arguments: str
    result: str
    nulls: str = ""


@dataclass(frozen=True)
class DeclaredFunction:
    """A function of the project.

    Attributes:
        takes: the types of its arguments; ``gives``: of its result, which may be NULL.
    """

    name: str
    takes: tuple[str, ...]
    gives: str

    def result(self, arguments: Sequence[Typed]) -> tuple[str, bool] | None:
        """The type of a call, and whether it may be NULL; None where its arguments are of other
        types: Spark gives a function of Python's whatever it is called with."""
        return (self.gives, True) if tuple(a.type for a in arguments) == self.takes else None

    @property
    def shown(self) -> str:
        return f"{self.name}({', '.join(self.takes)})"


def _read(table: str) -> dict[str, Signature]:
    found: dict[str, Signature] = {}
    for line in table.replace("\n", ";").split(";"):
        if not line.strip():
            continue
        name, arguments, result = line.split()
        nulls = result[-1] if result[-1] in "?!" else ""
        found[name] = Signature(arguments.strip("-"), result.rstrip("?!"), nulls)
    return found


SIGNATURES = _read(_TABLE)

Rule = Callable[[Sequence[Typed]], "tuple[str, bool] | None"]
"""The type and nullability of a call; None where its arguments have no place in it."""


def call(name: str, arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """The type of a built-in function's result, and whether it may be NULL; None where the
    arguments are of other types than it takes.

    Raises:
        KeyError: there is no such function.
    """
    rule = RULES.get(name)
    if rule is not None:
        return rule(arguments)
    return by_signature(SIGNATURES[name], arguments)


def is_known(name: str) -> bool:
    return name in SIGNATURES or name in RULES


def by_signature(signature: Signature, arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """The result of a function that a line describes."""
    nullable = signature.nulls == "?" or (
        not signature.nulls and _any_null(signature.arguments, arguments)
    )
    result = signature.result
    if result == "widest":
        wide = types.common(a.type for a in arguments)
        return (wide, all_null(arguments)) if wide and not signature.nulls else _or(wide, nullable)
    if result.startswith("="):
        number = int(result[1:]) - 1
        return (arguments[number].type, nullable) if number < len(arguments) else None
    return result, nullable


def _or(kind: str | None, nullable: bool) -> tuple[str, bool] | None:
    return None if kind is None else (kind, nullable)


def all_null(arguments: Sequence[Typed]) -> bool:
    """Whether every argument may be NULL: one that may not gives a value."""
    return all(a.nullable for a in arguments)


def _any_null(wanted: str, arguments: Sequence[Typed]) -> bool:
    return any(
        a.nullable or (a.type == "string" and _kind_of(wanted, number) in "dtn")
        for number, a in enumerate(arguments)
    )


def _kind_of(wanted: str, number: int) -> str:
    if number < len(wanted) and wanted[number] != "*":
        return wanted[number]
    return wanted[-2] if wanted.endswith("*") else "."


# --- functions whose result depends on more -------------------------------------------------------


def _sum(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.total(arguments[0].type), True) if len(arguments) == 1 else None


def _avg(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.average(arguments[0].type), True) if len(arguments) == 1 else None


def _coalesce(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.common(a.type for a in arguments), all_null(arguments))


def _widest_any(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    wide = types.common(a.type for a in arguments)
    return _or(wide, any(a.nullable for a in arguments))


def _nvl2(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _widest_any(arguments[1:]) if len(arguments) == 3 else None


def _nullif(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return (arguments[0].type, True) if len(arguments) == 2 else None


def _rounded(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kind = arguments[0].type
    if not types.is_decimal(kind):
        return ("double" if kind == "string" else kind), True
    precision, scale = types.digits_of(kind) or (0, 0)
    wanted = 0
    if len(arguments) > 1:
        if arguments[1].literal is None:
            return None
        wanted = int(arguments[1].literal)
    return _rounded_to(precision, scale, wanted), True


def _rounded_to(precision: int, scale: int, wanted: int) -> str:
    whole = precision - scale + 1
    if wanted < 0:
        return types.decimal(max(whole, -wanted + 1), 0)
    kept = min(scale, wanted)
    return types.decimal(whole + kept, kept)


def _ceiled(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    found = types.digits_of(arguments[0].type) if types.is_decimal(arguments[0].type) else None
    return ("bigint" if found is None else types.decimal(found[0] - found[1] + 1, 0)), True


def _array(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    inner = types.common(a.type for a in arguments) if arguments else types.VOID
    return _or(inner and f"array<{inner}>", False)


def _map(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    key = types.common(a.type for a in arguments[::2])
    value = types.common(a.type for a in arguments[1::2])
    return (f"map<{key},{value}>", False) if key and value else None


def _collected(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return f"array<{arguments[0].type}>", False


def _concat(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kinds = {a.type for a in arguments}
    one = kinds.pop() if len(kinds) == 1 else "string"
    kind = one if one == "binary" or one.startswith("array<") else "string"
    return kind, any(a.nullable for a in arguments)


def _same(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    kind = arguments[0].type
    return ("string" if not kind.startswith("array<") else kind), arguments[0].nullable


def _to_date(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return "date", _moment_null(arguments)


def _to_timestamp(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return "timestamp", _moment_null(arguments)


def _moment_null(arguments: Sequence[Typed]) -> bool:
    """With a format it is an error, and no NULL, if a text is none."""
    cast = arguments[0].type == "string" and len(arguments) == 1
    return cast or any(a.nullable for a in arguments)


def _unix_timestamp(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return "bigint", any(a.nullable for a in arguments)


def _element(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.element(arguments[0].type), True)


def _flatten(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    return _or(types.element(arguments[0].type), True)


def _map_keys(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    pair = types.map_of(arguments[0].type)
    return _or(pair and f"array<{pair[0]}>", arguments[0].nullable)


def _map_values(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    pair = types.map_of(arguments[0].type)
    return _or(pair and f"array<{pair[1]}>", arguments[0].nullable)


def _sequence(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    wide = types.common(a.type for a in arguments[:2])
    return _or(wide and f"array<{wide}>", any(a.nullable for a in arguments))


def _remainder(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    left, right = (a.type for a in arguments)
    if types.is_decimal(left) or types.is_decimal(right):
        return types.remainder(left, right), True
    return _or(types.wider(left, right), True)


def _divided(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    left, right = (a.type for a in arguments)
    exact = types.is_decimal(left) or types.is_decimal(right)
    floating = left in types.FRACTIONS or right in types.FRACTIONS
    return (types.quotient(left, right) if exact and not floating else "double"), True


def _shifted_row(arguments: Sequence[Typed]) -> tuple[str, bool] | None:
    """``lag`` and ``lead``: with a default that is none, a row is never without a value."""
    if len(arguments) < 3:
        return arguments[0].type, True
    default = arguments[2]
    return _or(
        types.wider(arguments[0].type, default.type), arguments[0].nullable or default.nullable
    )


RULES: dict[str, Rule] = {
    "sum": _sum,
    "try_sum": _sum,
    "avg": _avg,
    "mean": _avg,
    "try_avg": _avg,
    **dict.fromkeys(("coalesce", "nvl", "ifnull"), _coalesce),
    "nvl2": _nvl2,
    "nanvl": _widest_any,
    "nullif": _nullif,
    "round": _rounded,
    "bround": _rounded,
    **dict.fromkeys(("ceil", "ceiling", "floor"), _ceiled),
    "array": _array,
    "map": _map,
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), _collected),
    "concat": _concat,
    "reverse": _same,
    "to_date": _to_date,
    "to_timestamp": _to_timestamp,
    "unix_timestamp": _unix_timestamp,
    "to_unix_timestamp": _unix_timestamp,
    **dict.fromkeys(("array_max", "array_min", "element_at", "get"), _element),
    "flatten": _flatten,
    "map_keys": _map_keys,
    "map_values": _map_values,
    "sequence": _sequence,
    "mod": _remainder,
    "pmod": _remainder,
    "try_divide": _divided,
    "lag": _shifted_row,
    "lead": _shifted_row,
}
