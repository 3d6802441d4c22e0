"""Contract files beside the session's own: same lake and ledger, other settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.integration.conftest import USER


def write_contract(
    path: Path,
    port: int,
    databases: Mapping[str, Any],
    *,
    source: Mapping[str, Any] | None = None,
    **sections: Any,
) -> Path:
    """A contract file for one source called ``s``; ``sections`` replace whole sections of it."""
    text = {
        "version": 1,
        "lake": {"warehouse": "lake"},
        "ledger": {"url": "sqlite:///ledger.db"},
        "privacy": {"hash_key": "${env:TEST_HASH_KEY}"},
        "defaults": {"verify": False},
        **sections,
        "sources": {
            "s": {
                "host": "127.0.0.1",
                "port": port,
                "user": USER,
                "password": "${env:TEST_PASSWORD}",
                **(source or {}),
                "databases": dict(databases),
            }
        },
    }
    path.write_text(yaml.safe_dump(text, allow_unicode=True), encoding="utf-8")
    return path
