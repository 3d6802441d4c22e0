"""Whole numbers, years, decimals, floating-point numbers and bits."""

from __future__ import annotations

from mirrorlake.other_copies.pairings.pairing import (
    MOMENTS,
    Loss,
    Pairing,
    TheirType,
    digits_of,
    number_of,
)
from mirrorlake.sources.mysql.tables import Column

_LIMITS = ", ".join(
    str(one) for bits in (8, 16, 32, 64) for one in (2 ** (bits - 1) - 1, -(2 ** (bits - 1)))
)
_WRAPS = "256, 65536, 16777216, 4294967296, 18446744073709551616"


def integer(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """TINYINT to BIGINT."""
    if kind.kind not in ("integer", "boolean", "decimal", "float", "text"):
        return None
    ours, theirs = f"CAST({o} AS HUGEINT)", number_of(t, kind)
    losses = [Loss("zero_to_null", f"{o} = 0 AND {t} IS NULL")]
    if kind.kind == "boolean":
        losses.append(Loss("boolean", f"{t} AND {o} NOT IN (0, 1)"))
        return Pairing(ours, theirs, losses, notes=("numbers as true and false",))
    wrapped = f"{ours} - {theirs} IN ({_WRAPS})"
    kind_of_wrap = "unsigned_overflow" if column.unsigned else "overflow"
    losses += [
        Loss(kind_of_wrap, f"{wrapped} AND {theirs} < 0"),
        Loss("overflow", f"({ours} - {theirs}) % {2 ** _bits(kind)} = 0"),
        Loss("clamped", f"{theirs} IN ({_LIMITS}) AND abs({ours}) > abs({theirs})"),
        Loss("integer_to_double", f"CAST({ours} AS DOUBLE) = TRY_CAST({t} AS DOUBLE)"),
    ]
    return Pairing(ours, theirs, losses, notes=_retyped(kind, "integer"))


def _bits(kind: TheirType) -> int:
    sizes = {"TINYINT": 8, "SMALLINT": 16, "INTEGER": 32, "BIGINT": 64}
    return sizes.get(kind.name.removeprefix("U"), 64)


def _retyped(kind: TheirType, *usual: str) -> tuple[str, ...]:
    """What is told of a type that is not the usual one."""
    if kind.kind in usual:
        return ()
    words = {"text": "numbers as text", "float": "numbers as floating-point numbers"}
    return (words.get(kind.kind, f"as {kind.name}"),)


def year(_column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """YEAR; JDBC makes a date of it."""
    ours = f"CAST({o} AS HUGEINT)"
    notes = _retyped(kind, "integer")
    if kind.kind in MOMENTS:
        first = f"month({t}) = 1 AND day({t}) = 1"
        theirs = f"CASE WHEN {first} THEN CAST(year({t}) AS HUGEINT) END"
        notes = ("years as the first of January",)
    elif kind.kind in ("integer", "decimal", "float", "text"):
        theirs = number_of(t, kind)
    else:
        return None
    losses = (
        Loss("zero_to_null", f"{o} = 0 AND {t} IS NULL"),
        Loss("year_zero", f"{o} = 0", f"coalesce('(' || {theirs} || ')', '')"),
        Loss("year_two_digits", f"{ours} % 100 = {theirs}"),
    )
    return Pairing(ours, theirs, losses, notes=notes)


def decimal(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """DECIMAL; of more than 38 digits it comes as text."""
    if kind.kind not in ("integer", "boolean", "decimal", "float", "text"):
        return None
    ours, theirs = f"plain_number(CAST({o} AS VARCHAR))", digits_of(t, kind)
    losses = [Loss("zero_to_null", f"{ours} = '0' AND {t} IS NULL")]
    if kind.kind == "float":
        # MySQL's digits can be had back where this is the nearest number to them, and rounding it
        # to the column's digits gives them.
        text = f"printf('%.{column.scale or 0}f', CAST({t} AS DOUBLE))"
        theirs = f"CASE WHEN CAST({text} AS {kind.name}) = {t} THEN plain_digits({text}) END"
        nearest = f"CAST(CAST({o} AS VARCHAR) AS {kind.name}) = {t}"
        near = f"abs(CAST({o} AS DOUBLE) - {t}) <= 1e-6 * abs({t})"
        losses.append(Loss("decimal_to_double", f"{nearest} OR {near}", _precision(kind)))
        words = f"decimals as {kind.name}: sums differ, rounded values don't"
        return Pairing(ours, theirs, losses, notes=(words,))
    scale = 0 if kind.kind in ("integer", "boolean") else kind.scale
    if kind.kind == "text":
        losses += [
            Loss("digits_cut", f"contains({ours}, '.') AND starts_with({ours}, {theirs})"),
            Loss("decimal_to_double", f"CAST({ours} AS DOUBLE) = TRY_CAST({t} AS DOUBLE)"),
        ]
    elif scale < (column.scale or 0):
        cut = rf"regexp_extract({ours}, '^-?[0-9]+(\.[0-9]{{0,{scale}}})?')"
        told = f"'to {scale} places'"
        losses += [
            Loss("digits_cut", f"plain_digits({cut}) = {theirs}", told),
            Loss("digits_rounded", _rounds_to(o, theirs, scale), told),
        ]
    losses.append(Loss("clamped", f"{theirs} IN ({', '.join(map(repr, _LIMITS.split(', ')))})"))
    return Pairing(ours, theirs, losses, notes=_retyped(kind, "decimal", "integer"))


def _precision(kind: TheirType) -> str:
    return "'of 32 bits'" if kind.name == "FLOAT" else "'of 64 bits'"


def _rounds_to(o: str, theirs: str, scale: int) -> str:
    distance = f"abs(CAST({o} AS DECIMAL(38,9)) - CAST({theirs} AS DECIMAL(38,9)))"
    half = f"{distance} * 2 <= CAST('1e-{scale}' AS DECIMAL(38,9))"
    as_double = f"abs(CAST({o} AS DOUBLE) - CAST({theirs} AS DOUBLE)) * 2 <= 1.0000001e-{scale}"
    return f"coalesce(TRY({half}), {as_double})"


def floating(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """FLOAT and DOUBLE; every bit counts, the sign of zero too."""
    if kind.kind not in ("integer", "decimal", "float", "text"):
        return None
    single = column.data_type == "float"
    ours = _bits_text(o)
    text = f"TRY_CAST(CAST({t} AS VARCHAR) AS {'FLOAT' if single else 'DOUBLE'})"
    notes = _retyped(kind, "float")
    if kind.kind == "integer":
        theirs = _bits_text(t)
    elif kind.kind != "float":
        theirs = _bits_text(text)
    elif single and kind.name == "DOUBLE":
        # As a number, or as MySQL's FLOAT is printed: 0.1 for 0.10000000149011612.
        printed = f"CAST({t} AS VARCHAR) = CAST(TRY_CAST({t} AS FLOAT) AS VARCHAR)"
        theirs = f"CASE WHEN {printed} THEN {_bits_text(text)} ELSE {_bits_text(t)} END"
    else:
        theirs = _bits_text(t)
    other = f"CAST({t} AS DOUBLE)" if kind.kind == "float" else f"TRY_CAST({t} AS DOUBLE)"
    six = f"CAST(format('{{:.6g}}', CAST({o} AS DOUBLE)) AS DOUBLE)"
    losses = [
        Loss("zero_to_null", f"{o} = 0 AND {t} IS NULL"),
        Loss("sign_of_zero", f"{o} = 0 AND {other} = 0"),
        *([Loss("float_to_6_digits", f"{six} = {other} OR CAST({six} AS FLOAT) = {t}")]
          if single else []),
        *([Loss("double_to_float", f"CAST({o} AS FLOAT) = CAST({t} AS FLOAT)")]
          if kind.name == "FLOAT" and not single else []),
        Loss("float_rounded", f"abs({o} - {other}) <= 1e-4 * abs({o})"),
        Loss("digits_cut", f"abs({o} - {other}) < 1"),
    ]  # fmt: skip
    return Pairing(ours, theirs, losses, notes=notes)


def _bits_text(number: str) -> str:
    """A text that each number has for itself: the shortest that is read back as it."""
    return f"CAST(CAST({number} AS DOUBLE) AS VARCHAR)"


def bit(_column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """BIT, as digits in hexadecimal."""
    ours = f"ltrim(to_hex(CAST({o} AS UBIGINT)), '0')"
    notes: tuple[str, ...] = ()
    if kind.kind == "bytes":
        theirs, notes = f"ltrim(hex({t}), '0')", ("bits as bytes",)
    elif kind.kind == "bit":
        ours, theirs = f"ltrim(bin(CAST({o} AS UBIGINT)), '0')", f"ltrim(CAST({t} AS VARCHAR), '0')"
    elif kind.kind == "text":
        digits = f"regexp_full_match({t}, '[0-9]+')"
        number = f"ltrim(to_hex(TRY_CAST({t} AS UBIGINT)), '0')"
        theirs = f"CASE WHEN {digits} THEN {number} ELSE ltrim(hex(encode({t})), '0') END"
        notes = ("bits as text",)
    elif kind.kind in ("integer", "boolean", "decimal", "float"):
        theirs = f"ltrim(to_hex(TRY_CAST({number_of(t, kind)} AS UBIGINT)), '0')"
        notes = ("bits as true and false",) if kind.kind == "boolean" else _retyped(kind, "integer")
    else:
        return None
    losses = [Loss("zero_to_null", f"{o} = 0 AND {t} IS NULL")]
    if kind.kind == "bytes":
        losses.append(Loss("bit_digits", f"regexp_full_match(decode({t}), '[01]+')"))
    elif kind.kind == "boolean":
        losses.append(Loss("bit_to_boolean", f"{t} AND {o} NOT IN (0, 1)"))
    else:
        number = number_of(t, kind)
        losses.append(
            Loss("unsigned_overflow", f"CAST({o} AS HUGEINT) - {number} = 18446744073709551616")
        )
    return Pairing(ours, theirs, losses, notes=notes)
