"""What a file means once it is loaded."""

from __future__ import annotations

import pickle
from datetime import date, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrorlake.config import (
    Config,
    LedgerConfig,
    TlsConfig,
    default_namespaces,
    format_duration,
    load_config,
    parse_duration,
)
from mirrorlake.errors import ConfigError

SECRET = "hunter2-and-more-than-16"
ENVIRON = {"SHOP_PASSWORD": SECRET, "HASH_KEY": "k" * 32, "ODD": "p@ss/w:rd?%"}
WHOLE = """
version: 1
lake:
  warehouse: lake dir/ünï
  catalog: {uri: "sqlite:///cat.db?timeout=5", wait: 2s, properties: {s3.key: "${env:ODD}", n: 1}}
ledger: {url: "sqlite:///state/ledger.db", wait: 1m}
spark: {master: "local[1]", connect: "sc://h:1", driver_memory: 1g, conf: {spark.ui.enabled: false}}
privacy: {hash_key: "${env:HASH_KEY}"}
defaults: {start: 2020-01-01, overlap: 1h, overlap_keys: 5, settle: 2h, clean: table}
sources:
  shop:
    host: db.example.com
    port: 3307
    user: mirror
    password: ${env:SHOP_PASSWORD}
    tls: {ca: ca.pem}
    time_zone: Europe/Berlin
    connections: 4
    databases:
      shop:
        namespaces: {raw: r, clean: c}
        tables:
          orders:
            mode: incremental
            key: [id, no]
            cursor: modified_at
            overlap: 1m
            overlap_keys: 7
            settle: 1s
            start: null
            clean: view
            columns:
              e: {pii: null}
              card_number: {pci: never}
          events: {mode: append, cursor: id, created: created_at}
          kinds: {mode: full}
"""


def load(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> Config:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(text, encoding="utf-8")
    found = ENVIRON if environ is None else environ
    return load_config(path, environ=found, today=date(2026, 1, 31))


def one_source(inside: str = "", **other: str) -> str:
    parts = {"host": "127.0.0.1", "user": "mirror", **other}
    lines = "".join(f"    {name}: {value}\n" for name, value in parts.items())
    return f"version: 1\nsources:\n  shop:\n{lines}{inside}"


def test_every_setting_arrives(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    orders = config.table("orders")
    assert (orders.mode, orders.key, orders.cursor) == ("incremental", ("id", "no"), "modified_at")
    assert (orders.overlap, orders.overlap_keys) == (timedelta(minutes=1), 7)
    assert (orders.settle, orders.clean, orders.start) == (timedelta(seconds=1), "view", None)
    assert orders.namespaces.model_dump() == {"raw": "r", "deduped": "shop_shop", "clean": "c"}
    assert orders.rules == {"e": "null"}
    assert orders.excluded == {"card_number"}
    source = config.sources["shop"]
    assert (source.host, source.port, source.user) == ("db.example.com", 3307, "mirror")
    assert source.password.get_secret_value() == SECRET
    assert source.tls == TlsConfig(ca=str(tmp_path / "ca.pem"))
    assert (source.zone, source.connections) == (ZoneInfo("Europe/Berlin"), 4)
    assert config.spark.conf == {"spark.ui.enabled": "false"}
    assert (config.spark.master, config.spark.connect) == ("local[1]", "sc://h:1")
    assert config.lake.catalog.properties == {"s3.key": ENVIRON["ODD"], "n": "1"}


def test_defaults_fill_what_a_table_leaves_out(tmp_path: Path) -> None:
    events = load(tmp_path, WHOLE).table("events")
    assert (events.start, events.overlap) == (date(2020, 1, 1), timedelta(hours=1))
    assert (events.overlap_keys, events.settle) == (5, timedelta(hours=2))
    assert (events.clean, events.created, events.key) == ("table", "created_at", ())


def test_freshness_and_owners_have_defaults_that_a_table_replaces(tmp_path: Path) -> None:
    contracts = """
    databases:
      d:
        tables:
          a: {mode: full}
          b: {mode: full, freshness: null, owners: []}
          c: {mode: full, freshness: {fail_after: 2h}, owners: [me@example.com]}
"""
    config = load(tmp_path, "defaults: {owners: [team:x]}\n" + one_source() + contracts)
    a, b, c = config.tables
    assert a.freshness is not None
    assert (a.freshness.warn_after, a.freshness.fail_after) == (
        timedelta(hours=26),
        timedelta(hours=50),
    )
    assert (a.owners, b.owners, c.owners) == (("team:x",), (), ("me@example.com",))
    assert b.freshness is None
    assert c.freshness is not None
    assert (c.freshness.warn_after, c.freshness.fail_after) == (None, timedelta(hours=2))


def test_a_shrink_limit_of_a_tables_own(tmp_path: Path) -> None:
    contracts = """
    databases:
      d:
        tables:
          a: {mode: full}
          b: {mode: full, shrink_limit: null}
          c: {mode: full, shrink_limit: 1}
"""
    limits = [t.shrink_limit for t in load(tmp_path, one_source() + contracts).tables]
    assert limits == [0.9, None, 1.0]
    config = load(tmp_path, "defaults: {shrink_limit: 0.5}\n" + one_source() + contracts)
    assert [t.shrink_limit for t in config.tables] == [0.5, None, 1.0]


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(tmp_path, WHOLE)
    assert config.lake.warehouse == str(tmp_path / "lake dir/ünï")
    assert config.lake.catalog.uri == f"sqlite:///{tmp_path}/cat.db?timeout=5"
    assert config.ledger.url == f"sqlite:///{tmp_path}/state/ledger.db"
    monkeypatch.chdir(tmp_path)
    relative = load_config(Path("mirrorlake.yaml"), environ=ENVIRON, today=date(2026, 1, 31))
    assert relative.lake == config.lake


def test_without_settings_everything_is_beside_the_file(tmp_path: Path) -> None:
    config = load(tmp_path, one_source())
    assert config.lake.warehouse == str(tmp_path / ".mirrorlake/lake")
    assert config.ledger.url == f"sqlite:///{tmp_path}/.mirrorlake/ledger.db"
    assert config.lake.catalog.uri is None
    assert config.tables == ()
    assert config.sources["shop"].password.get_secret_value() == ""


def test_a_uri_stays_a_uri(tmp_path: Path) -> None:
    config = load(tmp_path, "lake: {warehouse: s3://bucket/lake}\n" + one_source())
    assert config.lake.warehouse == "s3://bucket/lake"
    assert load(tmp_path, "ledger: {url: postgresql://h/db}\n" + one_source()).ledger.url == (
        "postgresql://h/db"
    )


@pytest.mark.parametrize(
    ("host", "written", "expected"),
    [
        ("127.0.0.1", None, "off"),
        ("localhost", None, "off"),
        ('"::1"', None, "off"),
        ("db", None, "required"),
        ("10.0.0.1", None, "required"),
        ("db", "off", "off"),
        ("127.0.0.1", "required", "required"),
    ],
)
def test_tls(tmp_path: Path, host: str, written: str | None, expected: str) -> None:
    text = one_source(host=host, **({"tls": written} if written else {}))
    assert load(tmp_path, text).sources["shop"].tls == expected


def test_a_replica_is_what_is_read(tmp_path: Path) -> None:
    """Its own host, account and TLS; all else is the source's, and the primary stays beside it."""
    replica = "    replica: mysql://reader:${env:ODD}@r.example.com:3310?ca=r.pem\n"
    text = WHOLE.replace("    connections: 4\n", f"    connections: 4\n{replica}")
    config = load(tmp_path, text)
    source = config.sources["shop"]
    assert (source.name, source.host, source.port) == ("shop", "r.example.com", 3310)
    assert (source.user, source.password.get_secret_value()) == ("reader", ENVIRON["ODD"])
    assert source.tls == TlsConfig(ca=str(tmp_path / "r.pem"))
    assert (source.time_zone, source.connections) == ("Europe/Berlin", 4)
    assert source.primary is not None
    assert (source.primary.host, source.primary.user) == ("db.example.com", "mirror")
    assert (source.primary.password.get_secret_value(), source.primary.primary) == (SECRET, None)
    assert ENVIRON["ODD"] not in f"{config!r} {config.model_dump_json()}"


def test_limits_of_a_source(tmp_path: Path) -> None:
    limits = "    rows_per_second: 5\n    statement_seconds: null\n"
    off = "    back_off: {threads_running: null, replica_lag: 90s, wait: 1s}\n"
    given = load(tmp_path, one_source(limits + off)).sources["shop"]
    assert (given.rows_per_second, given.statement_seconds) == (5, None)
    assert (given.back_off.threads_running, given.back_off.history_list) == (None, 1_000_000)
    assert given.back_off.replica_lag == timedelta(seconds=90)
    usual = load(tmp_path, one_source()).sources["shop"]
    assert (usual.rows_per_second, usual.statement_seconds, usual.connections) == (None, 3600, 2)


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    text = WHOLE.replace(
        "sqlite:///state/ledger.db", "postgresql://u:${env:ODD}@h/db?sslpassword=${env:ODD}"
    ).replace("spark.ui.enabled: false", 'spark.ui.enabled: "${env:SHOP_PASSWORD}"')
    config = load(tmp_path, text)
    assert config.ledger.url == "postgresql://u:p%40ss%2Fw%3Ard%3F%25@h/db?sslpassword=p@ss/w:rd?%"
    shown = [repr(config), str(config), str(config.model_dump()), config.model_dump_json()]
    shown += [repr(config.ledger), repr(config.sources), str(config.lake.model_dump())]
    for text in shown:
        for secret in (SECRET, "p@ss", "p%40ss", "k" * 32):
            assert secret not in text


def test_a_whole_url_may_come_from_the_environment(tmp_path: Path) -> None:
    text = 'ledger: {url: "${env:URL}"}\n' + one_source()
    config = load(tmp_path, text, {"URL": "postgresql://u:p%40@h/db"})
    assert config.ledger.url == "postgresql://u:p%40@h/db"
    assert "p%40" not in repr(config)
    assert repr(config.ledger).startswith("LedgerConfig(url='postgresql://u:***@h/db'")


def test_an_url_without_a_scheme_is_hidden_whole() -> None:
    assert "secret" not in repr(LedgerConfig.model_construct(url="secret"))


def test_the_process_environment_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(one_source(password="${env:MIRRORLAKE_TEST_PASSWORD}"))
    monkeypatch.setenv("MIRRORLAKE_TEST_PASSWORD", SECRET)
    assert load_config(path).sources["shop"].password.get_secret_value() == SECRET


def test_a_config_survives_pickle(tmp_path: Path) -> None:
    config = load(tmp_path, WHOLE)
    assert pickle.loads(pickle.dumps(config)) == config  # noqa: S301


def test_words_that_yaml_would_change_stay_words(tmp_path: Path) -> None:
    tables = """    databases:
      on:
        tables:
          2020: {mode: incremental, key: [no, 1:30, 0x10, yes], cursor: 2020-01-01}
          null: {mode: full, key: ["null"]}
"""
    config = load(tmp_path, one_source(tables))
    assert [t.name for t in config.tables] == ["shop.on.2020", "shop.on.null"]
    assert config.table("2020").key == ("no", "1:30", "0x10", "yes")
    assert config.table("2020").cursor == "2020-01-01"
    assert config.table("null").key == ("null",)


def test_anchors_and_merges(tmp_path: Path) -> None:
    tables = """    databases:
      shop:
        tables:
          a: &log {mode: append, key: [id], cursor: id}
          b: {<<: *log, cursor: other}
          c: {<<: [*log], overlap_keys: 3}
"""
    config = load(tmp_path, one_source(tables))
    assert (config.table("b").cursor, config.table("b").key) == ("other", ("id",))
    assert (config.table("c").cursor, config.table("c").overlap_keys) == ("id", 3)


def test_tables_are_found_by_any_unique_spelling(tmp_path: Path) -> None:
    tables = """    databases:
      a: {tables: {orders: {mode: full}, x: {mode: full}}}
      b: {tables: {orders: {mode: full}}}
"""
    config = load(tmp_path, one_source(tables))
    assert config.table("x") is config.table("a.x")
    assert config.table("shop.a.x") is config.table("x")
    assert config.table("b.orders").database == "b"
    with pytest.raises(ConfigError, match=r"can mean 2 tables .*shop\.a\.orders, shop\.b\.orders"):
        config.table("orders")
    with pytest.raises(ConfigError, match=r"no table 'a\.ordrs' .*did you mean 'a\.orders'\?"):
        config.table("a.ordrs")


def test_patterns_choose_tables_by_any_spelling(tmp_path: Path) -> None:
    tables = """    databases:
      a: {tables: {orders: {mode: full}, order_items: {mode: full}, x: {mode: full}}}
      b: {tables: {orders: {mode: full}}}
"""
    config = load(tmp_path, one_source(tables))

    def chosen(*names: str) -> list[str]:
        of_tables, tenants = config.split(names)
        assert not tenants
        assert tuple(config.chosen(names)) == of_tables
        return [table.name.removeprefix("shop.") for table in of_tables]

    assert chosen("shop.*") == ["a.order_items", "a.orders", "a.x", "b.orders"]
    assert chosen("order*") == ["a.order_items", "a.orders", "b.orders"]
    assert chosen("a.?") == ["a.x"]
    assert chosen("*.orders", "a.order[s_]*") == ["a.orders", "b.orders", "a.order_items"]
    assert config.named(["x", "*.x"]) == ["x", "shop.a.x"]
    with pytest.raises(ConfigError, match=r"is called like 'c\.\*'.*Quote a pattern"):
        config.split(["c.*"])


def test_column_names_are_one_name_in_any_case(tmp_path: Path) -> None:
    orders = load(tmp_path, WHOLE).table("orders")
    rule = orders.column_rule("Card_NUMBER")
    assert rule is not None
    assert rule.pci == "never"
    assert orders.column_rule("id") is None


def test_default_namespaces_hold_only_what_every_engine_allows() -> None:
    found = default_namespaces("s", "my db.ü😀")
    assert found.deduped == "s_my_db___"
    assert (found.raw, found.clean) == ("s_my_db_____raw", "s_my_db_____clean")


def test_databases_may_agree_on_a_namespace(tmp_path: Path) -> None:
    tables = """    databases:
      a: {namespaces: {deduped: both}, tables: {x: {mode: full}}}
      b: {namespaces: {deduped: both}, tables: {y: {mode: full}}}
"""
    config = load(tmp_path, one_source(tables))
    assert {t.namespaces.deduped for t in config.tables} == {"both"}


@given(st.integers(min_value=0, max_value=10**9))
def test_durations_are_read_back(seconds: int) -> None:
    length = timedelta(seconds=seconds)
    assert parse_duration(format_duration(length)) == length


@pytest.mark.parametrize(
    "text", ["", "30", "m", "1h 30m", "-1h", "1.5h", "30m1h", "٣m", "9999999999d"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"duration|longer"):
        parse_duration(text)


def test_what_lands_is_apart_from_what_is_asked(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text(
        "version: 1\nsources:\n"
        "  s: {host: h, user: u, databases: {d: {tables: {t: {mode: full}}}}}\n"
        "  feed:\n    landing: {url: landed here, cluster: main}\n    databases:\n      d:\n"
        "        tables: {prices: {mode: snapshot, key: [id], snapshot: {day: on, retention_days: 9}}}\n"
    )
    config = load_config(path)
    assert list(config.sources) == ["s"]
    assert [contract.name for contract in config.tables] == ["s.d.t"]
    landing = config.landings["feed"]
    assert (landing.url, landing.cluster) == (str(tmp_path / "landed here"), "main")
    prices = config.snapshot_table("prices")
    assert prices.snapshot is not None
    assert (prices.snapshot.day, prices.snapshot.retention_days) == ("on", 9)
    with pytest.raises(ConfigError, match=r"prices.*kept by snapshots.*mirrorlake land"):
        config.table("prices")
    with pytest.raises(ConfigError, match=r"no table 'price' in .*did you mean 'prices'"):
        config.snapshot_table("price")


def test_a_secret_that_is_not_set_is_an_error_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "mirrorlake.yaml"
    path.write_text(
        "version: 1\n"
        "privacy: {hash_key: '${env:UNSET_KEY}'}\n"
        "sources:\n"
        "  shop:\n"
        "    host: h\n"
        "    user: u\n"
        "    password: ${env:UNSET_SHOP}\n"
        "    replica: mysql://u:${env:UNSET_REPLICA}@r\n"
        "    databases: {d: {tables: {t: {mode: full, clean: table, columns: {c: {pii: hash}}}}}}\n"
        "  open: {host: h, user: u, databases: {d: {tables: {t: {mode: full}}}}}\n"
    )
    with pytest.raises(ConfigError, match="has 3 problems"):
        load_config(path, environ={})
    config = load_config(path, environ={}, secrets="when used")
    config.require_secrets([config.table("open.d.t")])
    with pytest.raises(ConfigError) as refused:
        config.require_secrets(config.tables)
    said = str(refused.value)
    assert f"{path}:7:15: sources.shop.password: the environment variable UNSET_SHOP" in said
    assert "sources.shop.replica: the environment variable UNSET_REPLICA is not set" in said
    assert f"{path}:2:21: privacy.hash_key: the environment variable UNSET_KEY is not" in said
    with pytest.raises(ConfigError, match="UNSET_REPLICA is not set"):
        config.sources["shop"].password.get_secret_value()
    assert "UNSET" not in str(config.sources["shop"].password)


def test_a_question_ends_without_a_full_stop() -> None:
    assert (
        str(ConfigError("did you mean 'x'?", next_step="Write it")) == "did you mean 'x'? Write it"
    )
