"""Several things done at once, each waiting for a disk or a store of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_at_once(act: Callable[[T], R], items: Sequence[T], at_once: int, name: str = "") -> list[R]:
    """What each item gives, in their order, ``at_once`` of them at a time; one alone without a
    thread, which takes longer to start than a small file to read.

    Args:
        name: of the threads.

    Raises:
        Exception: what the first of the items that failed raised; all others have ended by then.
    """
    if len(items) < 2:
        return [act(item) for item in items]
    with ThreadPoolExecutor(at_once, name) as pool:
        return list(pool.map(act, items))
