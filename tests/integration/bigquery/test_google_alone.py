"""What no emulator has: it runs on Google Cloud alone, and nowhere else."""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from mirrorlake.workspace import Workspace
from tests.integration.bigquery.published import address, checked, synced
from tests.support.bigquery.cloud import Cloud

pytestmark = pytest.mark.live
DOUBLES = (0.1, -0.0, 1e-323, 1.7976931348623157e308, 2.2250738585072014e-308, 1 / 3, 1e22, 123.0)


def test_a_double_is_the_text_that_checks_rest_on(cloud: Cloud) -> None:
    found = cloud.client().query_and_wait(
        "SELECT " + ", ".join(f"FORMAT('%.17g', CAST('{x!r}' AS FLOAT64))" for x in DOUBLES)
    )
    [texts] = [tuple(row.values()) for row in found]
    assert texts == tuple(f"{x:.17g}" for x in DOUBLES)
    assert [struct.pack("d", float(text)) for text in texts] == [
        struct.pack("d", x) for x in DOUBLES
    ]


def test_numbers_of_38_digits_are_mysqls(
    mirror: Callable[..., Workspace], sql: Callable[..., Any], cloud: Cloud, dataset: str
) -> None:
    whole, small = "9" * 38, f"0.{'0' * 37}1"
    sql(
        "CREATE TABLE t (id INT PRIMARY KEY, a DECIMAL(38,0), b DECIMAL(38,38))",
        f"INSERT INTO t VALUES (1, {whole}, {small}), (2, -{whole}, -{small}), (3, 0, 0)",
    )
    workspace = mirror({"t": {"mode": "full", "key": ["id"]}})
    assert synced(workspace).rows == 3
    rows = {row["id"]: (row["a"], row["b"]) for row in cloud.client().list_rows(address(dataset))}
    assert rows == {
        1: (Decimal(whole), Decimal(small)),
        2: (Decimal(f"-{whole}"), Decimal(f"-{small}")),
        3: (Decimal(0), Decimal(0)),
    }
    assert checked(workspace).verdict == "equal"
