"""Which expressions of VIRTUAL columns have one value, whoever computes them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mirrorlake.sources.mysql.following.generated_values import session_dependent
from mirrorlake.sources.mysql.tables import Column
from tests.unit.tables import column


def _dependent(expression: str, *, extra: str = "VIRTUAL GENERATED") -> list[str]:
    others = (
        column("a", "int"),
        replace(column("u", "int"), column_type="int unsigned"),
        column("b", "text"),
        column("j", "json"),
        column("ts", "timestamp"),
        column("c", "char"),
        column("f", "double"),
        replace(column("dt", "datetime"), fraction=0),
        column("dt6", "datetime"),
        replace(column("of ts", "varchar", extra="VIRTUAL GENERATED"), generated="concat(`ts`)"),
    )
    made: Column = replace(column("v", extra=extra), generated=expression)
    return [name for name in session_dependent((*others, made)) if name != "of ts"]


@pytest.mark.parametrize(
    "expression",
    [
        "(`a` + 1)",
        "`a` - 1",
        r"concat(`b`,_utf8mb4\'-\',`a`)",
        "concat(`b`,'now()',`a`)",
        r"json_unquote(json_extract(`j`,_utf8mb4\'$.a\'))",
        "cast(json_value(`j`,'$.n') as unsigned)",
        "(case when (`a` > 10) then `b` else NULL end)",
        "if(`a` is null,0,1.5)",
        "year(`dt`)",
        "convert(`b` using latin1)",
    ],
)
def test_of_these_the_log_has_the_value_that_everybody_reads(expression: str) -> None:
    assert _dependent(expression) == []


@pytest.mark.parametrize(
    "expression",
    [
        "concat(`ts`)",
        "concat(`of ts`)",
        "date_format(`dt`,'%M')",
        "(`a` / 3)",
        "(`u` - `a`)",
        "concat(`c`,'x')",
        "concat(`f`)",
        "date(`dt6`)",
        "from_unixtime(`a`)",
        "(`b` like 'a%')",
        "`b` || `b`",
        "unknown_function(`a`)",
        "`not there`",
        r"concat(`b`,_utf8mb4\'it\\\'s\',`a`)",
        "concat(`b`,'it''s',`ts`)",
        "1.5e3",
    ],
)
def test_of_these_nobody_knows(expression: str) -> None:
    assert _dependent(expression) == ["v"]


def test_a_stored_column_has_one_value() -> None:
    assert _dependent("concat(`ts`)", extra="STORED GENERATED") == []
