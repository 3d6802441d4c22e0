"""How both sides are read: which statements, over how many connections, and what ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from mirrorlake.errors import ProofError
from mirrorlake.proof.comparing import compare
from mirrorlake.proof.comparing.compare import Digests, KeyCut, candidates, read_lake, read_source
from mirrorlake.proof.ranges import ranges
from mirrorlake.proof.ranges.ranges import Range, Tally
from tests.unit.proof.test_parts import ONE, TWO, grid

Keys = list[tuple[str, ...]]


class Source:
    """MySQL, answered from lists: what it was asked for, by which connection, in order."""

    def __init__(self, newer: int = 0, fails: str = "") -> None:
        self.asked: list[tuple[str, str]] = []
        self._newer, self._fails = newer, fails

    def keys_sql(self, condition: str, within: str) -> str:
        return f"keys {condition} of {within}"

    def groups_sql(self, group: str, within: str) -> str:
        return f"{group} of {within}"

    def digests_sql(self, condition: str) -> str:
        return condition

    def bucket(self, count: int) -> str:
        return f"b{count}"

    def read_keys(self, connection: str, statement: str) -> Keys:
        self.asked.append((connection, statement))
        return [(f"{len(self.asked)}.{n}",) for n in range(self._newer)]

    def read_groups(self, connection: str, statement: str) -> dict[int, Tally]:
        self.asked.append((connection, statement))
        if self._fails and self._fails in statement:
            raise OSError(statement)
        return {len(self.asked): ONE}

    def read_digests(self, connection: str, statement: str) -> list[tuple[Any, int]]:
        self.asked.append((connection, statement))
        return [(("1",), 10), (("2",), 20), (("2",), 20), (("4",), 40)]


class Lake:
    """The lake, answered from lists."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def groups_sql(self, group: str, whole: str, without: str) -> str:
        return f"{group} of {whole} without {without}"

    def digests_sql(self, condition: str, without: str) -> str:
        return f"{condition} without {without}"

    def bucket(self, count: int) -> str:
        return f"b{count}"

    def read_groups(self, _: Any, statement: str) -> dict[int, Tally]:
        self.asked.append(statement)
        return {0: TWO}

    def read_digests(self, _: Any, statement: str) -> list[tuple[Any, int]]:
        self.asked.append(statement)
        return [(("1",), 10), (("2",), 20), (("3",), 30), (("4",), 41)]


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "reading", lambda _: nullcontext())
    monkeypatch.setattr(compare, "one_state", lambda _: nullcontext())
    monkeypatch.setattr(compare, "session", lambda *_: nullcontext("another"))
    monkeypatch.setattr(compare, "SessionTraffic", lambda _: SimpleNamespace(bytes=100))
    monkeypatch.setattr(compare, "key_view", lambda _, keys: nullcontext(f"view of {len(keys)}"))


def target(newer: str = "", connections: int = 1, *, keyed: bool = True) -> Any:
    return SimpleNamespace(
        name="t",
        key=("id",) if keyed else (),
        scope=SimpleNamespace(newer=newer),
        source=SimpleNamespace(connections=connections),
        table=SimpleNamespace(estimated_rows=40, database="d"),
    )


def read(
    where: Any, side: Source, cut: KeyCut, tell: Callable[[Keys], None] | None = None
) -> Digests:
    return read_source("mine", where, side, cut, tell)  # type: ignore[arg-type]


def test_groups_are_read_in_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 20)
    side, told = Source(), list[Keys]()

    def tell(keys: Keys) -> None:
        told.append(keys)
        # No row moves past the bound: that is known before anything is asked.
        assert side.asked == []

    found = read(target(), side, KeyCut(grid()), tell)
    group = grid().source
    assert side.asked == [
        ("mine", f"{group} of `id` >= 0 AND `id` < 20"),
        ("mine", f"{group} of `id` >= 20 AND `id` < 40"),
    ]
    assert (found.source, found.newer, found.bytes) == ({1: ONE, 2: ONE}, [], 0)
    assert told == [[]]


def test_keys_that_moved_are_told_once_all_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 20)
    side, told = Source(newer=2), list[Keys]()

    def tell(keys: Keys) -> None:
        told.append(keys)
        # The last span's digests are not made yet.
        assert len(side.asked) == 3

    found = read(target("at > 1"), side, KeyCut(grid()), tell)
    assert [statement.startswith("keys at > 1 of `id`") for _, statement in side.asked] == [
        True,
        False,
        True,
        False,
    ]
    assert told == [[("1.0",), ("1.1",), ("3.0",), ("3.1",)]]
    assert found.newer == told[0]
    # A table without a key has none that could be left out.
    side, told = Source(newer=2), []
    assert read(target("at > 1", keyed=False), side, KeyCut(None, 3), told.append).newer == []
    assert (told, side.asked) == ([[]], [("mine", "b3 of ")])
    # Nobody has to be told.
    assert len(read(target("at > 1"), Source(newer=2), KeyCut(grid())).newer) == 4


def test_too_many_keys_that_wait_are_a_mirror_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compare, "MOST_WAITING", 2)
    assert len(read(target("at > 1"), Source(newer=2), KeyCut(grid())).newer) == 2
    with pytest.raises(ProofError, match="more than 2 rows changed in MySQL") as error:
        read(target("at > 1"), Source(newer=3), KeyCut(grid()))
    assert "Sync it first" in str(error.value)


def test_two_connections_share_the_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 10)
    opened: list[str] = []

    @contextmanager
    def session(*_: Any) -> Any:
        opened.append("another")
        yield "another"

    monkeypatch.setattr(compare, "session", session)
    both = threading.Barrier(2, timeout=20)

    class Shared(Source):
        def read_groups(self, connection: str, statement: str) -> dict[int, Tally]:
            if len({c for c, _ in self.asked}) < 2:
                self.asked.append((connection, ""))
                both.wait()
            return super().read_groups(connection, statement)

    side = Shared()
    found = read(target(connections=5), side, KeyCut(grid()))
    assert {c for c, _ in side.asked} == {"mine", "another"}
    assert sorted(s for _, s in side.asked if s) == sorted(
        f"{grid().source} of `id` >= {n} AND `id` < {n + 10}" for n in (0, 10, 20, 30)
    )
    assert len(found.source) == 4
    # What the other connection was sent is counted; one helper is all there is.
    assert (found.bytes, opened) == (100, ["another"])
    # One statement needs no second connection.
    assert read(target(connections=5), Source(), KeyCut(None)).bytes == 0
    assert opened == ["another"]


def test_the_first_failure_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 10)
    side = Source(fails="`id` >= 10 ")
    with pytest.raises(OSError, match="`id` >= 10 "):
        read(target(), side, KeyCut(grid()))
    assert len(side.asked) == 2


def test_a_failure_of_the_other_connection_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "QUERY_ROWS", 10)
    failed = threading.Event()

    @contextmanager
    def session(*_: Any) -> Any:
        failed.set()
        raise OSError("no connection")
        yield

    class Waiting(Source):
        def read_groups(self, connection: str, statement: str) -> dict[int, Tally]:
            assert failed.wait(20)
            time.sleep(0.3)
            return super().read_groups(connection, statement)

    monkeypatch.setattr(compare, "session", session)
    side = Waiting()
    with pytest.raises(OSError, match="no connection"):
        read(target(connections=2), side, KeyCut(grid()))
    # Nothing is read any more once the other one has failed.
    assert len(side.asked) <= 1


def test_the_lake_is_read_without_the_keys_that_moved() -> None:
    side: Any = Lake()
    assert read_lake(None, side, KeyCut(grid()), []) == {0: TWO}
    part = grid(whole=Range(0, 40))
    read_lake(None, side, KeyCut(part), [("1",), ("2",)])
    read_lake(None, side, KeyCut(None, 3), [])
    assert side.asked == [
        f"{grid().lake} of  without ",
        f"{part.lake} of `id` >= 0 AND `id` < 40 without view of 2",
        "b3 of  without ",
    ]


def test_keys_whose_digests_differ_are_candidates() -> None:
    source, lake = Source(), Lake()
    digests = Digests({0: ONE, 1: ONE}, {0: TWO}, [("9",)])
    sides: Any = (source, lake)
    found = candidates("mine", None, target(), sides, KeyCut(grid()), digests)  # type: ignore[arg-type]
    # One row too many, one too few, and one with another digest; of groups 0 and 1.
    assert [s for _, s in source.asked] == ["`id` >= 0 AND `id` < 10", "`id` >= 10 AND `id` < 20"]
    assert found.keys == {("1",), ("2",), ("3",), ("4",)}
    part: Any = (Source(), Lake())
    one = Digests({0: ONE}, {})
    found = candidates("mine", None, target(), part, KeyCut(grid()), one)  # type: ignore[arg-type]
    assert found.keys == {("2",), ("3",), ("4",)}
    [asked] = lake.asked
    assert asked.endswith("IN (0, 1)) without view of 1")
    same: Any = (Source(), Lake())
    assert (
        candidates("mine", None, target(), same, KeyCut(grid()), Digests({0: ONE}, {0: ONE})).keys
        == set()
    )  # type: ignore[arg-type]
    assert same[0].asked == []
