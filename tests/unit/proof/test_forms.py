"""The SQL of every form, written out: that it is right, both servers and Spark prove
(`tests/integration/proof/test_proof_forms.py`, `test_proof_types.py`); here, that it stays as it was proved.

``python -m tests.unit.proof.test_forms`` writes `proof_forms.json` again: prove it again as well.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mirrorlake.errors import ProofError, TypeRefused
from mirrorlake.proof.forms.canonical import SHORT, Form, form_of
from mirrorlake.proof.forms.rows import RowForm, lake_number, lake_sum, row_form, source_number
from mirrorlake.sources.mysql.tables import Column
from tests.unit.proof.test_ranges import column

KEPT = Path(__file__).with_name("proof_forms.json")
TEXT = {"charset": "utf8mb4", "collation": "utf8mb4_bin"}


def columns() -> dict[str, Column]:  # noqa: C901 - a line a type
    """Columns on both sides of every line that `form_of` draws."""
    found: dict[str, Column] = {}

    def add(name: str, kind: str, **more: Any) -> None:
        found[name] = column("c`1", kind, **more)

    for kind in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        add(kind, kind)
        add(f"{kind} unsigned", kind, column_type=f"{kind} unsigned")
    add("int null", "int", nullable=True)
    add("int zerofill", "int", column_type="int(5) unsigned zerofill")
    add("year", "year")
    for bits in (None, 1, 31, 63, 64):
        add(f"bit {bits}", "bit", precision=bits)
    for digits, scale in ((None, None), (10, 2), (38, 38), (39, 0), (65, 30)):
        add(f"decimal {digits} {scale}", "decimal", precision=digits, scale=scale)
    add("decimal zerofill", "decimal", precision=9, column_type="decimal(9,0) unsigned zerofill")
    add("float", "float")
    add("double", "double", nullable=True)
    for kind in ("date", "datetime", "timestamp"):
        add(kind, kind)
    for digits in (1, 3, 6):
        add(f"datetime {digits}", "datetime", fraction=digits, nullable=True)
    add("timestamp 6", "timestamp", fraction=6)
    add("time", "time", fraction=3)
    for kind in ("uuid", "inet4", "inet6"):
        add(kind, kind)
    for kind in ("binary", "varbinary", "blob", "point"):
        add(kind, kind)
    for length in (4, SHORT, SHORT + 1):
        add(f"varbinary {length}", "varbinary", length=length)
    add("json", "json", **TEXT)
    add("longtext null", "longtext", nullable=True, **TEXT)
    for length in (9, SHORT, SHORT + 1):
        add(f"varchar {length}", "varchar", length=length, **TEXT)
    add("varchar null", "varchar", length=9, nullable=True, **TEXT)
    for charset in ("utf8mb3", "utf8", "latin1", "gbk", "ucs2", "utf32"):
        add(f"varchar {charset}", "varchar", length=9, charset=charset)
        add(f"text {charset}", "text", charset=charset)
    for charset in ("utf8mb4", "gbk"):
        add(f"enum {charset}", "enum", length=3, charset=charset)
    add("set", "set", length=3, **TEXT)
    return found


def described(form: Form) -> dict[str, Any]:
    return {name: getattr(form, name) for name in Form.__dataclass_fields__}


def written() -> dict[str, Any]:
    """Every form, with and without originals, and with long texts alone."""
    found: dict[str, Any] = {}
    for name, one in columns().items():
        plain, kept = form_of(one, originals=False), form_of(one, originals=True)
        found[name] = described(plain)
        if kept != plain:
            found[f"{name}, with originals"] = described(kept)
        if (short := form_of(one, True, 0)) != kept:
            found[f"{name}, digested"] = described(short)
    return found


def test_the_forms_are_those_that_were_proved() -> None:
    kept, now = json.loads(KEPT.read_text("utf-8")), written()
    assert {name: form for name, form in now.items() if kept.get(name) != form} == {}
    assert set(kept) == set(now)


def test_no_form_can_be_changed_and_an_unknown_type_has_none() -> None:
    assert len({form_of(one, originals=True) for one in columns().values()}) > 35
    with pytest.raises(TypeRefused, match="has no form") as error:
        form_of(column("v", "vector"), originals=True)
    assert error.value.column == "v"


def test_a_row_is_its_cells_with_commas_between_them() -> None:
    one, other = column("a", "int"), column("d", "date")
    bare = row_form([one, other], False, 10**6)
    assert bare.source == "CONCAT(`a`,',',`d`)"
    assert bare.lake == (
        "concat(coalesce(CAST(`a` AS STRING),'N'),',',coalesce(CAST(`d` AS STRING),'N'),'')"
    )
    assert bare.source_digest == f"CAST(CONV(LEFT(SHA2({bare.source},256),16),16,10) AS UNSIGNED)"
    hashed = f"substr(sha2(CAST({bare.lake} AS BINARY),256),1,16)"
    assert bare.lake_digest == f"CAST(conv({hashed},16,-10) AS BIGINT)"
    assert bare.lake_digest_text == f"conv({hashed},16,10)"
    assert source_number("f", 8) == "CAST(CONV(LEFT(SHA2(f,256),8),16,10) AS UNSIGNED)"
    assert (
        lake_number("f", 8)
        == "CAST(conv(substr(sha2(CAST(f AS BINARY),256),1,8),16,-10) AS BIGINT)"
    )
    assert lake_sum("h") == (
        "CAST(sum(shiftrightunsigned(h,32)) AS DECIMAL(20,0)) * CAST(4294967296 AS DECIMAL(10,0))"
        " + CAST(sum(h & 4294967295L) AS DECIMAL(20,0))"
    )


def test_originals_that_no_column_accounts_for() -> None:
    one, other = column("a", "int"), column("d", "date")
    assert RowForm((form_of(one, True),), False).strays == "''"
    kept = row_form([one, other], True, 10**6)
    known = (
        "size(array_distinct(filter(transform(`_mirror_original`, x -> x.column),"
        " x -> array_contains(array('d'), x))))"
    )
    assert kept.strays == (
        "CASE WHEN coalesce(array_size(`_mirror_original`),0) = 0 THEN ''"
        f" WHEN array_size(`_mirror_original`) = {known} THEN '' ELSE '!' END"
    )
    # No column keeps one: any is too much.
    assert " = 0 THEN '' ELSE '!' END" in row_form([one], True, 10**6).strays


def test_rows_fit_into_the_servers_packets() -> None:
    """Texts are written out while they have room, else their digests, else it can't be done."""
    text = [column("a", "varchar", length=SHORT, **TEXT), column("b", "int")]
    room = 2 * 90 + 8 * SHORT
    assert not row_form(text, False, room).cells[0].digested
    assert row_form(text, False, room - 1).cells[0].digested
    assert row_form(text, False, 180).cells[0].digested
    with pytest.raises(ProofError, match=r"max_allowed_packet \(179\) is too small for 2 columns"):
        row_form(text, False, 179)
    # A text that is digested anyway needs no room.
    assert row_form([column("a", "varchar", length=SHORT + 1, **TEXT)], False, 90).cells[0].digested
    # Nothing of them is written out then, however short it is; and a number has no length.
    assert row_form([column("a", "char", length=1, **TEXT)], False, 90).cells[0].digested
    assert row_form([column("a", "int")], False, 90)


if __name__ == "__main__":
    KEPT.write_text(json.dumps(written(), indent=1, ensure_ascii=False) + "\n", "utf-8")
