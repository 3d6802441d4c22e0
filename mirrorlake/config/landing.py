"""Snapshots: where complete copies land, when one is complete, and how a table is kept by them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, model_validator

from mirrorlake.config.fields import Duration, Findings, MysqlName, Section

SnapshotFormat: TypeAlias = Literal["json", "parquet", "csv"]
SnapshotPart: TypeAlias = Literal["dq", "15m", "1d"]
CompleteWhen: TypeAlias = Literal["manifest", "marker", "settle"]
Missing: TypeAlias = Literal["kept", "removed"]
Duplicates: TypeAlias = Literal["refused", "resolved"]
Strategy: TypeAlias = Literal["auto", "diff", "rewrite", "merge"]


def _place(url: str) -> str:
    scheme, mark, rest = url.partition("://")
    if mark and scheme not in ("gs", "s3"):
        raise ValueError(f"landings are folders, gs://… or s3://…, not {scheme}://…")
    if mark and not re.fullmatch(r"[^/?#]+(/[^?#]*)?", rest):
        raise ValueError(f"a bucket is written {scheme}://bucket or {scheme}://bucket/prefix")
    return url.rstrip("/") or "/"


def _endpoint(url: str) -> str:
    if not re.fullmatch(r"https?://[^/@?#\s]+", url):
        raise ValueError("an endpoint is written http://host:port or https://host")
    return url


def _part_of_path(name: str) -> str:
    if not name or name in (".", "..") or "/" in name:
        raise ValueError("this is the name of one folder")
    return name


def _marker(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_.-][A-Za-z0-9_.-]*", text):
        raise ValueError("a marker's name is the snapshot's id and this ending, like _SUCCESS")
    return text


class LandingConfig(Section):
    """A folder or bucket in which complete copies of tables land, in place of a server."""

    url: Annotated[str, AfterValidator(_place)] = Field(min_length=1)
    """A folder (relative to this file), ``gs://bucket/prefix`` or ``s3://bucket/prefix``. It is
    only read."""
    endpoint: Annotated[str, AfterValidator(_endpoint)] | None = None
    """Another address of the store's API, like ``http://127.0.0.1:9023``. Over ``http://`` nobody
    logs in to ``gs://``."""
    cluster: Annotated[str, AfterValidator(_part_of_path)] | None = None
    """The ``<cluster>`` in its paths; the source's name by default."""


class SnapshotConfig(Section):
    """How a table is kept by its snapshots (``mode: snapshot``)."""

    format: SnapshotFormat = "json"
    """``json`` (a record a line), ``parquet`` or ``csv``; ``json`` and ``csv`` also with ``.gz`` or
    ``.zst``. It is the first folder of the path."""
    part: SnapshotPart = "dq"
    """Which folders are read: ``dq`` holds complete copies, ``15m`` and ``1d`` hold the rows
    of a period, which ``missing: removed`` refuses."""
    id_column: MysqlName | None = None
    """A column with the snapshot's id, a whole number and the same in all its rows. Without it, the
    id is the time in the path."""
    day: MysqlName | None = None
    """The column with the day of a row (a DATE): the table's partitions, and its window."""
    complete: CompleteWhen = "manifest"
    """A snapshot is complete when its ``manifest`` or its ``marker`` is there, or when its files
    did not change for the time of ``settle``."""
    marker: Annotated[str, AfterValidator(_marker)] = "_SUCCESS"
    """The marker is the file called like the snapshot's id and this."""
    settle: Duration = timedelta(minutes=5)
    """How long a snapshot's files must be seen unchanged, where ``complete`` is ``settle``."""
    late: Duration = timedelta(days=2)
    """How far before the newest snapshot one may still arrive and be taken automatically. Older
    ones are taken by ``mirrorlake land --all``."""
    max_bad_records: int = Field(default=0, ge=0)
    """How many malformed records a snapshot may have: they are left out, counted and shown. With
    one more the snapshot is refused."""
    max_record: str = Field(default="256m", pattern=r"^[1-9][0-9]{0,8}[kmg]$")
    """How long one record may be: ``64k``, ``256m``, ``1g``. A longer one ends the reading of its
    file, whatever ``max_bad_records`` says."""
    max_manifest: str = Field(default="64m", pattern=r"^[1-9][0-9]{0,8}[kmg]$")
    """How large a manifest or a schema file may be."""
    max_expansion: int = Field(default=1000, ge=1)
    """How many times its own size a compressed file, or a file of Parquet, may expand to. A file
    that stays below 64 MB always may."""
    extra_columns: Literal["refuse", "ignore"] = "refuse"
    """What happens to a column that the schema does not have: ``refuse`` or ``ignore``."""
    missing_columns: Literal["refuse", "null"] = "refuse"
    """What happens to a record that lacks a column: ``null`` reads it as NULL where the schema
    allows NULL, ``refuse`` never does."""
    csv_null: str = Field(default="\\N", max_length=64)
    """The text that means NULL in CSV where no quotes are around it."""
    missing: Missing = "kept"
    """A row that a newer snapshot lacks is ``kept`` until its day leaves the window, or
    ``removed``."""
    duplicates: Duplicates = "refused"
    """A snapshot that holds a key twice is ``refused``, or ``resolved``: one of the rows is taken,
    always the same one, and the others are counted."""
    retention_days: int | None = Field(default=None, ge=1)
    """How many days, counted back from the newest snapshot's, the table keeps. Without it: all."""
    keep_landed: Duration | None = None
    """How long a snapshot's files stay in the landing after it was published; maintenance then
    removes them, but for the newest snapshot's. Without it, they stay: a landing is only read."""
    strategy: Strategy = "auto"
    """How a snapshot is folded: ``auto`` chooses by statistics one of ``diff`` (only rows that
    differ are written), ``rewrite`` (partitions that changed are written again) and ``merge``."""
    fresh_within: Duration = timedelta(hours=1)
    """How long after its arrival a snapshot may be published before the table counts as late."""

    @model_validator(mode="after")
    def _fits(self) -> SnapshotConfig:
        found = list(self._findings())
        if found:
            raise Findings(found)
        return self

    def _findings(self) -> Iterator[tuple[str, str]]:
        if self.missing == "removed" and self.part != "dq":
            yield "missing", f"part {self.part} holds rows of a time: what it lacks is not gone"
        if self.retention_days is not None and self.day is None:
            yield "retention_days", "the window is counted in days: name the column of the day"
        if self.fresh_within < timedelta(minutes=1):
            yield "fresh_within", "freshness is looked at every minute: at least 1m"
