"""A load means what its contract meant then: what changes under a history refuses, or reads again,
and no fold reaches behind it."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable
from typing import Any

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.hash_key import record_hash_key
from mirrorlake.lake.catalog import Identifier
from mirrorlake.refold import refold_table
from mirrorlake.sync import Engine
from tests.integration.conftest import HASH_KEY, lake_rows

PEOPLE = "(id INT PRIMARY KEY, mail VARCHAR(40), m TIMESTAMP(6) NOT NULL, KEY (m))"
INCREMENTAL = {"mode": "incremental", "key": ["id"], "cursor": "m"}
HASHED = {**INCREMENTAL, "clean": "table", "columns": {"mail": {"pii": "hash"}}}
OTHER_KEY = "another key for the tests, sixteen or more"


def test_another_hash_key_is_refused_until_the_clean_table_is_rewritten(
    sql: Callable[..., Any],
    engine_for: Callable[..., Engine],
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sql(f"CREATE TABLE p {PEOPLE}", "INSERT INTO p VALUES (1, 'a@b.c', NOW(6))")
    engine = engine_for({"p": HASHED})
    [contract] = engine.config.tables
    engine.sync(contract)
    sql("INSERT INTO p VALUES (2, 'a@b.c', NOW(6))")

    monkeypatch.setitem(os.environ, "TEST_HASH_KEY", OTHER_KEY)
    engine = engine_for({"p": HASHED})
    for run in (engine.sync, engine.fold, lambda c: refold_table(engine, c)):
        with pytest.raises(ConfigError, match="mirrorlake rekey") as caught:
            run(contract)
        assert OTHER_KEY not in str(caught.value)
        assert HASH_KEY not in str(caught.value)
    clean = Identifier(f"s_{database}__clean", "p")
    assert len(lake_rows(engine, clean.namespace, "p")) == 1

    key = engine.config.privacy.hash_key
    assert key is not None
    record_hash_key(engine.ledger, clean, key)
    refold_table(engine, contract)
    engine.sync(contract)
    wanted = hmac.new(OTHER_KEY.encode(), b"a@b.c", hashlib.sha256).hexdigest()
    rows = lake_rows(engine, clean.namespace, "p")
    assert [row["mail"] for row in rows] == [wanted, wanted]

    # Where nothing is hashed, the key may change.
    shown = {**HASHED, "columns": {"mail": {"pii": "mask"}}}
    engine_for({"p": shown}).sync(engine_for({"p": shown}).config.tables[0])
    monkeypatch.setitem(os.environ, "TEST_HASH_KEY", HASH_KEY)
    engine = engine_for({"p": HASHED})
    engine.sync(engine.config.tables[0])
    wanted = hmac.new(HASH_KEY.encode(), b"a@b.c", hashlib.sha256).hexdigest()
    rows = lake_rows(engine, clean.namespace, "p")
    assert [row["mail"] for row in rows] == [wanted, wanted]
