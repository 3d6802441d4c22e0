"""Every system variable with a session value, and what it does to our reads.

`SETTINGS` are those that could change what a statement of ours answers: each session sets them and
reads them back, and each row that is read says that they hold (`reader.witness`). Every other one
has its reason in `HARMLESS`; a test compares both with what real servers have, so that a new
server's variable is noticed. A condition that a user writes (``check --where``) may call any
function: what changes a function's result is set too.

Source: MySQL 8.4 and 9.x manuals, "Server System Variables", "Comments"; MariaDB documentation,
"Server System Variables", "Comment Syntax".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirrorlake.sources.mysql.tables import quoted_text

_UNLIMITED: Final = 2**64 - 1


@dataclass(frozen=True)
class Setting:
    """A variable and the value that it has in every session of ours.

    ``where`` says which servers have it, by how each begins a comment that it executes: '' is
    every server, ``!80030`` MySQL from 8.0.30 on, ``M!110200`` MariaDB from 11.2 on. MariaDB passes
    over comments with the numbers of MySQL 5.7 and later, MySQL over all of MariaDB's.
    """

    name: str
    value: str | int
    where: tuple[str, ...] = ("",)
    keyword: str = ""
    """What it is set to, where that is no value."""

    @property
    def assignment(self) -> str:
        """What ``SET SESSION`` takes."""
        return f"{self.name} = {self.keyword or _literal(self.value)}"

    @property
    def condition(self) -> str:
        """SQL that is 1 where the variable has its value, and else 0 or NULL."""
        # MariaDB may read '' as NULL even after sql_mode was emptied (EMPTY_STRING_IS_NULL).
        if self.value == "":
            return f"LENGTH(@@session.{self.name}) = 0"
        return f"@@session.{self.name} = {_literal(self.value)}"


SETTINGS: Final = (
    Setting("time_zone", "+00:00"),
    Setting("sql_mode", ""),
    # In this order: a connection's charset brings a collation.
    Setting("character_set_results", "utf8mb4"),
    Setting("character_set_client", "utf8mb4"),
    Setting("character_set_connection", "utf8mb4"),
    # Under which texts are compared that come from no column, such as a number as text.
    Setting("collation_connection", "utf8mb4_bin"),
    # How many rows a SELECT may give: fewer come without a word.
    Setting("sql_select_limit", _UNLIMITED),
    # In this order: a limit of joins decides about large selects, too.
    Setting("max_join_size", _UNLIMITED),
    Setting("sql_big_selects", 1),
    # Rows of another day; DEFAULT is today's, whatever the server's own value is.
    Setting("system_versioning_asof", "DEFAULT", ("M!100300",), "DEFAULT"),
    # `x IS NULL` may mean the row that was inserted last.
    Setting("sql_auto_is_null", 0),
    # Each statement sees its own state, and a transaction's end begins no other.
    Setting("autocommit", 1),
    Setting("completion_type", "NO_CHAIN"),
    # HeatWave's copy of a table has semantics of its own.
    Setting("use_secondary_engine", "OFF", ("!80021",)),
    Setting("sql_buffer_result", 0),
    # How tables are shown to us: a key that the server made is a key.
    Setting("show_gipk_in_create_table_and_information_schema", 1, ("!80030",)),
    Setting("show_create_table_verbosity", 0, ("!80011",)),
    Setting("show_create_table_skip_secondary_engine", 0, ("!80400",)),
    Setting("sql_quote_show_create", 1),
    # What functions and operators give.
    Setting("old_mode", "", ("M!100600",)),
    Setting("group_concat_max_len", 2**20),
    Setting("div_precision_increment", 4),
    Setting("default_week_format", 0),
    Setting("lc_time_names", "en_US"),
    Setting("block_encryption_mode", "aes-128-ecb", ("!50704", "M!110200")),
    Setting("default_regex_flags", "", ("M!100600",)),
)
"""What holds in every session of ours, in the order in which it is set."""

ISOLATION: Final = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""A statement that every server has; what it sets has two names."""
_ISOLATION: Final = (
    Setting("transaction_isolation", "REPEATABLE-READ", ("!50720",)),
    # MariaDB has the other name as well, but from 11.1 on alone.
    Setting("tx_isolation", "REPEATABLE-READ", ("M!100000",)),
)

HELD: Final = (*SETTINGS, *_ISOLATION)
"""Everything that is read back."""

EVERY_ROW: Final = ("time_zone", "sql_mode", "character_set_results", "sql_select_limit")
"""What each row compares again: the server evaluates it row by row, so only what could differ where
a proxy hands one statement to another session. The others are compared once, see `MARK`."""

MARK: Final = "@mirrorlake_session"
"""A variable of the session that is 1 where everything held after it was set."""


REFUSE: Final = f"SET {MARK} = IF({MARK} = 1, 1, (SELECT 1 UNION ALL SELECT 2))"
"""A statement that a session refuses (`REFUSED`) in which a setting did not hold."""
REFUSED: Final = 1242  # ER_SUBQUERY_NO_1_ROW


def set_all(*more: str) -> str:
    """The statement that gives a session its settings, and some more assignments."""
    plain = [s.assignment for s in SETTINGS if "" in s.where]
    return f"SET SESSION {', '.join([*plain, *more])}{_guarded(',', _assignments())}"


def mark_held() -> str:
    """The statement that compares every setting, and keeps the result in `MARK`."""
    conditions = [(s.where, s.condition) for s in HELD]
    plain = [condition for where, condition in conditions if "" in where]
    return f"SET {MARK} = ({' AND '.join(plain)}{_guarded('AND', conditions)})"


def read_back(form: str, timestamp: str) -> str:
    """SELECT of something of every setting under its name.

    Args:
        form: ``{condition}`` is 1 where it holds, ``{value}`` is its value.
        timestamp: what is selected of ``timestamp``, which has no value of ours.
    """
    columns = [
        (s.where, form.format(condition=s.condition, value=f"@@session.{s.name}") + f" AS {s.name}")
        for s in HELD
    ]
    plain = [column for where, column in columns if "" in where]
    plain.append(f"{timestamp} AS timestamp")
    return f"SELECT {', '.join(plain)}{_guarded(',', columns)}"


def _assignments() -> list[tuple[tuple[str, ...], str]]:
    return [(s.where, s.assignment) for s in SETTINGS]


def _guarded(joint: str, parts: Sequence[tuple[tuple[str, ...], str]]) -> str:
    """What only some servers have, each in comments that they alone execute."""
    heads = [(head, text) for where, text in parts for head in where if head]
    return "".join(f" /*{head} {joint} {text} */" for head, text in heads)


def _literal(value: str | int) -> str:
    return quoted_text(value) if isinstance(value, str) else str(value)


# --- all the others -------------------------------------------------------------------------------

_HARMLESS: Final[Mapping[str, str]] = {
    "set where it is needed: how long a lock, a statement or a reader is waited for, and how old "
    "the statistics of tables may be": """
        information_schema_stats_expiry lock_wait_timeout max_execution_time max_statement_time
        net_write_timeout""",
    "only what a session writes; ours write nothing": """
        auto_increment_increment auto_increment_offset binlog_alter_two_phase
        binlog_annotate_row_events binlog_direct_non_transactional_updates binlog_format
        binlog_row_event_fragment_threshold binlog_row_image binlog_row_value_options
        binlog_rows_query_log_events binlog_transaction_compression
        binlog_transaction_compression_level_zstd bulk_insert_buffer_size check_constraint_checks
        column_compression_threshold column_compression_zlib_level column_compression_zlib_strategy
        column_compression_zlib_wrap enable_cascade_triggers foreign_key_checks
        gtid_domain_id gtid_next gtid_seq_no
        innodb_lock_wait_timeout innodb_snapshot_isolation innodb_support_xa innodb_table_locks
        insert_id
        low_priority_updates max_delayed_threads max_insert_delayed_threads sql_log_bin
        sql_safe_updates system_versioning_insert_history transaction_allow_batching
        transaction_read_only transaction_write_set_extraction tx_read_only unique_checks
        updatable_views_with_limit xa_detach_on_prepare wsrep_gtid_seq_no wsrep_on
        wsrep_retry_autocommit wsrep_trx_fragment_size wsrep_trx_fragment_unit""",
    "only how tables, accounts and stored programs are made or changed": """
        alter_algorithm character_set_database character_set_server collation_database
        collation_server default_storage_engine default_table_encryption default_tmp_storage_engine
        enforce_storage_engine explicit_defaults_for_timestamp
        external_table_secondary_storage_engine external_table_storage_engine
        generated_random_password_length
        innodb_compression_default innodb_ddl_buffer_size innodb_ddl_threads
        innodb_default_encryption_key_id innodb_strict_mode keep_files_on_create
        mhnsw_default_distance mhnsw_default_m old_alter_table old_passwords
        print_identified_with_as_hex restrict_fk_on_non_standard_key
        sql_generate_invisible_primary_key sql_if_exists sql_require_primary_key storage_engine
        system_versioning_alter_history wsrep_osu_method""",
    "the same rows, sooner or later: buffers, caches, statistics, the optimizer's choices (their "
    "defects are the server's; no bound of ours rests on an order that is not compared again)": """
        analyze_max_length analyze_sample_percentage aria_repair_threads aria_sort_buffer_size
        aria_stats_method big_tables deadlock_search_depth_long deadlock_search_depth_short
        deadlock_timeout_long deadlock_timeout_short enable_secondary_engine_statistics
        eq_range_index_dive_limit
        expensive_subquery_limit histogram_generation_max_mem_size histogram_size histogram_type
        in_predicate_conversion_threshold innodb_parallel_read_threads innodb_tmpdir
        internal_tmp_mem_storage_engine join_buffer_size join_buffer_space_limit join_cache_level
        max_heap_table_size max_length_for_sort_data max_rowid_filter_size max_seeks_for_key
        max_sort_length mrr_buffer_size myisam_repair_threads myisam_sort_buffer_size
        myisam_stats_method net_buffer_length new_mode optimizer_adjust_secondary_key_costs
        optimizer_disk_read_ratio optimizer_extra_pruning_depth optimizer_join_limit_pref_ratio
        optimizer_max_sel_arg_weight optimizer_max_sel_args optimizer_max_subgraph_pairs
        optimizer_prune_level optimizer_scan_setup_cost optimizer_search_depth
        optimizer_selectivity_sampling_limit optimizer_switch optimizer_use_condition_selectivity
        optimizer_where_cost preload_buffer_size query_alloc_block_size query_cache_strip_comments
        query_cache_type query_cache_wlock_invalidate query_prealloc_size range_alloc_block_size
        range_optimizer_max_mem_size read_buffer_size read_rnd_buffer_size rowid_merge_buff_size
        secondary_engine_cost_threshold select_into_buffer_size select_into_disk_sync
        select_into_disk_sync_delay set_operations_buffer_size sort_buffer_size tcp_nodelay
        thread_pool_high_priority_connection thread_pool_priority tmp_disk_table_size
        tmp_memory_table_size tmp_table_size transaction_alloc_block_size
        transaction_prealloc_size use_stat_tables""",
    "a limit that ends a statement or a connection with an error, never with fewer rows": """
        connection_memory_chunk_size connection_memory_limit global_connection_memory_tracking
        idle_readonly_transaction_timeout idle_transaction_timeout idle_write_transaction_timeout
        interactive_timeout max_allowed_packet max_session_mem_used
        max_sp_recursion_depth max_tmp_session_space_usage max_user_connections net_read_timeout
        net_retry_count parser_max_mem_size wait_timeout""",
    "logs, traces, warnings and their language; we decide by an error's number": """
        debug debug_dbug explain_format explain_json_format_version end_markers_in_json
        lc_messages log_disabled_statements log_queries_not_using_indexes log_slow_admin_statements
        log_slow_always_query_time log_slow_disabled_statements log_slow_filter
        log_slow_max_warnings log_slow_min_examined_row_limit log_slow_query log_slow_query_time
        log_slow_rate_limit log_slow_slave_statements log_slow_verbosity log_warnings
        long_query_time max_error_count min_examined_row_limit note_verbosity
        optimizer_record_context optimizer_trace optimizer_trace_features optimizer_trace_limit
        optimizer_trace_max_mem_size optimizer_trace_offset profiling profiling_history_size
        progress_report_time slow_query_log sql_log_off sql_notes sql_warnings
        terminology_use_previous""",
    "what the server tells a client beside its rows, if the client asked": """
        redirect_url resultset_metadata session_track_gtids session_track_schema
        session_track_state_change session_track_system_variables session_track_transaction_info""",
    "read only, or of this one session's past; ours inserts nothing": """
        error_count external_user gtid_owned identity in_transaction last_gtid last_insert_id
        proxy_user statement_id warning_count""",
    "checked by itself: the clock when a session is opened, the session's id in each row": """
        pseudo_thread_id timestamp""",
    "the default collation of a literal; what we compare has a column's collation, the "
    "connection's, or is bytes": """
        character_set_collations default_collation_for_utf8mb4""",
    "functions and clauses that are never sent, and no condition can have: recursion, windows, "
    "full text, vectors, random numbers, files": """
        character_set_filesystem cte_max_recursion_depth innodb_ft_enable_stopword
        innodb_ft_user_stopword_table max_points_in_geometry max_recursive_iterations
        mhnsw_ef_search rand_seed1 rand_seed2 standard_compliant_cte
        windowing_use_high_precision""",
    "how old a replica's or a cluster's answer may be; each read records the position it is of": """
        group_replication_consistency wsrep_causal_reads wsrep_dirty_reads wsrep_sync_wait""",
    "of replication's own sessions, or of servers whose source it names": """
        default_master_connection immediate_server_version max_relay_log_size
        original_commit_timestamp original_server_version pseudo_replica_mode pseudo_slave_mode
        rbr_exec_mode require_row_format server_id skip_parallel_replication skip_replication
        sql_replica_skip_counter sql_slave_skip_counter""",
    "how types are printed that no server has made since 5.6, or without any effect": """
        max_tmp_tables multi_range_count new old show_old_temporals""",
}

HARMLESS: Final[Mapping[str, str]] = {
    name: reason for reason, names in _HARMLESS.items() for name in names.split()
}
"""The reason of every other variable, by its name."""
