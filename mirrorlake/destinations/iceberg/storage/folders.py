"""Where a lake table's files live, by its name alone: without PyIceberg, and nothing is opened."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, urlparse


def warehouse_uri(warehouse: str) -> str:
    """The warehouse of a contract file as a URI.

    >>> warehouse_uri("/srv/lake/"), warehouse_uri("gs://bucket/lake")
    ('file:///srv/lake', 'gs://bucket/lake')
    """
    if urlparse(warehouse).scheme:
        return warehouse.rstrip("/")
    return f"file://{warehouse.rstrip('/')}"


def table_uri(warehouse: str, path: Iterable[str]) -> str:
    """The folder of a table: names are escaped where a file system would take them apart.

    >>> table_uri("file:///srv/lake", ("shop", "a/b c"))
    'file:///srv/lake/shop/a%2Fb c'
    >>> table_uri("file:///srv/lake", ("..", "a.b"))
    'file:///srv/lake/%2E%2E/a.b'
    """
    return "/".join((warehouse, *map(_one_folder, path)))


def _one_folder(name: str) -> str:
    return "%2E" * len(name) if name in (".", "..") else quote(name, safe=" ")
