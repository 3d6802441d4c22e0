"""A ledger with a long history of invented tables, written row by row: what a mirror of months has,
without a server. Times are given, which the ledger itself takes from its clock."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import yaml

from mirrorlake.config import Config, load_config
from mirrorlake.ledger import Ledger, Receipt
from mirrorlake.ledger.tables import COSTS, FOLDS, LEASES, LOADS, PROOFS, REPAIRS, UNPROVED, WINDOWS

RECEIPT = Receipt(1, 1, 1, "0" * 64, "", None, "server", "0-1-7", 0, 0, 0.5)
DAY = timedelta(days=1)


@dataclass
class RecordedMirror:
    """A contract file with tables, and the rows of its ledger, which `write` puts there."""

    folder: Path
    tables: dict[str, dict[str, Any]]
    seq: int = 0
    rows: dict[sa.Table, list[dict[str, Any]]] = field(default_factory=dict)

    def config(self) -> Config:
        source = {"host": "127.0.0.1", "port": 1, "user": "u", "password": "${env:UNSET_HERE}"}
        text = {
            "version": 1,
            "lake": {"warehouse": "lake"},
            "ledger": {"url": "sqlite:///ledger.db"},
            "sources": {"shop": {**source, "databases": {"shop": {"tables": self.tables}}}},
        }
        path = self.folder / "mirrorlake.yaml"
        path.write_text(yaml.safe_dump(text, sort_keys=False, allow_unicode=True), "utf-8")
        return load_config(path, secrets="when used")

    def add(self, table: sa.Table, **row: Any) -> None:
        self.rows.setdefault(table, []).append(row)

    def lease(self, name: str) -> None:
        now = datetime.now(UTC).replace(tzinfo=None)
        self.add(LEASES, table_name=name, token=1, owner="", expires_at=now)

    def load(
        self,
        name: str,
        at: datetime,
        kind: str = "live",
        *,
        lo: str | None = None,
        hi: str | None = None,
        rows: int = 1,
        bytes: int = 1000,
        error: str | None = None,
        seconds: float = 20.0,
        lag: float = 45.0,
        folded: bool = True,
        **receipt: Any,
    ) -> int:
        """One attempt of one load, which ended at a moment (UTC)."""
        self.seq += 1
        at = at.replace(tzinfo=None)
        load_id = uuid.uuid4().hex
        state = "errored" if error else "success"
        began = at - timedelta(seconds=seconds)
        self.add(
            WINDOWS,
            **{"load_id": load_id, "table_name": name, "kind": kind, "lo": lo, "hi": hi},
            **{"day": at.date(), "state": state, "created_at": began},
        )
        moment = (at - timedelta(seconds=lag)).isoformat(sep=" ")
        said = Receipt(
            **{**vars(RECEIPT), "rows": rows, "bytes": bytes, "moment": moment} | receipt
        )
        self.add(
            LOADS,
            **{"seq": self.seq, "load_id": load_id, "attempt": 1, "table_name": name},
            **{"state": state, "run_id": "r", "token": 1, "raw_table": "t_v_1"},
            **{"started_at": began, "finished_at": at, "error": error},
            receipt=None if error else said.to_json(),
        )
        if folded and not error:
            for layer in ("deduped", "clean"):
                self.add(FOLDS, table_name=name, layer=layer, seq=self.seq, folded_at=at)
            self.add(
                COSTS,
                **{"table_name": name, "step": "deduped", "seq": self.seq, "recorded_at": at},
                **{"scanned": 4 * bytes, "written": bytes, "seconds": 3.0},
            )
        return self.seq

    def proof(
        self,
        name: str,
        at: datetime,
        verdict: str = "equal",
        *,
        asked: str = "full",
        lo: str | None = None,
        hi: str | None = None,
        rows: int = 1000,
        differences: int = 0,
        through: int | None = None,
        before: date | None = None,
        first: date | None = None,
        day: date | None = None,
        evidence: str = "",
    ) -> str:
        """A check of one range."""
        check = uuid.uuid4().hex
        at = at.replace(tzinfo=None)
        self.add(
            PROOFS,
            **{"check_id": check, "table_name": name, "asked": asked, "lo": lo, "hi": hi},
            **{"verdict": verdict, "source_rows": rows, "lake_rows": rows, "waiting": 0},
            **{"source_digest": "a", "lake_digest": "a", "differences": differences},
            **{"server": "server", "position": "0-1-7", "source_time": at, "snapshot_id": 1},
            through_seq=self.seq if through is None else through,
            **{"code": "1", "started_at": at, "seconds": 4.2, "source_bytes": 61_000},
            **{"evidence": evidence, "day": day, "days_from": first, "days_before": before},
        )
        return check

    def repair(self, name: str, at: datetime, outcome: str, keys: int, evidence: str = "") -> None:
        at = at.replace(tzinfo=None)
        empty = json.dumps([])
        self.add(
            REPAIRS,
            **{"repair_id": uuid.uuid4().hex, "table_name": name, "asked": "full"},
            **{"why": f"{keys} changed", "key_count": keys, "digests": empty, "load_ids": empty},
            **{"before_repair": "{}", "after_repair": "{}", "code": "1", "outcome": outcome},
            **{"started_at": at, "finished_at": at + timedelta(seconds=9)},
            evidence=json.dumps([evidence] if evidence else []),
        )

    def mark(self, name: str, at: datetime, reason: str) -> None:
        row = {"table_name": name, "server": "server", "reason": reason, "seq": self.seq}
        self.add(UNPROVED, **row, marked_at=at.replace(tzinfo=None))

    def write(self) -> tuple[Config, Ledger]:
        """Put it all into the ledger."""
        config = self.config()
        ledger = Ledger(config.ledger.url)
        with ledger.database.begin() as connection:
            for table in (LEASES, WINDOWS, LOADS, FOLDS, COSTS, PROOFS, REPAIRS, UNPROVED):
                if self.rows.get(table):
                    connection.execute(table.insert(), self.rows[table])
        return config, ledger


def at(day: date, hour: int = 6, minute: int = 0) -> datetime:
    """A moment (UTC) of a day."""
    return datetime.combine(day, time(hour, minute), UTC)


def windows(mirror: RecordedMirror, name: str, first: date, last: date, rows: int = 500) -> None:
    """A first load, and one window a day from then on."""
    mirror.lease(name)
    mirror.load(
        name, at(first), "initial", lo=None, hi=str(first), rows=40 * rows, bytes=400 * rows
    )
    day = first
    while (day := day + DAY) <= last:
        size = rows * (3 if day.weekday() < 5 else 1) + (day.toordinal() * 7919) % rows
        bounds = {"lo": str(day - DAY), "hi": str(day)}
        lag = 30.0 + (day.toordinal() * 37) % 60
        mirror.load(name, at(day), **bounds, rows=size, bytes=40 * size, lag=lag)
