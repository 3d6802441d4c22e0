"""Dates, times with a date, and times of day."""

from __future__ import annotations

from mirrorlake.other_copies.pairings.pairing import MOMENTS, Loss, Pairing, TheirType
from mirrorlake.sources.mysql.tables import Column

_SECOND, _HOUR, _DAY = 1_000_000, 3_600_000_000, 86_400_000_000
_FARTHEST = 14 * _HOUR
"""No zone is farther from UTC."""
_GREGORIAN = "epoch_us(TIMESTAMP '1582-10-15')"
_NANOSECONDS = 2**64
_ENDS = ("1677", "2262")


def moment(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """DATE, DATETIME and TIMESTAMP, in microseconds since 1970; a DATE is its midnight."""
    ours = f"epoch_us(CAST({o} AS TIMESTAMP))"
    theirs, notes = "", ()
    if kind.kind in MOMENTS:
        theirs = _instant(t, kind)
        notes = _notes(column, kind)
    elif kind.kind == "text":
        theirs, notes = _read(t), ("dates as text",)
    elif kind.kind in ("integer", "decimal", "float"):
        return _numbered(column, o, ours, t, kind)
    else:
        return None
    if kind.name == "TIMESTAMP_NS":
        exact = f"CASE WHEN epoch_ns({t}) % 1000 = 0 THEN {theirs} END"
        return Pairing(ours, exact, _losses(column, o, ours, t, theirs, kind), notes=notes)
    return Pairing(ours, theirs, _losses(column, o, ours, t, theirs, kind), notes)


_UNITS = {"days": _DAY, "seconds": _SECOND, "milliseconds": 1_000, "microseconds": 1}
_FINER = "nanoseconds"


def _numbered(column: Column, o: str, ours: str, t: str, kind: TheirType) -> Pairing:
    """A date or time as a number since 1970, in one unit for the whole column."""
    is_date, number = column.data_type == "date", _whole(t, kind)

    def paired(theirs: str, words: str) -> Pairing:
        losses = _losses(column, o, ours, t, theirs, kind)
        return Pairing(ours, theirs, losses, (f"dates as {words} since 1970",))

    units = (unit for unit in (*_UNITS, _FINER) if is_date or unit != "days")
    ways = (paired(_in_us(number, unit), unit) for unit in units)
    by_size = f"TRY_CAST({number} * {_unit_of(number, is_date)} AS BIGINT)"
    return paired(by_size, "numbers").one_of("other_unit", *ways)


def _whole(t: str, kind: TheirType) -> str:
    """SQL of a number of theirs that is whole; NULL of another one."""
    number = f"TRY_CAST({t} AS HUGEINT)"
    return number if kind.kind == "integer" else f"CASE WHEN {t} = trunc({t}) THEN {number} END"


def _in_us(number: str, unit: str) -> str:
    """SQL for a number of units, as whole microseconds."""
    if unit == _FINER:
        found = f"CASE WHEN ({number}) % 1000 = 0 THEN ({number}) // 1000 END"
    else:
        found = f"{number} * {_UNITS[unit]}"
    return f"TRY_CAST({found} AS BIGINT)"


def _instant(t: str, kind: TheirType) -> str:
    """A date or time of theirs in microseconds; of infinity none."""
    return f"CASE WHEN isfinite({t}) THEN epoch_us(CAST({t} AS TIMESTAMP)) END" if (
        kind.kind != "timestamp" or kind.name == "TIMESTAMP"
    ) else f"epoch_us(CAST({t} AS TIMESTAMP))"  # fmt: skip


def _read(t: str) -> str:
    """What a text says; one with an offset is an instant."""
    zoned = rf"regexp_matches({t}, '[0-9]:[0-9.:]+ ?(Z|UTC|[+-][0-9]{{2}}(:?[0-9]{{2}})?)$')"
    finer = rf"regexp_matches({t}, '\.[0-9]{{6}}[0-9]*[1-9]')"
    read = (
        f"CASE WHEN {zoned} THEN CAST(TRY_CAST({t} AS TIMESTAMPTZ) AS TIMESTAMP) "
        f"ELSE TRY_CAST({t} AS TIMESTAMP) END"
    )
    return f"CASE WHEN NOT {finer} AND regexp_matches({t}, '^[0-9]') THEN epoch_us({read}) END"


def _unit_of(number: str, is_date: bool) -> str:
    """How many microseconds a number of theirs counts, by its size: only where the values
    themselves can't say it."""
    days = f"WHEN abs({number}) < 4000000 THEN {_DAY} " if is_date else ""
    return (
        f"(CASE {days}WHEN abs({number}) < 100000000000 THEN {_SECOND} "
        f"WHEN abs({number}) < 100000000000000 THEN 1000 ELSE 1 END)"
    )


def _notes(column: Column, kind: TheirType) -> tuple[str, ...]:
    usual = {"date": "date", "datetime": "timestamp", "timestamp": "timestamptz"}
    if usual[column.data_type] == kind.kind:
        return ()
    words = {
        "timestamptz": "times without a zone as instants, in UTC",
        "timestamp": "instants as times without a zone, in UTC",
        "date": "as dates",
    }
    if column.data_type == "date":
        return ("dates as midnights",)
    return (words[kind.kind],)


def _losses(
    column: Column, o: str, ours: str, t: str, theirs: str, kind: TheirType
) -> tuple[Loss, ...]:
    """What a moment may have become; ``ours`` and ``theirs`` in microseconds."""
    apart = f"({theirs} - {ours})"
    shift = f"abs({apart}) <= {_FARTHEST} AND {apart} <> 0"
    cut = {unit: f"({ours} - over({ours}, {unit}))" for unit in (_SECOND, 1_000)}
    whole = f"({theirs} - {cut[_SECOND]})"
    losses = [Loss("time_of_day_lost", f"{theirs} = {ours} - over({ours}, {_DAY})")]
    if column.data_type == "date":
        losses = [Loss("day_shifted", f"abs({apart}) = {_DAY}", _by_days(apart))]
    fraction = column.fraction or 0
    if fraction:
        losses += [
            Loss("fraction_cut", f"{theirs} = {cut[_SECOND]}", "'to seconds'"),
            Loss("fraction_cut", f"{theirs} = {cut[1_000]}", "'to milliseconds'"),
            *(Loss("fraction_cut", f"{theirs} = {ours} - {ours} % {unit}") for unit in cut),
            *(Loss("fraction_rounded", _rounded_up(ours, theirs, unit)) for unit in cut),
        ]
    losses += [
        Loss("shifted", f"{shift} AND {apart} % {_HOUR // 4} = 0", f"offset_text({apart})"),
        Loss(
            "shifted",
            f"{shift} AND {whole} % {_HOUR // 4} = 0 AND over({theirs}, {_SECOND}) = 0",
            f"offset_text({whole}) || ', fractional seconds cut off'",
        ),
        Loss(
            "shifted",
            f"{shift} AND {apart} % {_SECOND} = 0 AND {ours} < epoch_us(TIMESTAMP '1950-01-01')",
            f"offset_text({apart}) || ', a local time of old'",
        ),
        Loss(
            "calendar",
            f"{ours} < {_GREGORIAN} AND abs({apart}) <= 12 * {_DAY} + {_FARTHEST}",
        ),
    ]
    if column.data_type == "date" and kind.kind == "date":
        losses.insert(0, Loss("calendar", f"{ours} < {_GREGORIAN} AND abs({apart}) <= {12 * _DAY}"))
    if kind.kind in MOMENTS:
        nanoseconds = f"epoch_ns({t})" if kind.name == "TIMESTAMP_NS" else f"{theirs} * 1000"
        wraps = f"(CAST({ours} AS HUGEINT) * 1000 - CAST({nanoseconds} AS HUGEINT))"
        # Their own reader may have cut what was below a microsecond.
        losses += [
            Loss(
                "nanosecond_overflow",
                f"abs({wraps}) > {_NANOSECONDS // 2} "
                f"AND over({wraps} + 500, {_NANOSECONDS}) < 2000",
            ),
            Loss(
                "nanosecond_clamped",
                f"year({t}) IN ({', '.join(_ENDS)}) AND year({o}) <> year({t})",
            ),
        ]
    return tuple(losses)


def _rounded_up(ours: str, theirs: str, unit: int) -> str:
    part = f"over({ours}, {unit})"
    return f"{part} > 0 AND {theirs} = {ours} + {unit} - {part}"


def _by_days(apart: str) -> str:
    return f"(CASE WHEN {apart} > 0 THEN '+1' ELSE '-1' END)"


def original_losses(x: str, t: str, kind: TheirType) -> tuple[Loss, ...]:
    """What a date without a place in the calendar may have become; ``x`` is its text."""
    zero = f"starts_with({x}, '0000-00-00')"
    losses = [
        Loss("zero_date_to_null", f"{zero} AND {t} IS NULL"),
        Loss("partial_date_to_null", f"{t} IS NULL"),
    ]
    detail = ""
    if kind.kind in MOMENTS:
        # Only a date that stands for a zero date everywhere is told.
        day = f"strftime(CAST({t} AS TIMESTAMP), '%Y-%m-%d')"
        known = "'1970-01-01', '0001-01-01', '0002-11-30', '0002-11-28', '1900-01-01', '1969-12-31'"
        detail = f"(CASE WHEN {day} IN ({known}) THEN {day} ELSE '' END)"
    return (
        *losses,
        Loss("zero_date_to_date", zero, detail),
        Loss("partial_date_to_date", "true"),
    )


def time(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """TIME, in microseconds: from -838:59:59 to 838:59:59."""
    ours = f"time_us({o})"
    notes: tuple[str, ...] = ()
    if kind.kind == "time":
        theirs, notes = f"epoch_us(CAST({t} AS TIME))", ("times as times of a day",)
    elif kind.kind == "interval":
        theirs, notes = f"epoch_us({t})", ("times as durations",)
    elif kind.kind == "text":
        clock = r"-?[0-9]+:[0-9]+:[0-9]+(\.[0-9]{1,6}0*)?"
        days = f"CAST(split_part({t}, ' ', 2) AS BIGINT) * {_DAY}"
        theirs = (
            f"CASE WHEN regexp_full_match({t}, '{clock}') THEN time_us({t}) "
            # An INTERVAL of BigQuery's: years and months, days, then hours.
            f"WHEN regexp_full_match({t}, '0-0 -?[0-9]+ {clock}') "
            f"THEN {days} + time_us(split_part({t}, ' ', 3)) END"
        )
    elif kind.kind in ("timestamp", "timestamptz"):
        theirs, notes = _instant(t, kind), ("times as moments of 1970-01-01",)
    elif kind.kind in ("integer", "decimal", "float"):
        return _timed(column, ours, t, kind)
    else:
        return None
    return Pairing(ours, theirs, _time_losses(column, ours, t, theirs), notes)


def _timed(column: Column, ours: str, t: str, kind: TheirType) -> Pairing:
    """A TIME as a number, in one unit for the whole column."""
    counted = {
        unit: _in_us(_whole(t, kind), unit) for unit in ("microseconds", "milliseconds", _FINER)
    }
    counted["seconds"] = f"TRY_CAST(round({t} * {_SECOND}) AS BIGINT)"  # they may have fractions
    first, *others = (
        Pairing(ours, theirs, _time_losses(column, ours, t, theirs), (f"times as {unit}",))
        for unit, theirs in counted.items()
    )
    return first.one_of("other_unit", first, *others)


def _time_losses(column: Column, ours: str, t: str, theirs: str) -> tuple[Loss, ...]:
    """What a TIME may have become; ``ours`` and ``theirs`` in microseconds."""
    outside = f"({ours} < 0 OR {ours} >= {_DAY})"
    in_day = f"over({ours}, {_DAY})"
    apart = f"({theirs} - {ours})"
    losses = [
        Loss("time_to_null", f"{t} IS NULL AND {outside}"),
        Loss("time_wrapped", f"{outside} AND over({theirs}, {_DAY}) IN ({in_day}, {in_day} - "
             f"over({in_day}, {_SECOND}), over(-({ours}), {_DAY}))"),
        Loss("time_clamped", f"{outside} AND over({theirs}, {_DAY}) - "
             f"over({theirs}, {_SECOND}) IN (0, {_DAY - _SECOND})"),
    ]  # fmt: skip
    if column.fraction:
        for unit, words in ((_SECOND, "seconds"), (1_000, "milliseconds")):
            cut = f"{theirs} IN ({ours} - over({ours}, {unit}), {ours} - {ours} % {unit})"
            losses.append(Loss("fraction_cut", cut, f"'to {words}'"))
            up = _rounded_up(ours, theirs, unit)
            losses.append(Loss("fraction_rounded", up, f"'to {words}'"))
    losses.append(
        Loss(
            "shifted",
            f"abs({apart}) <= {_FARTHEST} AND {apart} % {_HOUR // 4} = 0",
            f"offset_text({apart})",
        )
    )
    return tuple(losses)
