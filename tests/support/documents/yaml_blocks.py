"""YAML of the documents, each read by what reads such a file: which, its first keys say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from mirrorlake.config import config_schema, load_config
from mirrorlake.models.files.declaration import read_declaration
from mirrorlake.models.files.external_table import read_external
from mirrorlake.permissions.permissions_file import load_permissions

DAGSTER = {"type", "load_from", "storage", "sensors", "run_monitoring"}
"""First keys of files that Dagster reads."""
MODEL = {"expect", "tests"}
SECRETS = {
    "ALERTS_SLACK": "https://hooks.example.com/a",
    "ALERTS_PAGERDUTY": "pagerduty://a@b",
    "ALERTS_TEAMS": "workflows://example.com/a/b",
}
"""Variables that hold an address."""
_TABLE = {"mode": "binlog", "key": ["id"]}
_SERVER = {"host": "db.example.com", "user": "mirror", "password": "${env:A_PASSWORD}"}
_BIGQUERY = {"project": "my-project", "location": "EU", "bucket": "my-bucket"}


def read_yaml(text: str, folder: Path) -> None:
    """Read it as the file that it is, or is a part of.

    Raises:
        MirrorlakeError: it is none.
    """
    if text.startswith("---"):
        _read_model(text.strip() + "\nSELECT 1 AS one\n", folder)
        return
    first = next(iter(yaml.safe_load(text)))
    for keys, read in _READERS.items():
        if first in keys:
            read(text, folder)
            return
    read_contract(text, folder)


def read_contract(text: str, folder: Path) -> None:
    """The contract file, or some of it: what is missing around it is put there."""
    part: dict[str, Any] = yaml.safe_load(text)
    if part.keys() <= config_schema()["properties"].keys():
        whole = part
    elif part.keys() == {"columns"}:
        whole = _around({"orders": {**_TABLE, **part}})
    else:
        tables = part.get("tables", part)
        # A model's JSON, or a mistake, is no table: the reader says so.
        whole = _around(tables)
    whole = {"version": 1, "privacy": {"hash_key": "${env:A_KEY}"}, **whole}
    if "sources" not in whole:
        whole |= _around({"orders": _TABLE})
    for name in (name for group in part.get("tenants", {}).values() for name in group["sources"]):
        whole["sources"].setdefault(name, {**_SERVER})
    if "bigquery:" in text or "publish:" in text:
        whole = {"bigquery": _BIGQUERY, "defaults": {"publish": ["lake", "bigquery"]}, **whole}
    for source in whole["sources"].values():
        source.setdefault("databases", {"shop": {"tables": {"orders": _TABLE}}})
    path = folder / "mirrorlake.yaml"
    written = yaml.safe_dump(whole, sort_keys=False)
    path.write_text(written, "utf-8")
    names = re.findall(r"\$\{env:(\w+)\}", written)
    load_config(path, environ={name: SECRETS.get(name, "x" * 32) for name in names})


def _around(tables: Mapping[str, Any]) -> dict[str, Any]:
    return {"sources": {"shop": {**_SERVER, "databases": {"shop": {"tables": tables}}}}}


def _read_permissions(text: str, folder: Path) -> None:
    path = folder / "permissions.yaml"
    path.write_text(text, "utf-8")
    load_permissions(path, "my-project")


def _read_external(text: str, folder: Path) -> None:
    path = folder / "models" / "partner" / "prices.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    read_external(path)


def _read_header(text: str, folder: Path) -> None:
    _read_model(f"---\n{text}---\nSELECT 1 AS one\n", folder)


def _read_model(text: str, folder: Path) -> None:
    path = folder / "models" / "sales" / "daily.sql"
    path.parent.mkdir(parents=True)
    path.write_text(text, "utf-8")
    read_declaration(path, folder / "models").parsed()


def read_model_sql(text: str, folder: Path) -> None:
    """A model's file."""
    _read_model(text, folder)


_READERS: Mapping[frozenset[str], Callable[[str, Path], None]] = {
    frozenset({"sets", "datasets"}): _read_permissions,
    frozenset({"description", "format"}): _read_external,
    frozenset(MODEL): _read_header,
}
