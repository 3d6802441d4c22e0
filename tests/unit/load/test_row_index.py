"""A row index finds what changed whatever the order; a row that did change is never taken for one
that did not, and an index that is not the one that was written is never believed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrorlake.destinations.iceberg.model import open_storage
from mirrorlake.load.row_hashes import row_index
from mirrorlake.load.row_hashes.row_index import (
    DeltaGivenUp,
    IndexReader,
    IndexWriter,
    KeySet,
    Matcher,
    RowIndex,
    index_path,
)

Rows = Sequence[tuple[int, int]]


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"NEAR": 2, "WIDE": 12, "PASSED": 4, "READ_AT_ONCE": 5}.items():
        monkeypatch.setattr(row_index, name, value)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("index")
    (folder / row_index.FOLDER).mkdir()
    return f"file://{folder}"


def prints(rows: Rows) -> Any:
    """Entries of rows as (key, value)."""
    mixed = [(k * 7919, k, (k * 31 + v) * 104_729) for k, v in rows]
    return np.array(mixed, dtype=np.uint64).reshape(-1, 3)


def written(place: str, rows: Rows, name: str = "one.index") -> RowIndex:
    writer = IndexWriter(open_storage({}, place), place, name)
    for start in range(0, len(rows), 3):
        writer.add(prints(rows[start : start + 3]))
    return writer.finish("terms", 0)


def matcher(place: str, rows: Rows) -> Matcher:
    return Matcher(IndexReader(open_storage({}, place), place, written(place, rows)))


def test_a_block_that_went_costs_some_rows_around_it(place: str) -> None:
    old = [(k, 0) for k in range(60)]
    new = [(k, 0) for k in range(60) if not 7 <= k < 14]
    found = matcher(place, old)
    same = [bool(s) for n in range(0, len(new), 6) for s in found.match(prints(new[n : n + 6]))]
    assert sum(same) >= 40


tables = st.dictionaries(st.integers(0, 60), st.integers(0, 3), max_size=40)


@settings(deadline=None, max_examples=300)
@given(
    before=tables,
    after=tables,
    chance=st.randoms(),
    shuffled=st.booleans(),
    batch=st.integers(1, 9),
)
def test_what_changed_is_found(
    before: dict[int, int],
    after: dict[int, int],
    chance: Any,
    shuffled: bool,
    batch: int,
    place: str,
) -> None:
    old, new = sorted(before.items()), sorted((before | after if batch % 2 else after).items())
    if shuffled:
        chance.shuffle(new)
    found = matcher(place, old)
    same: list[bool] = []
    for start in range(0, len(new), batch):
        same += found.match(prints(new[start : start + batch])).tolist()
    left = {(int(a), int(b)) for a, b in found.end()}
    kept = [row for row, is_same in zip(new, same, strict=True) if is_same]
    assert all(before.get(k) == v for k, v in kept)
    assert left == {(k * 7919, k) for k, _ in set(old) - set(kept)}
    if not shuffled and set(old) <= set(new):
        assert set(kept) == set(old), "rows that were added shift nothing"


def test_rows_that_are_deleted_or_added_shift_nothing(place: str) -> None:
    old = [(k, 0) for k in range(60)]
    new = [(k, int(k == 40)) for k in range(62) if not 7 <= k < 9]
    found = matcher(place, old)
    same = [bool(s) for n in range(0, len(new), 6) for s in found.match(prints(new[n : n + 6]))]
    assert [row for row, is_same in zip(new, same, strict=True) if not is_same] == [
        (40, 1),
        (60, 0),
        (61, 0),
    ]
    assert len(found.end()) == 3


def test_a_row_that_comes_twice_is_known_once(place: str) -> None:
    found = matcher(place, [(1, 0), (2, 0)])
    assert found.match(prints([(1, 0), (1, 0), (2, 0), (2, 0)])).sum() == 2


@pytest.mark.parametrize("fault", ["gone", "shorter", "longer", "flipped"])
def test_another_file_is_not_believed(place: str, fault: str) -> None:
    index = written(place, [(k, 0) for k in range(30)], f"{fault}.index")
    path = Path(index_path(place, index.name).removeprefix("file://"))
    data = path.read_bytes()
    if fault == "gone":
        path.unlink()
    else:
        changed = {"shorter": data[:-32], "longer": data + data[:32]}
        path.write_bytes(changed.get(fault, data[:100] + bytes([data[100] ^ 1]) + data[101:]))
    with pytest.raises(DeltaGivenUp):
        Matcher(IndexReader(open_storage({}, place), place, index)).end()


def test_an_index_of_no_rows(place: str) -> None:
    index = written(place, [], "none.index")
    assert index.rows == 0
    found = Matcher(IndexReader(open_storage({}, place), place, index))
    assert not found.match(prints([(1, 1)])).any()
    assert len(found.end()) == 0


def test_how_many_are_left_is_known_before_they_are_read(place: str) -> None:
    found = matcher(place, [(k, 0) for k in range(30)])
    assert found.left == 30
    found.match(prints([(k, k % 2) for k in range(10)]))
    assert found.left == 25
    assert len(found.end()) == 25


def test_keys_are_found_by_both_words() -> None:
    keys = np.array([[5, 1], [9, 2], [2**64 - 1, 3]], dtype=np.uint64)
    found = KeySet(keys)
    asked = np.array([[9, 2], [9, 3], [5, 1], [4, 1], [2**64 - 1, 3]], dtype=np.uint64)
    assert found.find(asked).tolist() == [1, -1, 0, -1, 2]
    others = np.array([[9, 2], [5, 1], [4, 1]], dtype=np.uint64)
    assert KeySet(others).without(found).tolist() == [[4, 1]]
    with pytest.raises(DeltaGivenUp):
        KeySet(np.array([[9, 2], [9, 3]], dtype=np.uint64))


def test_what_a_newer_release_says_of_an_index_is_not_believed() -> None:
    index = RowIndex("n", 1, "c", "t", 2)
    assert RowIndex.from_fields(index.to_fields()) == index
    assert RowIndex.from_fields({**index.to_fields(), "more": 1}) is None
