"""What a reader makes of published records, by their own words alone."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from mirrorlake.config import load_config
from mirrorlake.records.publish import RecordsPublished, publish_table
from mirrorlake.workspace import Workspace
from tests.integration.conftest import Place

Record = dict[str, Any]


def with_records(
    workspace: Workspace, place: Place, destinations: dict[str, Any], **contracts: dict[str, Any]
) -> Workspace:
    """The same project with destinations of records.

    Args:
        contracts: by table, what its contract says besides.
    """
    path = workspace.config.path
    text = yaml.safe_load(path.read_text("utf-8"))
    text["records"] = {"destinations": destinations}
    for source in text["sources"].values():
        for database in source["databases"].values():
            for table, more in contracts.items():
                database["tables"][table] |= more
    path.write_text(yaml.safe_dump(text, allow_unicode=True), "utf-8")
    return Workspace.open(load_config(path), spark=place.spark)


def publish(workspace: Workspace, table: str = "t", **terms: bool) -> list[RecordsPublished]:
    done, failures = publish_table(workspace, workspace.config.table(table), **terms)
    assert failures == []
    return done


def read_files(folder: Path, kind: str = "*") -> list[Record]:
    """The records of all batches that are there, as their manifests list them, in order."""
    found: list[Record] = []
    for manifest in sorted(folder.glob("json/*/*/*/binlog/*/*_manifest.json")):
        listed = json.loads(manifest.read_text("utf-8"))
        own: list[Record] = []
        for entry in listed["files"]:
            content = (manifest.parent / entry["name"]).read_bytes()
            assert len(content) == entry["bytes"]
            text = gzip.decompress(content) if entry["name"].endswith(".gz") else content
            lines = [json.loads(line) for line in text.decode().splitlines()]
            assert len(lines) == entry["records"]
            own += lines
        assert len(own) == listed["records"]
        found += own
    return found


def strays(folder: Path) -> list[str]:
    """Files beside the manifests that none of them lists."""
    every = set(folder.glob("json/*/*/*/binlog/*/*"))
    for manifest in [path for path in every if path.name.endswith("_manifest.json")]:
        listed = json.loads(manifest.read_text("utf-8"))
        every -= {manifest, *(manifest.parent / one["name"] for one in listed["files"])}
    return sorted(path.name for path in every)


def read_spool(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*.jsonl")):
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def place_of(record: Record) -> tuple[int, int]:
    return record["metadata"]["position"]["load"], record["metadata"]["position"]["event"]


def applied(records: Sequence[Record], key: Sequence[str] = ("id",)) -> dict[Any, Record]:
    """The rows that a table has after these records."""
    rows: dict[Any, Record] = {}
    last = (0, 0)
    for record in records:
        metadata, data = record["metadata"], record["data"]
        assert place_of(record) >= last
        last = place_of(record)
        match metadata["operation"]:
            case "TRUNCATE":
                assert data is None
                rows.clear()
            case "ALTER":
                assert data is None
                for row in rows.values():
                    for name, value in metadata["filled"].items():
                        row.setdefault(name, value)
            case "DELETE":
                rows.pop(tuple(data[name] for name in key), None)
            case "INSERT" | "UPDATE" | "SNAPSHOT":
                rows[tuple(data[name] for name in key)] = dict(data)
            case other:
                raise AssertionError(other)
    return rows
