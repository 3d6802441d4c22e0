"""One hash under every digest, on every side, and none that a server may lack."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from mirrorlake.proof.comparing.report import digest_text
from mirrorlake.proof.forms.hashing import ALGORITHM, hash_bytes
from mirrorlake.proof.forms.rows import row_form, source_number
from mirrorlake.proof.ranges.ranges import Tally
from mirrorlake.sources.mysql.tables import Column
from tests.integration.refused_by_versions import (
    REMOVED,
    refused_by_5_7,
    refused_by_9,
    sent_by_engine,
)

PLAIN = Column("c", 1, "", "", True, None, None, None, None, None, None, "", "")
TEXT = replace(PLAIN, charset="utf8mb4", collation="utf8mb4_bin")
LONG = 70_000
KINDS = [
    *(replace(PLAIN, data_type=kind, column_type=kind, name=kind) for kind in (
        "int", "year", "float", "double", "date", "timestamp", "json", "time", "uuid", "geometry",
    )),
    replace(PLAIN, name="n", data_type="decimal", column_type="decimal(40,3)", precision=40, scale=3),
    replace(PLAIN, name="b", data_type="bit", column_type="bit(64)", precision=64),
    replace(PLAIN, name="blob", data_type="longblob", column_type="longblob", length=LONG),
    replace(PLAIN, name="short", data_type="varbinary", column_type="varbinary(9)", length=9),
    replace(TEXT, name="text", data_type="longtext", column_type="longtext", length=LONG),
    replace(TEXT, name="sjis", data_type="text", column_type="text", charset="sjis", length=LONG),
    replace(TEXT, name="enum", data_type="enum", column_type="enum('a')", length=1),
]  # fmt: skip


@pytest.mark.parametrize("originals", [True, False])
def test_no_form_of_any_type_needs_a_function_that_mysql_9_lacks(originals: bool) -> None:
    form = row_form(KINDS, originals, 2**30)
    for sql in (form.source_digest, source_number("'x'", 8), *(c.source_shown for c in form.cells)):
        assert not REMOVED.search(sql), sql
    assert form.source_digest.count("SHA2(") >= 4  # the row's, and those of three long cells
    assert "md5" not in (form.lake_digest + form.lake_digest_text).lower()


def test_the_hash_is_sha256_and_is_named_beside_each_digest() -> None:
    assert hash_bytes(b"1,a") == hashlib.new(ALGORITHM, b"1,a").digest()
    assert digest_text(Tally(1, 255)) == "sha256:0000000000000000000000ff"


def test_a_statement_of_the_engine_that_another_version_refuses_is_found(tmp_path: Path) -> None:
    log = tmp_path / "general.log"
    at = "2026-01-01T00:00:00.000000Z\t   "
    lines = [
        f"{at} 8 Connect\tmirror@127.0.0.1 on d using TCP/IP",
        f"{at} 9 Connect\troot@localhost on  using Socket",
        f"{at} 8 Query\tSELECT COUNT(*),",
        "  SUM(MD5(`a`)) FROM t",
        f"{at} 9 Query\tINSERT INTO t SELECT MD5(1)",
        f"{at} 8 Query\tSELECT SHA2(`a`,256) FROM t",
        f"{at} 8 Query\tSHOW MASTER STATUS",
        f"{at} 8 Query\tSET SESSION information_schema_stats_expiry = 0",
        f"{at} 8 Query\tSET @a = 0 /*!80000 , SESSION information_schema_stats_expiry = 0 */",
        f"{at} 8 Query\tSELECT `except`, 'over (' FROM t",
        f"{at} 8 Query\tWITH x AS (SELECT ROW_NUMBER() OVER (ORDER BY `a`) FROM t) SELECT 1",
        f"{at} 8 Quit\t",
    ]
    log.write_text("\n".join(lines))
    assert len(list(sent_by_engine(log))) == 7
    assert [sql[:11] for sql in refused_by_9(log)] == ["SELECT COUN", "SHOW MASTER"]
    assert [sql[:11] for sql in refused_by_5_7(log)] == ["SET SESSION", "WITH x AS ("]
