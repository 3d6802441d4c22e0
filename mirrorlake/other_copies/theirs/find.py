"""What a path or URI names: one table, or several."""

from __future__ import annotations

import re
from collections.abc import Sequence
from glob import glob
from pathlib import Path

from mirrorlake.errors import ConfigError, LakeError
from mirrorlake.other_copies.theirs.bigquery import SCHEME as BIGQUERY
from mirrorlake.other_copies.theirs.bigquery import bigquery_tables
from mirrorlake.other_copies.theirs.delta import DeltaFolder, is_delta
from mirrorlake.other_copies.theirs.duckdb_file import duckdb_tables, is_duckdb
from mirrorlake.other_copies.theirs.iceberg import (
    SCHEME,
    iceberg_catalog,
    iceberg_folder,
    iceberg_metadata,
)
from mirrorlake.other_copies.theirs.parquet import SUFFIXES, ParquetTable, parquet_files
from mirrorlake.other_copies.theirs.postgres import SCHEMES, postgres_tables
from mirrorlake.other_copies.theirs.table import TheirTable

_READ = (
    "Parquet (a file, a folder, a pattern in quotes), a DuckDB file, Iceberg (a metadata file, a "
    "table's folder, iceberg://catalog/namespace), a Delta table's folder, postgresql://… or "
    "bigquery://project/dataset"
)


def find_tables(against: str, wanted: str | None = None) -> list[TheirTable]:
    """The tables that a path or URI names.

    Args:
        wanted: the table that is looked for, where one is: in a folder, its own folder or files.

    Raises:
        ConfigError: there is nothing, or nothing that can be read.
        LakeError: what is there can't be read.
    """
    if against.startswith(SCHEMES):
        return [*postgres_tables(against)]
    if against.startswith(SCHEME):
        return [*iceberg_catalog(against, wanted)]
    if against.startswith(BIGQUERY):
        return [*bigquery_tables(against)]
    against = against.removeprefix("file://")
    if re.match(r"[a-z][a-z0-9+]+://", against):
        raise ConfigError(
            f"--against {against}: that can't be read from here",
            next_step=f"Copy it to this machine, or name {_READ}",
        )
    path = Path(against).expanduser()
    if not path.exists() and any(sign in against for sign in "*?["):
        return [_pattern(str(path))]
    if not path.exists():
        raise ConfigError(
            f"--against {against}: there is no such file or folder", next_step=f"Name {_READ}"
        )
    return _folder(path, wanted) if path.is_dir() else _file(path)


def _pattern(pattern: str) -> TheirTable:
    files = [Path(one) for one in sorted(glob(pattern, recursive=True))]  # noqa: PTH207 - any root
    files = [one for one in files if one.is_file() and one.suffix.lower() in SUFFIXES]
    if not files:
        raise ConfigError(
            f"--against {pattern}: no Parquet file matches",
            next_step="Look into the folder; quoted, the pattern is not the shell's",
        )
    fixed = re.split(r"[*?\[]", pattern)[0]
    base = Path(fixed) if fixed.endswith("/") else Path(fixed).parent
    return ParquetTable(base.name, base, tuple(files))


def _file(path: Path) -> list[TheirTable]:
    if path.name.endswith(".metadata.json"):
        return [iceberg_metadata(path)]
    if is_duckdb(path):
        return [*duckdb_tables(path)]
    if path.suffix.lower() in SUFFIXES:
        return [ParquetTable(path.stem, path, (path,))]
    raise ConfigError(
        f"--against {path}: this is no file that can be compared", next_step=f"Name {_READ}"
    )


def _folder(folder: Path, wanted: str | None) -> list[TheirTable]:
    whole = _table_of(folder)
    if whole is not None and not isinstance(whole, ParquetTable):
        return [whole]
    if wanted is not None and (found := _named(folder, wanted)):
        return found
    if whole is not None and (wanted is not None or _is_one(folder, whole)):
        return [whole]
    found = [one for one in map(_table_of, _folders(folder)) if one is not None]
    found += [ParquetTable(one.stem, one, (one,)) for one in _files_in(folder)]
    if not found:
        raise ConfigError(
            f"--against {folder}: it has no table that can be read", next_step=f"Name {_READ}"
        )
    return found


def _table_of(folder: Path) -> TheirTable | None:
    """A folder as one table; None: it has none."""
    if (iceberg := iceberg_folder(folder)) is not None:
        return iceberg
    if is_delta(folder):
        return DeltaFolder(folder.name, folder)
    files = parquet_files(folder)
    return ParquetTable(folder.name, folder, tuple(files)) if files else None


def _named(folder: Path, wanted: str) -> list[TheirTable]:
    """A table by its own folder, here or one level below, or by its files' names."""
    for folders in (_folders(folder), [sub for one in _folders(folder) for sub in _folders(one)]):
        named = [one for one in folders if one.name == wanted]
        tables = [one for one in map(_table_of, named) if one is not None]
        if len(tables) > 1:
            raise LakeError(
                f"--against {folder} has several tables {wanted}: "
                f"{', '.join(one.place for one in tables)}",
                next_step="Name the one that is meant",
            )
        if tables:
            return tables
    files = _files_in(folder)
    exact = [one for one in files if one.stem == wanted]
    parts = [one for one in files if re.fullmatch(rf"{re.escape(wanted)}[-_.]?[\W\d_].*", one.stem)]
    if exact or (parts and len(parts) < len(files)):
        return [ParquetTable(wanted, folder, tuple(exact or parts))]
    return []


def _is_one(folder: Path, whole: ParquetTable) -> bool:
    """Whether a folder's files are one table's: they lie in it, or in folders of partitions."""
    within = {one.relative_to(folder).parts[0] for one in whole.files}
    return all("=" in name for name in within)


def _folders(folder: Path) -> Sequence[Path]:
    return [
        one
        for one in sorted(folder.iterdir())
        if one.is_dir() and not one.name.startswith((".", "_")) and "=" not in one.name
    ]


def _files_in(folder: Path) -> list[Path]:
    return [one for one in parquet_files(folder) if one.parent == folder]
