"""Texts, labels (ENUM, SET), JSON, and types that MariaDB prints."""

from __future__ import annotations

import re
from dataclasses import replace

from mirrorlake.other_copies.pairings.pairing import Loss, Pairing, TheirType, number_of
from mirrorlake.sources.mysql.tables import Column

_LETTERS = ("[^\\x00-\\x7F]", "[^\\x00-\\xFF]", "[\\x{10000}-\\x{10FFFF}]")
"""Letters that ASCII, latin1 and three-byte UTF-8 have not."""
_MARKS = ("?", "??", "???", "????", "\N{REPLACEMENT CHARACTER}")


def text(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """CHAR to LONGTEXT, and JSON: letter for letter."""
    if kind.kind == "nested":
        if not _is_json(column):
            return None
        document = f"CAST(to_json({t}) AS VARCHAR)"
        losses = (
            Loss("json_formatted", f"json_alike({o}, {document}) = 2"),
            Loss("json_numbers", f"json_alike({o}, {document}) = 1"),
        )
        return Pairing(o, document, losses, notes=("JSON as nested values",))
    if kind.kind == "bytes":
        return Pairing(f"encode({o})", t, _byte_losses(o, t), notes=("texts as bytes",))
    theirs = t if kind.name == "VARCHAR" else f"CAST({t} AS VARCHAR)"
    notes = () if kind.kind == "text" else (f"texts as {kind.name}",)
    if kind.kind == "uuid":
        return Pairing(f"lower({o})", f"lower({theirs})", _text_losses(o, theirs), notes=())
    return Pairing(o, theirs, _text_losses(o, theirs, _is_json(column)), notes=notes)


def _is_json(column: Column) -> bool:
    """Whether a column is JSON; MariaDB's is a LONGTEXT of this collation."""
    kind = column.data_type
    return kind == "json" or (kind == "longtext" and column.collation == "utf8mb4_bin")


def _byte_losses(o: str, t: str) -> tuple[Loss, ...]:
    return (
        Loss("cut", f"starts_with(hex(encode({o})), hex({t}))"),
        Loss("empty_to_null", f"{o} = '' AND {t} IS NULL"),
    )


def _text_losses(o: str, t: str, is_json: bool = False) -> tuple[Loss, ...]:
    replaced = [
        f"regexp_replace({o}, '{letters}', '{mark}', 'g') = {t}"
        for letters in _LETTERS
        for mark in _MARKS
    ]
    document = "true" if is_json else f"regexp_matches({o}, '^\\s*[\\[{{\"]')"
    return (
        Loss("empty_to_null", f"{o} = '' AND {t} IS NULL"),
        Loss("trailing_spaces", f"rtrim({o}, ' ') = {t}"),
        Loss("spaces_added", f"rtrim({t}, ' ') = {o}"),
        Loss(
            "json_formatted" if is_json else "json_text",
            f"{document} AND json_alike({o}, {t}) = 2",
        ),
        Loss("json_numbers", f"{document} AND json_alike({o}, {t}) = 1"),
        Loss("cut", f"starts_with({o}, {t})", f"'to ' || length({t}) || ' characters'"),
        Loss("nul_removed", f"replace({o}, chr(0), '') = {t}"),
        Loss("spaces_trimmed", f"trim({o}, ' \t\r\n') = trim({t}, ' \t\r\n')"),
        Loss("line_ends", f"replace({o}, chr(13), '') = replace({t}, chr(13), '')"),
        Loss("replaced", " OR ".join(replaced)),
        Loss("charset", f"read_wrongly({o}, {t})"),
        Loss("normalised", f"nfc_normalize({o}) = nfc_normalize({t})"),
        Loss("case", f"lower({o}) = lower({t})"),
    )


def label(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """ENUM and SET."""
    labels = labels_of(column.column_type)
    listed = f"[{', '.join(_quoted(one) for one in labels)}]"
    if kind.kind == "nested" and kind.name == "VARCHAR[]" and column.data_type == "set":
        ours = f"list_sort(CASE WHEN {o} = '' THEN [] ELSE string_split({o}, ',') END)"
        return Pairing(ours, f"list_sort({t})", notes=("sets as lists",))
    found = text(column, o, t, kind)
    if found is None:
        return None
    number = number_of(t, kind)
    notes = found.notes if kind.kind in ("text", "bytes") else ()
    if column.data_type == "enum":
        index = Loss("enum_index", f"{number} = coalesce(list_position({listed}, {o}), 0)")
        return Pairing(found.ours, found.theirs, (index, *found.losses), notes)
    members = f"list_transform(string_split({o}, ','), lambda m : list_position({listed}, m))"
    bits = f"list_sum(list_transform({members}, lambda p : CAST(pow(2, p - 1) AS HUGEINT)))"
    theirs = f"list_sort(string_split(CAST({t} AS VARCHAR), ','))"
    written = f"from_json(CAST({t} AS VARCHAR), '[\"VARCHAR\"]')"
    ours = f"(CASE WHEN {o} = '' THEN [] ELSE list_sort(string_split({o}, ',')) END)"
    is_list = f"starts_with(CAST({t} AS VARCHAR), '[') AND list_sort({written}) = {ours}"
    losses = (
        Loss("set_list", is_list),
        Loss("set_order", f"list_sort(string_split({o}, ',')) = {theirs}"),
    )
    as_text = Pairing(found.ours, found.theirs, (*losses, *found.losses), notes)
    numbered = Pairing(
        f"CAST(CASE WHEN {o} = '' THEN 0 ELSE {bits} END AS VARCHAR)",
        f"CAST({number} AS VARCHAR)",
        losses,
        ("sets as the numbers of their members",),
    )
    return as_text.one_of("set_number", as_text, numbered)


def labels_of(column_type: str) -> list[str]:
    """The labels of an ENUM or SET, as its server prints the type.

    >>> labels_of("enum('a','it''s')")
    ['a', "it's"]
    """
    found = re.findall(r"'((?:[^']|'')*)'", column_type)
    return [one.replace("''", "'") for one in found]


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def printed(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """UUID, INET4 and INET6 of MariaDB."""
    digits = f"replace(lower({o}), '-', '')"
    if kind.kind == "bytes":
        return Pairing(digits, f"lower(hex({t}))", notes=("as bytes",))
    found = text(column, o, t, kind)
    if found is None or column.data_type != "uuid":
        return found
    return replace(found, ours=digits, theirs=f"replace(lower(CAST({t} AS VARCHAR)), '-', '')")
