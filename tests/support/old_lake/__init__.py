"""A lake, a ledger and a server's data as an earlier release left them, and how they were made.

What belongs here: the archives, `make.py` which makes one, and what both it and the test that opens
it must agree on. What doesn't: the test itself (`tests/integration/repository/test_old_lake.py`).
"""

from __future__ import annotations

from pathlib import Path

ARCHIVE = Path(__file__).parent / "0.1-3e5e3b9.tar.xz"
"""Made by commit 3e5e3b9, the last one before a run's context became a workspace."""
PLACE = Path("/tmp/mirrorlake-old-lake")  # noqa: S108 - Iceberg's metadata hold absolute paths
"""Where it was made, and has to be unpacked."""
DATABASE = "old_shop"
USER, PASSWORD = "mirror", "secret-of-a-test"
HASH_KEY = "a key for the tests, sixteen or more"
ENVIRONMENT = {"OLD_PASSWORD": PASSWORD, "OLD_HASH_KEY": HASH_KEY}


def contract(port: int) -> str:
    """The contract that the lake was made by; the server's port is another in each run."""
    return f"""
version: 1
lake: {{warehouse: lake}}
ledger: {{url: "sqlite:///ledger.db"}}
privacy: {{hash_key: "${{env:OLD_HASH_KEY}}"}}
spark: {{master: "local[1]"}}
sources:
  files:
    landing: {{url: landing}}
    databases:
      shop:
        tables:
          prices: {{mode: snapshot, key: [id]}}
  s:
    host: 127.0.0.1
    port: {port}
    user: {USER}
    password: "${{env:OLD_PASSWORD}}"
    databases:
      {DATABASE}:
        tables:
          customers:
            mode: incremental
            key: [id]
            cursor: modified_at
            start: 2026-01-01
            clean: table
            deletes: flag
            columns: {{email: {{pii: hash}}, card: {{pci: never}}}}
          codes: {{mode: incremental, key: [code], cursor: modified_at, start: 2026-01-01}}
          events: {{mode: append, key: [id], cursor: id}}
          rates: {{mode: full}}
"""
