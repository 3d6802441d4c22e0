"""The ledger's tables. Times are UTC, stored without a zone: not every database keeps one."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import mysql

METADATA = sa.MetaData()
META = sa.Table(
    "mirrorlake_meta",
    METADATA,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.String(255), nullable=False),
)
LEASES = sa.Table(
    "leases",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("owner", sa.String(255), nullable=False),
    sa.Column("expires_at", sa.DateTime, nullable=False),
)
WINDOWS = sa.Table(
    "windows",
    METADATA,
    sa.Column("load_id", sa.String(36), primary_key=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("lo", sa.String(64)),
    sa.Column("hi", sa.String(64)),
    sa.Column("day", sa.Date),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
)
# SQLite alone needs the type INTEGER for a key that counts by itself.
COUNTER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
LOADS = sa.Table(
    "loads",
    METADATA,
    sa.Column("seq", COUNTER, primary_key=True, autoincrement=True),
    sa.Column(
        "load_id", sa.String(36), sa.ForeignKey("windows.load_id"), nullable=False, index=True
    ),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("run_id", sa.String(64), nullable=False),
    sa.Column("token", sa.BigInteger, nullable=False),
    sa.Column("raw_table", sa.String(255), nullable=False),
    sa.Column("parent_snapshot", sa.BigInteger),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("finished_at", sa.DateTime),
    sa.Column("receipt", sa.Text),
    sa.Column("error", sa.Text),
    sa.Column("job_id", sa.String(255)),
    sa.UniqueConstraint("load_id", "attempt"),
    # The newest load of a table is found by its end, however many there are.
    sa.Index("ix_loads_table_name_seq", "table_name", "seq"),
    # A number is never given out twice, not even after its row was deleted.
    sqlite_autoincrement=True,
)
CHUNKED = sa.Table(
    "chunked_loads",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("basis", sa.Text, nullable=False),
    sa.Column("start", sa.Text, nullable=False),
    sa.Column("planned_at", sa.DateTime, nullable=False),
)
CHUNKS = sa.Table(
    "chunks",
    METADATA,
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("bounds", sa.Text, nullable=False),
    sa.Column("receipt", sa.Text),
)
FOLDS = sa.Table(
    "folds",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("layer", sa.String(16), primary_key=True),
    sa.Column("seq", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("folded_at", sa.DateTime, nullable=False),
)
SETTLED = sa.Table(
    "settled",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("table_name", sa.String(255), nullable=False),
    sa.Column("what", sa.String(16), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("run_id", sa.String(64)),
    sqlite_autoincrement=True,
)
FIRST_DAYS = sa.Table(
    "first_days",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("day", sa.Date, nullable=False),
)
COSTS = sa.Table(
    "costs",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("table_name", sa.String(255), nullable=False),
    sa.Column("step", sa.String(16), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("recorded_at", sa.DateTime, nullable=False),
    sa.Column("scanned", sa.BigInteger),
    sa.Column("written", sa.BigInteger, nullable=False),
    sa.Column("seconds", sa.Float),
    sa.Index("ix_costs_table_name_recorded_at", "table_name", "recorded_at"),
)
VIEWS = sa.Table(
    "views",
    METADATA,
    sa.Column("view_name", sa.String(255), primary_key=True),
    sa.Column("definition", sa.Text, nullable=False),
)
VERSIONS = sa.Table(
    "schema_versions",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("hash", sa.String(64), primary_key=True),
    sa.Column("raw_table", sa.String(255), nullable=False),
    sa.Column("columns", sa.Text, nullable=False),
    sa.Column("first_seen", sa.DateTime, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
)
KNOWN_COLUMNS = sa.Table(
    "known_columns",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("column_name", sa.String(255), primary_key=True),
    sa.Column("known_since", sa.DateTime, nullable=False),
)
MOVED_DAYS = sa.Table(
    "moved_days",
    METADATA,
    sa.Column("lake_table", sa.String(64), primary_key=True),
    sa.Column("column_name", sa.String(255), primary_key=True),
    sa.Column("said", sa.Text, nullable=False),
)
DIRTY_MARKS = sa.Table(
    "dirty_marks",
    METADATA,
    sa.Column("mark_id", sa.String(36), primary_key=True),
    sa.Column("declaration", sa.String(36), nullable=False),
    sa.Column("target", sa.String(255), nullable=False, index=True),
    sa.Column("partition_key", sa.String(500)),
    sa.Column("first_day", sa.Date),
    sa.Column("last_day", sa.Date),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("declared_by", sa.String(255), nullable=False),
    sa.Column("declared_at", sa.DateTime, nullable=False),
)
HOLDS = sa.Table(
    "holds",
    METADATA,
    sa.Column("source", sa.String(255), primary_key=True),
    sa.Column("until", sa.DateTime, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("set_at", sa.DateTime, nullable=False),
)
REFUSALS = sa.Table(
    "refusals",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("error", sa.Text, nullable=False),
    sa.Column("refused_at", sa.DateTime, nullable=False),
    sa.Column("first_refused_at", sa.DateTime),
    sa.Column("times", sa.Integer, nullable=False),
)
ROW_COUNTS = sa.Table(
    "row_counts",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
)
UNPROVED = sa.Table(
    "unproved",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("server", sa.String(255), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("marked_at", sa.DateTime, nullable=False),
)
CHANGE_STAMPS = sa.Table(
    "change_stamps",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("shown", sa.Text, nullable=False),
    sa.Column("terms", sa.String(64), nullable=False),
    sa.Column("lake", sa.String(64), nullable=False),
    sa.Column("form", sa.String(64)),
    sa.Column("read_at", sa.DateTime, nullable=False),
    sa.Column("seen_at", sa.DateTime, nullable=False),
    sa.Column("evidence", sa.String(16)),
)
PROOFS = sa.Table(
    "proofs",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("check_id", sa.String(36), nullable=False, index=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("asked", sa.String(64), nullable=False),
    sa.Column("lo", sa.Text),
    sa.Column("hi", sa.Text),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("source_rows", sa.BigInteger, nullable=False),
    sa.Column("lake_rows", sa.BigInteger, nullable=False),
    sa.Column("source_digest", sa.String(64), nullable=False),
    sa.Column("lake_digest", sa.String(64), nullable=False),
    sa.Column("waiting", sa.BigInteger, nullable=False),
    sa.Column("differences", sa.BigInteger, nullable=False),
    sa.Column("server", sa.String(255), nullable=False),
    sa.Column("position", sa.Text, nullable=False),
    sa.Column("source_time", sa.DateTime, nullable=False),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("through_seq", sa.BigInteger, nullable=False),
    sa.Column("code", sa.String(64), nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
    sa.Column("source_bytes", sa.BigInteger, nullable=False),
    sa.Column("evidence", sa.Text, nullable=False),
    sa.Column("day", sa.Date),
    sa.Column("days_from", sa.Date),
    sa.Column("days_before", sa.Date),
    sqlite_autoincrement=True,
)
RAW_FILES = sa.Table(
    "raw_files",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("name", sa.String(255), primary_key=True),
    sa.Column("raw_table", sa.String(255), nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("bytes", sa.BigInteger, nullable=False),
    sa.Column("checksum", sa.String(64), nullable=False),
    sa.Column("basis", sa.String(16), nullable=False),
    sa.Column("recorded_at", sa.DateTime, nullable=False),
    sa.Column("checked_at", sa.DateTime),
    sa.Index("ix_raw_files_table_name_seq", "table_name", "seq"),
)
LAYER_PROOFS = sa.Table(
    "layer_proofs",
    METADATA,
    sa.Column("number", COUNTER, primary_key=True, autoincrement=True),
    sa.Column("check_id", sa.String(36), nullable=False),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("layer", sa.String(16), nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("words", sa.Text, nullable=False),
    sa.Column("compared", sa.Text, nullable=False),
    sa.Column("row_count", sa.BigInteger, nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("expected_rows", sa.BigInteger, nullable=False),
    sa.Column("expected_digest", sa.String(64), nullable=False),
    sa.Column("snapshots", sa.Text, nullable=False),
    sa.Column("through_seq", sa.BigInteger, nullable=False),
    sa.Column("code", sa.String(64), nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("seconds", sa.Float, nullable=False),
)
REPAIRS = sa.Table(
    "repairs",
    METADATA,
    sa.Column("repair_id", sa.String(36), primary_key=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("asked", sa.String(64), nullable=False),
    sa.Column("why", sa.Text, nullable=False),
    sa.Column("key_count", sa.BigInteger, nullable=False),
    sa.Column("digests", sa.Text, nullable=False),
    sa.Column("before_repair", sa.Text, nullable=False),
    sa.Column("after_repair", sa.Text),
    sa.Column("load_ids", sa.Text, nullable=False),
    sa.Column("before_snapshot", sa.BigInteger),
    sa.Column("after_snapshot", sa.BigInteger),
    sa.Column("code", sa.String(64), nullable=False),
    sa.Column("started_at", sa.DateTime, nullable=False),
    sa.Column("finished_at", sa.DateTime),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("evidence", sa.Text, nullable=False),
)
LOG_PROGRESS = sa.Table(
    "log_progress",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("place", sa.Text, nullable=False),
    sa.Column("at", sa.DateTime, nullable=False),
)
PROOF_OFFSETS = sa.Table(
    "proof_offsets",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("next_lo", sa.Text),
)
TENANTS = sa.Table(
    "tenants",
    METADATA,
    sa.Column("table_name", sa.String(255), primary_key=True),
    sa.Column("source", sa.String(64), primary_key=True),
    sa.Column("database_name", sa.String(64), primary_key=True),
    sa.Column("version", sa.String(64)),
    sa.Column("load_id", sa.String(36)),
    sa.Column("seq", sa.BigInteger),
    sa.Column("row_count", sa.BigInteger),
    sa.Column("digest", sa.String(64)),
    sa.Column("form", sa.String(64)),
    sa.Column("shown", sa.Text),
    sa.Column("terms", sa.String(64)),
    sa.Column("log_place", sa.Text),
    sa.Column("read_at", sa.DateTime),
    sa.Column("seen_at", sa.DateTime),
    sa.Column("folded", sa.String(36)),
    sa.Column("gone_at", sa.DateTime),
    sa.Column("error", sa.Text),
    sa.Column("failed_at", sa.DateTime),
    sa.Column("verdict", sa.String(16)),
    sa.Column("verdict_words", sa.Text),
    sa.Column("checked_at", sa.DateTime),
    sa.Column("first_seen", sa.DateTime, nullable=False),
)

# The lake that this ledger is of: one row, whose number is 1.
LAKES = sa.Table(
    "lakes",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("lake_id", sa.String(36), nullable=False),
    sa.Column("warehouse", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.DateTime, nullable=False),
)
# What our last commit left of each lake table.
LAKE_HEADS = sa.Table(
    "lake_heads",
    METADATA,
    sa.Column("namespace", sa.String(255), primary_key=True),
    sa.Column("lake_table", sa.String(255), primary_key=True),
    sa.Column("table_name", sa.String(255), nullable=False, index=True),
    sa.Column("uuid", sa.String(36), nullable=False),
    sa.Column("snapshot_id", sa.BigInteger),
    sa.Column("sequence", sa.BigInteger, nullable=False),
    sa.Column("metadata_location", sa.Text, nullable=False),
    sa.Column("recorded_at", sa.DateTime, nullable=False),
)


def _suit_mysql() -> None:
    """What MySQL and MariaDB take for granted would change what is kept: names that differ only in
    case or accents are one, times have whole seconds, texts end at 64 KB, a table may have no
    transactions."""
    for table in METADATA.tables.values():
        for family in ("mysql", "mariadb"):
            options = table.dialect_options[family]
            options["engine"], options["charset"] = "InnoDB", "utf8mb4"
            options["collate"] = "utf8mb4_bin"
        for column in table.columns:
            if isinstance(column.type, sa.DateTime):
                column.type = column.type.with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
            elif isinstance(column.type, sa.Text):
                column.type = column.type.with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


_suit_mysql()
