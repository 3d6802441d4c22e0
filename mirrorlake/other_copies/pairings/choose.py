"""The pairing of two columns, and the SQL that says of a row what became of a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from mirrorlake.other_copies.pairings import binaries, moments, numbers, texts
from mirrorlake.other_copies.pairings.pairing import Loss, Pairing, TheirType
from mirrorlake.sources.mysql.tables import Column
from mirrorlake.sources.mysql.types.registry import TYPES, Family

_Paired = Callable[[Column, str, str, TheirType], Pairing | None]
_FAMILIES: Final[Mapping[Family, _Paired]] = {
    "integer": numbers.integer,
    "year": numbers.year,
    "decimal": numbers.decimal,
    "float": numbers.floating,
    "bit": numbers.bit,
    "moment": moments.moment,
    "time": moments.time,
    "text": texts.text,
    "label": texts.label,
    "json": texts.text,
    "bytes": binaries.bytes_,
    "shape": binaries.shape,
    "printed": texts.printed,
}


def pair(column: Column, kind: TheirType, number: int) -> Pairing | None:
    """How a column of MySQL's is compared with one of a type of theirs; None: it can't be.

    Args:
        number: of the pair; values are ``o.c3`` and ``t.c3``, MySQL's original text ``o.x3``.
    """
    if kind.kind == "other":
        return None
    o, t = f"o.c{number}", f"t.c{number}"
    return _FAMILIES[TYPES[column.data_type].family](column, o, t, kind)


def same_of(
    column: Column, kind: TheirType, pairing: Pairing, number: int, *, copy_has_originals: bool
) -> str:
    """SQL that is true of two values that are equal, else false; never NULL.

    Args:
        copy_has_originals: whether ``t.x3`` is the copy's own text of a value without a place.
    """
    o, x, t = f"o.c{number}", f"o.x{number}", f"t.c{number}"
    family = TYPES[column.data_type].family
    text = f"CAST({t} AS VARCHAR)"
    equal = [f"{o} IS NULL AND {x} IS NULL AND {t} IS NULL", f"{pairing.ours} = {pairing.theirs}"]
    if family == "moment" and kind.kind == "text":
        equal.append(f"{o} IS NULL AND {x} = {text}")
    elif family in ("text", "label"):
        # Bytes that are no text are kept in hexadecimal.
        bytes_ = f"hex({t})" if kind.kind == "bytes" else f"hex(encode({text}))"
        equal.append(f"{o} IS NULL AND {x} IS NOT NULL AND {x} = {bytes_}")
    if copy_has_originals:
        equal = [f"({one}) AND {x} IS NOT DISTINCT FROM t.x{number}" for one in equal]
        equal.append(f"{o} IS NULL AND {t} IS NULL AND {x} = t.x{number}")
    return "(" + " OR ".join(f"coalesce(TRY({one}), false)" for one in equal) + ")"


def outcome_of(column: Column, kind: TheirType, pairing: Pairing, number: int) -> str:
    """SQL: what became of a value that differs: a name of `KINDS`, and behind a bar what is said
    beside it."""
    o, x, t = f"o.c{number}", f"o.x{number}", f"t.c{number}"
    family = TYPES[column.data_type].family
    text = f"CAST({t} AS VARCHAR)"
    losses: list[Loss] = []
    if family == "moment":
        losses = _where(f"{x} IS NOT NULL", moments.original_losses(x, t, kind))
    elif family in ("text", "label"):
        losses = [Loss("other", f"{o} IS NULL AND {x} IS NOT NULL")]
    absent = f"{o} IS NULL AND {x} IS NULL"
    losses += [
        Loss("null_to_empty", f"{absent} AND {text} = ''"),
        Loss("null_to_zero", f"{absent} AND {text} IN ('0', '0.0', 'false', '00:00:00')"),
        Loss("null_to_value", absent),
        *pairing.losses,
        Loss("value_to_null", f"{t} IS NULL"),
    ]
    return f"CASE {' '.join(loss.sql for loss in losses)} ELSE 'other' END"


def _where(condition: str, losses: tuple[Loss, ...]) -> list[Loss]:
    return [Loss(one.kind, f"{condition} AND {one.when}", one.detail) for one in losses]
