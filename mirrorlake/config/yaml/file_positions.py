"""Where in the contract file a name stands: for errors that only the server can reveal."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path as FilePath

from mirrorlake.config.yaml.yaml_file import Path, Plain, YamlFile


def place_of(file: FilePath, table: tuple[str, str, str], name: str | None) -> str | None:
    """``file:line:column`` where the contract of a table (source, database, table) first writes
    ``name``, as a value or as a key, whatever its case, or where it begins, without a name; None
    where it does not, or the file has changed too much to tell."""
    with suppress(OSError, UnicodeDecodeError):
        read = YamlFile(file.read_bytes().decode("utf-8-sig"))
        source, database, bare = table
        path: Path = ("sources", source, "databases", database, "tables", bare)
        contract = _at(read.root, path)
        if name is None:
            found = None if contract is None else (path, True)
        else:
            found = _find(contract, path, name.lower())
        if found is not None:
            where, is_key = found
            problem = read.problem(where, "", at_key=is_key)
            return f"{file}:{problem.line}:{problem.column}"
    return None


def lines_of(file: FilePath) -> dict[tuple[str, str, str], int]:
    """The line on which each table's contract (source, database, table) begins; empty where the
    file can't be read any more."""
    found: dict[tuple[str, str, str], int] = {}
    with suppress(OSError, UnicodeDecodeError):
        read = YamlFile(file.read_bytes().decode("utf-8-sig"))
        for source in _names(read.root, ("sources",)):
            for database in _names(read.root, ("sources", source, "databases")):
                path: Path = ("sources", source, "databases", database, "tables")
                for table in _names(read.root, path):
                    place = read.problem((*path, table), "", at_key=True)
                    found[source, database, table] = place.line
    return found


def _names(root: Plain, path: Path) -> list[str]:
    found = _at(root, path)
    return list(found) if isinstance(found, dict) else []


def _at(value: Plain, path: Path) -> Plain:
    for part in path:
        value = value.get(str(part)) if isinstance(value, dict) else None
    return value


def _find(value: Plain, path: Path, wanted: str) -> tuple[Path, bool] | None:
    if isinstance(value, dict):
        for key, inner in value.items():
            # A column is a key under `columns` alone; elsewhere keys are the contract's own words.
            if path[-1:] == ("columns",) and key.lower() == wanted:
                return (*path, key), True
            if found := _find(inner, (*path, key), wanted):
                return found
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            if found := _find(inner, (*path, index), wanted):
                return found
    elif value is not None and value.lower() == wanted:
        return path, False
    return None
