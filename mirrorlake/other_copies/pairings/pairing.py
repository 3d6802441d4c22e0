"""A pairing: two columns and the SQL that compares their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

TheirKind: TypeAlias = Literal[
    "integer", "boolean", "decimal", "float", "text", "bytes", "date", "timestamp",
    "timestamptz", "time", "interval", "bit", "uuid", "nested", "other",
]  # fmt: skip

MOMENTS: Final = ("date", "timestamp", "timestamptz")


@dataclass(frozen=True)
class TheirType:
    """A type of DuckDB's that the copy's column has.

    Attributes:
        name: in DuckDB's words: ``DECIMAL(10,2)``.
        kind: what it is.
        scale: digits after the point, of a decimal.
    """

    name: str
    kind: TheirKind
    scale: int = 0

    @classmethod
    def of(cls, name: str) -> TheirType:
        """By DuckDB's name of it.

        >>> TheirType.of("DECIMAL(10,2)").scale, TheirType.of("VARCHAR[]").kind
        (2, 'nested')
        """
        if re.search(r"\]$", name) or name.startswith(("STRUCT", "MAP", "UNION", "VARIANT")):
            return cls(name, "nested")
        if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name):
            return cls(name, "decimal", int(found[2]))
        return cls(name, "text" if name.startswith("ENUM") else _KINDS.get(name, "other"))


_INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
_KINDS: dict[str, TheirKind] = {
    **dict.fromkeys(_INTEGERS, "integer"),
    **dict.fromkeys([f"U{name}" for name in _INTEGERS], "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("VARCHAR", "JSON"), "text"),
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMP_TZ"), "timestamptz"),
    **{"TIME": "time", "BOOLEAN": "boolean", "BLOB": "bytes", "DATE": "date"},
    **{"INTERVAL": "interval", "BIT": "bit", "UUID": "uuid"},
}


@dataclass(frozen=True)
class Loss:
    """A way in which a value may have changed.

    Attributes:
        kind: its name in `KINDS`.
        when: SQL that is true where a value that differs changed this way.
        detail: SQL of what is said of it beside the name, an offset or a length; never a value.
    """

    kind: str
    when: str
    detail: str = ""

    @property
    def sql(self) -> str:
        """The branch of a CASE."""
        told = f"'{self.kind}|' || CAST({self.detail} AS VARCHAR)" if self.detail else None
        return f"WHEN TRY({self.when}) THEN {told or repr(self.kind)}"


@dataclass(frozen=True)
class Pairing:
    """How the values of two columns are compared.

    Attributes:
        ours, theirs: SQL of one form of both; equal values have equal forms. A value that has none
            is NULL there, and equal to nothing.
        losses: what a difference may be, the surest first.
        notes: what is told of the types alone; nothing is lost by it.
        ways: where the copy may have written its values in one of several units or encodings: a
            pairing for each. One is taken for the whole column; this one where no value is equal
            by any of them.
    """

    ours: str
    theirs: str
    losses: Sequence[Loss] = ()
    notes: tuple[str, ...] = field(default=())
    ways: tuple[Pairing, ...] = field(default=())

    def one_of(self, loss: str, *ways: Pairing) -> Pairing:
        """This one with its ways; a value that is right by another way than the column's is a
        loss of that kind."""
        by_any = " OR ".join(f"coalesce(TRY({way.ours} = {way.theirs}), false)" for way in ways)
        other = Loss(loss, by_any)
        return replace(self, ways=tuple(replace(way, losses=(other, *way.losses)) for way in ways))


def number_of(t: str, kind: TheirType) -> str:
    """SQL of a whole number that a value of theirs is, as HUGEINT; NULL of one that is none."""
    if kind.kind in ("integer", "boolean"):
        return f"TRY_CAST({t} AS HUGEINT)"
    if kind.kind == "float":
        return f"CASE WHEN {t} = trunc({t}) THEN TRY_CAST({t} AS HUGEINT) END"
    if kind.kind in ("decimal", "text"):
        return f"whole_number({digits_of(t, kind)})"
    return "CAST(NULL AS HUGEINT)"


def digits_of(t: str, kind: TheirType) -> str:
    """SQL of a number's digits as they are written, without zeros that say nothing."""
    if kind.kind == "boolean":
        return f"CAST(CAST({t} AS INTEGER) AS VARCHAR)"
    return f"plain_number(CAST({t} AS VARCHAR))"


MACROS: Final = (
    r"""CREATE TEMP MACRO plain_digits(s) AS
        CASE WHEN regexp_full_match(s, '[+-]?0*(\.0*)?') THEN '0'
        ELSE (CASE WHEN starts_with(s, '-') THEN '-' ELSE '' END) ||
            regexp_replace(regexp_replace(
                CASE WHEN contains(s, '.') THEN rtrim(rtrim(ltrim(s, '+-'), '0'), '.')
                ELSE ltrim(s, '+-') END,
                '^0*([0-9])', '\1'), '^\.', '0.') END""",
    # A number that is written with an exponent: its digits, and where the point is among them.
    r"""CREATE TEMP MACRO written_out(sign, digits, point) AS sign || CASE
        WHEN point <= 0 THEN '0.' || repeat('0', -point) || digits
        WHEN point >= length(digits) THEN digits || repeat('0', point - length(digits))
        ELSE left(digits, point) || '.' || substr(digits, point + 1) END""",
    # The digits of a number: 010.50 → 10.5, -0.0 → 0, 1.5E+2 → 150.
    r"""CREATE TEMP MACRO plain_number(s) AS CASE
        WHEN regexp_full_match(s, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)') THEN plain_digits(s)
        WHEN regexp_full_match(s, '[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][+-]?[0-9]{1,3}') THEN
            plain_digits(written_out(
                CASE WHEN starts_with(s, '-') THEN '-' ELSE '' END,
                replace(regexp_extract(s, '^[+-]?([0-9.]+)', 1), '.', ''),
                length(split_part(regexp_extract(s, '^[+-]?([0-9.]+)', 1), '.', 1))
                    + CAST(regexp_extract(s, '[eE]([+-]?[0-9]+)$', 1) AS INTEGER))) END""",
    r"""CREATE TEMP MACRO whole_number(s) AS
        CASE WHEN NOT contains(s, '.') THEN TRY_CAST(s AS HUGEINT) END""",
    # A remainder that is never negative.
    "CREATE TEMP MACRO over(a, b) AS ((a % b) + b) % b",
    r"""CREATE TEMP MACRO offset_text(us) AS
        (CASE WHEN us < 0 THEN '-' ELSE '+' END) ||
        lpad(CAST(abs(us) // 3600000000 AS VARCHAR), 2, '0') || ':' ||
        lpad(CAST(abs(us) // 60000000 % 60 AS VARCHAR), 2, '0') ||
        (CASE WHEN abs(us) % 60000000 = 0 THEN '' ELSE
            ':' || lpad(CAST(abs(us) // 1000000 % 60 AS VARCHAR), 2, '0') END)""",
    r"""CREATE TEMP MACRO time_us(s) AS
        (CASE WHEN starts_with(s, '-') THEN -1 ELSE 1 END) * CAST(
            CAST(regexp_extract(s, '^-?(\d+):(\d+):(\d+)', 1) AS BIGINT) * 3600000000 +
            CAST(regexp_extract(s, '^-?(\d+):(\d+):(\d+)', 2) AS BIGINT) * 60000000 +
            CAST(regexp_extract(s, '^-?(\d+):(\d+):(\d+)', 3) AS BIGINT) * 1000000 +
            CAST(rpad(regexp_extract(s, '\.(\d+)$', 1), 6, '0') AS BIGINT) AS BIGINT)""",
)
"""SQL that pairings use, each after what it calls."""
