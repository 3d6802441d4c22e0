"""Namespaces that several first loads make at once."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

from tests.integration.conftest import Place


def test_threads_that_make_one_namespace_at_once(place: Place) -> None:
    """PyIceberg looks, then inserts: all but one of them find it taken in between."""
    for _ in range(8):
        name, start = f"n{uuid.uuid4().hex[:10]}", threading.Barrier(4)

        def make(_: int, name: str = name, start: threading.Barrier = start) -> None:
            start.wait()
            place.lake.make_namespace(name)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(make, range(4)))
        assert place.lake.catalog.namespace_exists((name,))
