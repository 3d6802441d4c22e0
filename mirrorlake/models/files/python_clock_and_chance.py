"""Calls in Python whose value no row decides: the clock, chance, and who asks, as far as they are
called by their usual names. What else a file does is its author's word.

What belongs here: finding such calls in a syntax tree. What doesn't: those of SQL
(`mirrorlake.models.compile.clock_and_chance`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

_OF_MODULES: Mapping[str, frozenset[str]] = {
    "datetime": frozenset({"now", "utcnow", "today"}),
    "date": frozenset({"today"}),
    "time": frozenset({"time", "time_ns"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "os": frozenset({"urandom"}),
    "random": frozenset({"random", "randint", "randrange", "uniform", "choice", "choices"}),
    "functions": frozenset(
        {
            *("current_date", "curdate", "current_timestamp", "now", "localtimestamp"),
            *("unix_timestamp", "rand", "randn", "uuid", "current_user", "user", "session_user"),
            *("monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        }
    ),
}
"""Module or class, by its last name → its functions that give something else each time."""


def unsteady_calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """The calls of a file that give something else each time, each with how it is written."""
    modules, own = _imported(tree)
    seeded = any(_name(one) == ("random", "seed") for one in _calls(tree))
    for call in _calls(tree):
        module, name = _name(call)
        said = f"{module}.{name}" if module else name
        if not module:
            module, name = own.get(name, ("", ""))
        module = modules.get(module, module)
        takes_rows = name == "unix_timestamp" and bool(call.args)
        if name in _OF_MODULES.get(module, ()) and not takes_rows:
            if module == "random" and seeded:
                continue
            yield call, said


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (one for one in ast.walk(tree) if isinstance(one, ast.Call))


def _name(call: ast.Call) -> tuple[str, str]:
    """The last two names of what is called: ``datetime.datetime.now()`` is of ``datetime``."""
    func = call.func
    if isinstance(func, ast.Name):
        return "", func.id
    if not isinstance(func, ast.Attribute):
        return "", ""
    value = func.value
    if isinstance(value, ast.Name):
        return value.id, func.attr
    return (value.attr, func.attr) if isinstance(value, ast.Attribute) else ("", "")


def _imported(tree: ast.Module) -> tuple[dict[str, str], dict[str, tuple[str, str]]]:
    """Other names of modules and classes (``import datetime as dt``), and functions that are
    imported by themselves (``from time import time``)."""
    modules: dict[str, str] = {}
    own: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                modules[one.asname or one.name] = one.name.rpartition(".")[2]
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                modules[one.asname or one.name] = one.name
                module = (node.module or "").rpartition(".")[2]
                own[one.asname or one.name] = module, one.name
    return modules, own
