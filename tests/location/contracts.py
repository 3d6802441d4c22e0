"""The contract files of the location's tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

USER = "mirror"
PASSWORD = "p@ss w/örd%"

SMALL: dict[str, Any] = {
    "shop": {
        "tables": {
            "orders": {
                "mode": "incremental",
                "key": ["id"],
                "cursor": "modified_at",
                "start": "2024-05-01",
                "freshness": {"warn_after": "1h", "fail_after": "2h"},
                "owners": ["team:shop"],
                "columns": {"email": {"pii": "mask"}, "card": {"pci": "never"}},
            },
            "kinds": {"mode": "full", "key": ["id"]},
            "log": {"mode": "full", "freshness": None},
        }
    }
}


def write_contracts(folder: Path, port: int, databases: dict[str, Any]) -> Path:
    """A mirrorlake.yaml in ``folder`` for one source ``s``."""
    text = {
        "version": 1,
        "lake": {"warehouse": "lake"},
        "ledger": {"url": "sqlite:///ledger.db", "wait": "4s"},
        "defaults": {"verify": False},
        "sources": {
            "s": {
                "host": "127.0.0.1",
                "port": port,
                "user": USER,
                "password": "${env:TEST_PASSWORD}",
                "every": "0s",  # ticks follow each other at once
                "databases": databases,
            }
        },
    }
    path = folder / "mirrorlake.yaml"
    path.write_text(yaml.safe_dump(text, allow_unicode=True), encoding="utf-8")
    return path
