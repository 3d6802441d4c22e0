"""Which names the engines keep for themselves: of columns, tables and namespaces; and which of them
are refused, everywhere or in BigQuery. Each refused or kept column was taken through every layer
and reader: ``tests/integration/operations/test_reserved_names.py``."""

from __future__ import annotations

import pytest

from mirrorlake.schema.reserved_names import (
    bigquery_problems,
    column_in_bigquery,
    dataset_in_bigquery,
    keeper_of,
    table_in_bigquery,
)

COLUMNS = {
    "Spark": {
        "_metadata": "kept", "__row_operation": "kept", "__row_id": "kept", "default": "kept",
        "__row_from_source": "everywhere", "__Row_From_Target": "everywhere",
    },
    "Iceberg": {
        **dict.fromkeys(("_deleted", "_row_id", "_last_updated_sequence_number"), "everywhere"),
        **dict.fromkeys(("_pos", "_spec_id", "_Pos"), "everywhere"),
        "_file": "everywhere", "_FILE": "everywhere", "_partition": "everywhere",
        "_DELETED": "kept", "file_path": "kept", "_change_ordinal": "kept",
    },
    "Parquet": {"element": "kept", "key_value": "kept", "list": "kept", "__index_level_0__": "kept"},
    "PyIceberg": {"_commit_snapshot_id": "kept", "pos": "kept", "row": "kept"},
    "DuckDB": {"filename": "kept", "file_row_number": "kept", "file_index": "kept", "rowid": "kept"},
    "BigQuery": {
        "_TABLE_SUFFIX": "bigquery", "_FILE_NAME": "bigquery", "_PARTITIONTIME": "bigquery",
        "_PARTITIONDATE": "bigquery", "_ROW_TIMESTAMP": "bigquery", "__ROOT__x": "bigquery",
        "_COLIDENTIFIER": "bigquery", "_CHANGE_TYPE": "bigquery", "_change_timestamp": "bigquery",
        "_CHANGE_SEQUENCE_NUMBER": "bigquery", "größe": "bigquery", "a b": "bigquery", "1st": "bigquery",
        "select": "kept", "_TABLES": "kept",
    },
    "Dagster": {"partition": "kept", "dagster/row_count": "bigquery", "row_count": "kept"},
    "Mirrorlake": {"_mirror_load": "everywhere", "_MIRROR_x": "everywhere", "mirror_x": "kept"},
}  # fmt: skip
"""Engine → a column's name → where it is refused."""


@pytest.mark.parametrize("engine", COLUMNS)
def test_where_a_column_s_name_is_refused(engine: str) -> None:
    found = {
        name: "everywhere"
        if keeper_of(name)
        else "kept"
        if column_in_bigquery(name)
        else "bigquery"
        for name in COLUMNS[engine]
    }
    assert found == COLUMNS[engine]


TABLES = {
    "Iceberg": ("files", "history", "snapshots", "refs", "partitions", "branch_main", "changes"),
    "Spark": ("values", "table", "system"),
    "DuckDB": ("main", "temp"),
    "Dagster": ("raw", "deduped"),
    "BigQuery": ("INFORMATION_SCHEMA", "größe", "a-b c"),
}
"""Engine → names of tables that mean something to it: every one can be mirrored (the test of every
engine syncs them), and BigQuery can have it."""


@pytest.mark.parametrize("engine", TABLES)
def test_what_tables_can_be_called(engine: str) -> None:
    assert [name for name in TABLES[engine] if not table_in_bigquery(name)] == []


def test_what_of_a_table_bigquery_can_not_have() -> None:
    problems = bigquery_problems("größe", "a.b", ["id", "_PARTITIONTIME"])
    assert [(one.words, one.column) for one in problems] == [
        ("BigQuery has no dataset called 'größe'", ""),
        ("BigQuery has no table called 'a.b'", ""),
        ("BigQuery has no column called '_PARTITIONTIME'", "_PARTITIONTIME"),
    ]
    wrong = ("a-b", "a b", "a.b", "", "a" * 1025)
    assert [name for name in wrong if dataset_in_bigquery(name)] == []
    assert dataset_in_bigquery("s_shop__clean")
