"""libyaml reads a contract as PyYAML does: the same values at the same places, and the same
refusals; or it is not asked."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config.yaml import yaml_file
from mirrorlake.config.yaml.yaml_file import YamlFile

TEXT = """# mirrorlake? yes!
sources:
  shop:
    host: 127.0.0.1
    password: ${env:A}
    tls: {ca: "a b", x: 'it''s'}
    databases:
      shop: &a
        tables:
          "my t\\u00e9": {mode: full, key: [id, "b"], x: ~}
          emoji🙂: {mode: full, key: []}
          o:
            mode: incremental
            key:
            - id
            - b
            text: |
              a
               b
            folded: >-
              c
              d
          <<: *a
  null:
    a: null
    pii: null
"""
PIECES = (
    *"\t\n \r:-,[]{}&*!|>'\"%@`#?~<ab0.\\",
    *("\ufeff", "\x85", "\u2028", "é", "🙂", "\x07", "---", "...", "%YAML 1.1", "? ", "- ", ": "),
    *("\n  ", "!!str ", "&x ", "*x", "<<: ", "''", '""'),
)
EDIT = st.tuples(st.integers(0, len(TEXT)), st.sampled_from(("", *PIECES)), st.integers(0, 3))

pytestmark = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here")


def read(text: str) -> tuple[object, ...]:
    file = YamlFile(text)
    return file.root, sorted(file.problems)


def slowly(text: str) -> tuple[object, ...]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_file, "_FastLoader", None)
        return read(text)


@given(edits=st.lists(EDIT, min_size=1, max_size=4))
def test_a_text_with_any_fault_is_read_alike(edits: list[tuple[int, str, int]]) -> None:
    text = TEXT
    for at, piece, cut in edits:
        text = text[:at] + piece + text[at + cut :]
    assert read(text) == slowly(text)


def test_each_part_stands_where_it_stands() -> None:
    fast = YamlFile(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(yaml_file, "_FastLoader", None)
        slow = YamlFile(TEXT)

    def places(file: YamlFile) -> list[str]:
        paths = [*file._keys, *file._values]  # pyright: ignore[reportPrivateUsage]
        at_key = (file.problem(path, "x", at_key=True) for path in paths)
        return [*map(str, at_key), *(str(file.problem(path, "x")) for path in paths)]

    assert places(fast) == places(slow)
    assert len(places(fast)) > 50


@pytest.mark.parametrize(
    ("text", "fast"),
    [
        (TEXT, True),
        ("a: 1\n# what?\tthis!\n", True),
        ("a: b?", False),
        ("a:\tb", False),
        ("# c\r? a\n", False),
        ("a: [", False),
        ("a: " + "[" * 50 + "]" * 50, False),
    ],
)
def test_what_is_read_by_libyaml(monkeypatch: pytest.MonkeyPatch, text: str, *, fast: bool) -> None:
    monkeypatch.setattr(yaml_file, "_Loader", None)
    if fast:
        assert yaml_file.compose(text) is not None
    else:
        with pytest.raises(TypeError):
            yaml_file.compose(text)
