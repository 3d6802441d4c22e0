"""Where a name stands in the contract file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirrorlake.config.yaml.file_positions import place_of

CONTRACT = """\
sources:
  shop:
    databases:
      d:
        tables:
          t:
            mode: incremental
            key: [ID, part]
            cursor: modified_att
            columns:
              cursor: {pii: drop}
          u: {mode: full, key: [part]}
"""


@pytest.mark.parametrize(
    ("table", "name", "place"),
    [
        ("t", "modified_att", "9:21"),
        ("t", "id", "8:19"),
        ("t", "part", "8:23"),
        ("t", "cursor", "11:15"),  # the column, not the contract's own word
        ("u", "part", "12:33"),
        ("t", "nowhere", None),
        ("t", None, "6:11"),
        ("missing", None, None),
        ("missing", "id", None),
    ],
)
def test_a_name_is_found_in_its_tables_contract(
    tmp_path: Path, table: str, name: str | None, place: str | None
) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(CONTRACT)
    expected = None if place is None else f"{path}:{place}"
    assert place_of(path, ("shop", "d", table), name) == expected


def test_a_file_that_is_gone_has_no_place(tmp_path: Path) -> None:
    assert place_of(tmp_path / "gone.yaml", ("s", "d", "t"), "id") is None
