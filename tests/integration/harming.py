"""Files of a lake table, by what they are for, and the ways in which they are lost."""

from __future__ import annotations

from pathlib import Path

from pyiceberg.table import Table

from mirrorlake.destinations.iceberg.storage.durable import local_path

KINDS = ("metadata", "list", "manifest", "data", "deletes")
HOW = ("missing", "empty", "cut", "zeros")


def files_of(table: Table) -> dict[str, Path]:
    """A file of each kind that is needed to read a table; ``deletes`` where it has any."""
    head = table.current_snapshot()
    assert head is not None
    found = {"metadata": table.metadata_location, "list": head.manifest_list}
    for manifest in head.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            kind = "deletes" if int(entry.data_file.content) else "data"
            found[kind] = entry.data_file.file_path
            found["manifest"] = manifest.manifest_path
    return {kind: path for kind, text in found.items() if (path := local_path(text)) is not None}


def harm(path: Path, how: str) -> None:
    """As a power cut leaves files that were not flushed, or as a hand does."""
    content = path.read_bytes()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    if how == "missing":
        path.unlink()
    else:
        rest = {"empty": b"", "cut": content[: len(content) // 2], "zeros": b"\0" * len(content)}
        path.write_bytes(rest[how])
