"""BINARY to LONGBLOB, and spatial values."""

from __future__ import annotations

from dataclasses import replace

from mirrorlake.other_copies.pairings.pairing import Loss, Pairing, TheirType
from mirrorlake.sources.mysql.tables import Column


def bytes_(_column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """BINARY, VARBINARY and BLOB, byte for byte."""
    if kind.kind == "bytes":
        ours, theirs = f"hex({o})", f"hex({t})"
        return Pairing(o, t, _losses(ours, theirs))
    if kind.kind != "text":
        return None
    theirs = f"CAST({t} AS VARCHAR)"
    plain = f"replace(replace(rtrim({theirs}, '='), '-', '+'), '_', '/')"
    base64 = f"replace(replace({plain}, chr(10), ''), chr(13), '')"
    digits = rf"regexp_replace({theirs}, '^(0x|\\x|x)', '')"
    losses = (
        Loss("empty_to_null", f"octet_length({o}) = 0 AND {theirs} IS NULL"),
        *_losses(f"hex({o})", f"hex(encode({theirs}))"),
        Loss("bytes_mangled", f"mangled({o}, {theirs})"),
    )
    as_text = Pairing(o, f"encode({theirs})", losses, ("bytes as text",))
    in_hex = f"lower({digits})"
    return as_text.one_of(
        "other_encoding",
        as_text,
        Pairing(f"lower(hex({o}))", in_hex, _losses(f"lower(hex({o}))", in_hex),
                ("bytes in hexadecimal",)),
        Pairing(f"rtrim(to_base64({o}), '=')", base64, losses, ("bytes in base64",)),
    )  # fmt: skip


def _losses(ours: str, theirs: str) -> tuple[Loss, ...]:
    """By the digits of both in hexadecimal."""
    zeros = "'(00)+$', ''"
    return (
        Loss("empty_to_null", f"{ours} = '' AND {theirs} IS NULL"),
        Loss("trailing_zeros", f"regexp_replace({ours}, {zeros}) = {theirs}"),
        Loss("zeros_added", f"regexp_replace({theirs}, {zeros}) = {ours}"),
        Loss(
            "bytes_cut",
            f"starts_with({ours}, {theirs})",
            f"'to ' || length({theirs}) // 2 || ' bytes'",
        ),
    )


def shape(column: Column, o: str, t: str, kind: TheirType) -> Pairing | None:
    """Spatial values: four bytes of the SRID, then WKB."""
    found = bytes_(column, o, t, kind)
    if found is None:
        return None
    ours = f"hex({o})"
    theirs = f"hex({t})" if kind.kind == "bytes" else f"upper(CAST({t} AS VARCHAR))"
    same, zero = f"{ours}[9:] = {theirs}", f"starts_with({ours}, '00000000')"
    losses = [
        Loss("as_wkb", f"{zero} AND {same}"),
        Loss("srid", same),
        Loss("srid", f"{ours}[9:] = {theirs}[9:]"),
    ]
    if kind.kind == "text":
        shapes = "POINT|LINESTRING|POLYGON|MULTI|GEOMETRYCOLLECTION|SRID"
        losses.append(Loss("as_wkt", f"regexp_matches({theirs}, '^\\s*({shapes})')"))
    whole, *ways = (replace(one, losses=(*losses, *one.losses)) for one in (found, *found.ways))
    return replace(whole, ways=tuple(ways))
