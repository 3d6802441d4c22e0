"""What Spark's functions take and give: types, and whether the result may be NULL.

A line is a name, what its arguments are, and its result. Each argument is a letter:

    d  a date or a moment, or a text that is one        D  a date        T  a timestamp
    n  a number, or a text that is one                  q  a number      w  a whole number
    k  an int, or a text that is one (K: no tinyint)    W  w, not NULL   I  an int or a bigint
    s  any single value, taken as a text                z  a text        x  a text or bytes
    o  a boolean, or a text that is one (B: no text)    a  an array      m  a map
    j  an array or a map                                J  j, or a struct
    e  s or a                                           h  anything without a map in it
    u  a number, a date or a moment, or a text          .  anything

``!`` stands before one that must be a literal, ``[`` before those that may be left out, and ``*``
repeats the last. A text that is turned into something else may be NULL then. The result is NULL
where an argument is, always perhaps (``?``), or never (``!``). ``=2`` is the type of the second
argument; of ``rule`` it is a rule that says.

What belongs here: Spark's built-in functions. What doesn't: functions that a project declares,
operators (`mirrorlake.models.spark_sql.expression_types.expressions`), and rules
(`mirrorlake.models.spark_sql.special_functions`).

Source: Spark's analyser, by which the tests hold every line, and every type of every argument
(``tests/integration/models/test_spark_agrees.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirrorlake.models.spark_sql import types
from mirrorlake.models.spark_sql.columns import Typed
from mirrorlake.models.spark_sql.special_functions import RULES

_TABLE = """
year d int; quarter d int; month d int; day d int; dayofmonth d int; dayofweek d int
dayofyear d int; weekday d int; weekofyear d int; hour d int; minute d int; second d int
date d date; date_add dk date; dateadd dk date; date_sub dk date; add_months dn date
last_day d date; next_day ds date?; datediff dd int; date_diff dd int; months_between dd double
date_trunc sd timestamp?; trunc ds date?; make_date nnn date; make_timestamp nnnnnn timestamp
unix_date D int; unix_seconds T bigint; unix_millis T bigint; unix_micros T bigint
timestamp_seconds q timestamp; timestamp_millis w timestamp; timestamp_micros w timestamp
date_from_unix_date n date; from_unixtime n[s string?; from_utc_timestamp ds timestamp
to_utc_timestamp ds timestamp; date_format ds string; to_date s[s rule; to_timestamp s[s rule
unix_timestamp [dz rule; to_unix_timestamp d[z rule
current_date - date!; current_timestamp - timestamp!; now - timestamp!
localtimestamp - timestamp_ntz!
upper s string; lower s string; ucase s string; lcase s string; trim s[s string
ltrim s[s string; rtrim s[s string; btrim s[s string; length s int; len s int
char_length s int; character_length s int; octet_length s int; bit_length s int
substr sn[n rule; substring sn[n rule; left sn rule; right sn string?
concat_ws se* string!; replace ss[s string; regexp_replace sss[W string
regexp_extract ss[W string; regexp_like ss boolean; rlike ss boolean; translate sss string
lpad sn[s rule; rpad sn[s rule; repeat sn string; initcap s string; instr ss int
locate ss[n int; position ss[n int; split ss[n array<string>; split_part ssn string?; ascii s int
chr n string; char n string; base64 x string; unbase64 s binary; hex s string; unhex s binary?
md5 x string; sha x string; sha1 x string; sha2 xn string?; crc32 x bigint; hash h* int!
xxhash64 h* bigint!; encode ss binary?; decode xs string?; format_string s.* string!
printf s.* string!; format_number qK string?; soundex z string; levenshtein ss[n int
contains ss boolean; startswith ss boolean; endswith ss boolean; concat e* rule; reverse e rule
sign n double?; signum n double?; sqrt n double?; cbrt n double?; exp n double?; ln n double?
log n[n double?; log10 n double?; log2 n double?; log1p n double?; expm1 n double?
pow nn double; power nn double; sin n double?; cos n double?; tan n double?; asin n double?
acos n double?; atan n double?; sinh n double?; cosh n double?; tanh n double?; atan2 nn double
degrees n double?; radians n double?; pi - double!; e - double!; factorial n bigint?; bin n string
conv snn string?; rand [!W double!; randn [!W double!; random [!W double!; uuid - string!
width_bucket nnnn bigint?; shiftleft In =1; shiftright In =1; bit_count w int
round n[!W rule; bround n[!W rule; ceil n[!W rule; ceiling n[!W rule; floor n[!W rule
mod nn rule; pmod nn rule; nanvl nn rule
isnull . boolean!; isnotnull . boolean!; isnan n boolean!; coalesce .* rule; nvl .. rule
ifnull .. rule; nvl2 ... rule; nullif hh rule; greatest hh* rule; least hh* rule
count .* bigint!; count_if o bigint!; min h =1?; max h =1?; first . =1?; first_value . =1?
last . =1?; last_value . =1?; any_value . =1?; max_by .h =1?; min_by .h =1?
sum n rule; try_sum n rule; avg n rule; mean n rule; try_avg n rule
collect_list . rule; collect_set h rule; array_agg . rule
stddev n double?; stddev_samp n double?; stddev_pop n double?; std n double?; variance n double?
var_samp n double?; var_pop n double?; corr nn double?; covar_pop nn double?; covar_samp nn double?
skewness n double?; kurtosis n double?; median n double?; mode . =1?; percentile n!n double?
percentile_cont n double?; percentile_disc n double?
percentile_approx q!n =1?; approx_percentile q!n =1?; approx_count_distinct . bigint!
bool_and o boolean?; bool_or o boolean?; every o boolean?; some o boolean?; any o boolean?
bit_and W =1?; bit_or W =1?; bit_xor W =1?; string_agg z[!z string?; listagg z[!z string?
regr_count nn bigint!; regr_slope nn double?; regr_intercept nn double?; regr_r2 nn double?
row_number - int!; rank - int!; dense_rank - int!; ntile !W int!; percent_rank - double!
cume_dist - double!; nth_value .!W =1?; lag .[!W. rule; lead .[!W. rule
size j int; cardinality j int; array_size a int; array_contains a. rule; array .* rule
array_distinct a =1; array_join az[z string; array_sort a =1; sort_array a[!B =1
array_position a. rule; array_remove a. rule; array_union aa rule; array_except aa rule
array_intersect aa rule; arrays_overlap aa rule; slice ann =1; array_compact a =1
array_max a rule; array_min a rule; flatten a rule; element_at j. rule; get an rule
map .* rule; map_keys m rule; map_values m rule; sequence ..[. rule
get_json_object zz string?; to_json J string?; json_array_length z int?
typeof . string!; version - string!; current_user - string!; monotonically_increasing_id - bigint!
spark_partition_id - int!; input_file_name - string!
try_add qq rule; try_subtract qq rule; try_divide nn rule
positive q =1; negative q =1; abs q =1
to_char u!z string; to_varchar u!z string; assert_true B[s void?; raise_error s void?
grouping . tinyint!; grouping_id .* bigint!; bitmap_bit_position n bigint
"""
_TAKEN = {
    "d": "dnstv", "D": "dv", "T": "tv", "n": "cfgilsvy", "q": "cfgily", "w": "ilvy", "W": "ily",
    "I": "il", "k": "isvy", "K": "isv", "B": "bv", "s": "bcdfgilnstvxy", "z": "sv", "x": "svx",
    "o": "bsv", "a": "a",
    "m": "m", "j": "am", "J": "amr", "e": "abcdfgilnstvxy", "u": "cdfgilnsty",
    "h": "abcdfgilnrstvxyp", ".": "abcdfgilmnrstvxyp",
}  # fmt: skip
"""Letter of an argument → those of the types that it may be of."""
_TYPES = {
    "tinyint": "y", "smallint": "y", "int": "i", "bigint": "l", "float": "g", "double": "f",
    "string": "s", "boolean": "b", "date": "d", "timestamp": "t", "timestamp_ntz": "n",
    "binary": "x", types.VOID: "v",
}  # fmt: skip
_NESTED = {"decimal": "c", "array": "a", "map": "m", "struct": "r", "interval": "p"}

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

DAY = frozenset({"current_date", "curdate"})
"""Those that give the day."""

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
class Argument:
    """One argument: a letter, and whether it must be a literal."""

    letter: str
    literal: bool = False

    def takes(self, value: Typed) -> bool:
        """Whether a value of this type has a place here."""
        if self.letter == "h" and "map<" in value.type:
            return False
        return _letter(value.type) in _TAKEN[self.letter]


@dataclass(frozen=True)
class _Signature:
    """What one function takes and gives; ``result`` is a type, ``=n`` or ``rule``.

    ``least``: how many arguments there are at least; ``nulls``: '' where an argument is NULL, ``?``
    perhaps always, ``!`` never.
    """

    arguments: tuple[Argument, ...]
    least: int
    repeats: bool
    result: str
    nulls: str = ""

    def places(self, count: int) -> Sequence[Argument] | None:
        """What each of so many arguments is; None where there are too many or too few."""
        if count < self.least or (count > len(self.arguments) and not self.repeats):
            return None
        more = count - len(self.arguments)
        return (*self.arguments, *self.arguments[-1:] * more)[:count]


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


def _letter(kind: str) -> str:
    found = _TYPES.get(kind)
    if found is not None:
        return found
    return next((one for name, one in _NESTED.items() if kind.startswith(name)), "")


def _read(table: str) -> dict[str, _Signature]:
    found: dict[str, _Signature] = {}
    for line in table.replace("\n", ";").split(";"):
        if not line.strip():
            continue
        name, arguments, result = line.split()
        nulls = result[-1] if result[-1] in "?!" else ""
        needed, _, optional = arguments.strip("-").rstrip("*").partition("[")
        first, second = _arguments(needed), _arguments(optional)
        repeats = arguments.endswith("*")
        shown = result.rstrip("?!")
        found[name] = _Signature((*first, *second), len(first), repeats, shown, nulls)
    return found


def _arguments(text: str) -> tuple[Argument, ...]:
    return tuple(
        Argument(one, text[number - 1 : number] == "!")
        for number, one in enumerate(text)
        if one != "!"
    )


_SIGNATURES = _read(_TABLE)


def call(
    name: str, arguments: Sequence[Typed], literals: Sequence[bool]
) -> tuple[str, bool] | None:
    """The type of a built-in function's result, and whether it may be NULL; None where the
    arguments are others than it takes.

    Args:
        literals: which of the arguments are written as literals.

    Raises:
        KeyError: there is no such function.
    """
    signature = _SIGNATURES[name]
    places = signature.places(len(arguments))
    if places is None or not all(
        place.takes(value) and (is_literal or not place.literal)
        for place, value, is_literal in zip(places, arguments, literals, strict=True)
    ):
        return None
    if signature.result == "rule":
        return RULES[name](arguments)
    return _by_signature(signature, places, arguments)


def is_known(name: str) -> bool:
    return name in _SIGNATURES


def _by_signature(
    signature: _Signature, places: Sequence[Argument], arguments: Sequence[Typed]
) -> tuple[str, bool] | None:
    """The result of a function that a line describes."""
    nullable = signature.nulls == "?" or (
        not signature.nulls
        and any(
            value.nullable or (value.type == "string" and place.letter in "dnk")
            for place, value in zip(places, arguments, strict=True)
        )
    )
    result = signature.result
    if result.startswith("="):
        return arguments[int(result[1:]) - 1].type, nullable
    return result, nullable
