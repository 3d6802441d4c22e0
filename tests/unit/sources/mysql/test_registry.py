"""The registry of types: whoever adds a type there is told what else it needs."""

from __future__ import annotations

import pytest

from mirrorlake.proof.forms.canonical import form_of
from mirrorlake.sources.mysql.types.exact_types import exact_column
from mirrorlake.sources.mysql.types.registry import TYPES
from tests.unit.sources.mysql import test_types_doc
from tests.unit.sources.mysql.test_types_doc import column_of


def example(name: str) -> str:
    """A declaration of a type, as docs/types.md lists it."""
    listed = [text for text in test_types_doc.TYPES if text.split("(")[0].split(" ")[0] == name]
    assert listed, (
        f"docs/types.md lists no {name}: add it to TYPES of tests/unit/sources/mysql/test_types_doc.py"
    )
    return listed[0]


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_compared_and_documented(name: str) -> None:
    column = column_of(example(name))
    exact = exact_column(column)
    assert exact is not None
    form = form_of(column, exact.has_original)
    assert form.iceberg == exact.iceberg, "the proof and the reader take it for two types"


def test_integers_have_a_width_and_nothing_else_has() -> None:
    assert {n for n, kind in TYPES.items() if kind.bits} == {
        name for name, kind in TYPES.items() if kind.family == "integer"
    }
