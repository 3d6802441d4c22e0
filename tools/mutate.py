"""Mutants of the comparison: each is the code with one thing changed, and a unit test must notice.

``python tools/mutate.py`` (or with names of modules: ``ranges judge``). Each mutant runs in a fork
of this process that has imported everything else already, so that one takes about a second.

What is not mutated: texts (the SQL of both sides is proved by both servers, see
``tests/integration``), annotations, and docstrings. The survivors that are known are explained in
``tests/soak/mutants.md``; any other one fails.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "mirrorlake.proof"
MODULES = ("ranges", "order", "differences", "judge", "compare")
"""The comparison: how rows are cut, paired, and judged."""
TESTS = tuple(f"tests/unit/test_proof_{name}.py" for name in ("parts", "judged", "order", "ranges"))
KNOWN = ROOT / "tests" / "soak" / "mutants.md"
SECONDS = 60

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
}
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}


def edits(node: ast.AST) -> Iterator[str]:  # noqa: C901 - one branch a kind of node
    """The changes that can be made to one node, by name; each is made in place when it is asked
    for, and undone before the next."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        was = node.ops[0]
        for other in _COMPARED.get(type(was), ()):
            node.ops = [other()]
            yield f"{type(was).__name__} → {other.__name__}"
            node.ops = [was]
    elif isinstance(node, ast.BoolOp):
        junction = node.op
        node.op = ast.Or() if isinstance(junction, ast.And) else ast.And()
        yield "and ↔ or"
        node.op = junction
    elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _COUNTED:
        operator = node.op
        node.op = _COUNTED[type(operator)]()
        yield f"{type(operator).__name__} → {type(node.op).__name__}"
        node.op = operator
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
        yield "True ↔ False"
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
        yield f"{node.value - 1} → {node.value}"
        node.value -= 1
    elif isinstance(node, (ast.If, ast.IfExp)):
        test = node.test
        for value in (True, False):
            node.test = ast.Constant(value)
            yield f"if → {value}"
        node.test = test
    elif isinstance(node, ast.Return) and node.value is not None:
        value_ = node.value
        node.value = ast.Constant(None)
        yield "return None"
        node.value = value_
    elif isinstance(node, ast.Continue | ast.Break):
        kind = type(node)
        node.__class__ = ast.Break if kind is ast.Continue else ast.Continue  # type: ignore[assignment]
        yield f"{kind.__name__} ↔"
        node.__class__ = kind  # type: ignore[assignment]


def nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """What is mutated, in the order of the text: no annotations, and nothing inside a text."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            told = getattr(node, name, None)
            skipped |= {id(part) for part in ast.walk(told)} if told is not None else set()
        if isinstance(node, ast.JoinedStr):
            # What stands between the texts is code; its own constants are texts.
            skipped |= {id(part) for part in node.values if isinstance(part, ast.Constant)}
    for node in ast.walk(tree):
        if id(node) not in skipped:
            yield node


class _Mutant(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Gives one module's changed code to whoever imports it."""

    def __init__(self, name: str, code: Any) -> None:
        self._name, self._code = name, code

    def find_spec(self, name: str, *_: Any) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == self._name else None

    def exec_module(self, module: Any) -> None:
        module.__file__ = str(ROOT / f"{self._name.replace('.', '/')}.py")
        exec(self._code, module.__dict__)  # noqa: S102


def is_noticed(module: str, tree: ast.Module, tests: Sequence[str]) -> bool:
    """Whether a test fails over this tree; one that does not end is noticed too."""
    code = compile(ast.fix_missing_locations(tree), f"<mutant of {module}>", "exec")
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        sys.meta_path.insert(0, _Mutant(module, code))
        import pytest

        os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))
    _, status = os.waitpid(child, 0)
    return status != 0


def warm() -> None:
    """Import what the tests import, but for the package that is mutated."""
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    names = ("hypothesis.strategies", "pyiceberg.table", "pymysql", "pyarrow.compute")
    for name in (*names, "mirrorlake.sync", "mirrorlake.ledger"):
        importlib.import_module(name)
    for name in [n for n in sys.modules if n.startswith((PACKAGE, "mirrorlake.verified"))]:
        del sys.modules[name]
    for name in [n for n in sys.modules if n.startswith("mirrorlake")]:
        if hasattr(sys.modules[name], "prove_loaded") or name == "mirrorlake.sync":
            del sys.modules[name]


def survivors_of(name: str, known: str) -> tuple[int, list[str]]:
    """How many mutants a module has, and those that no test notices and nobody explained."""
    path = ROOT / f"{PACKAGE.replace('.', '/')}/{name}.py"
    text = path.read_text("utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    count, left = 0, list[str]()
    for node in nodes(tree):
        for what in edits(node):
            count += 1
            if is_noticed(f"{PACKAGE}.{name}", tree, TESTS):
                continue
            line = getattr(node, "lineno", 0)
            told = f"{name}: {what}: `{lines[line - 1].strip()}`"
            if told in known:
                continue
            left.append(told)
            print(f"survived (line {line}): {told}", flush=True)
    return count, left


def main(asked: Sequence[str]) -> int:
    warm()
    known = KNOWN.read_text("utf-8") if KNOWN.exists() else ""
    for name in asked or MODULES:
        if not is_noticed(f"{PACKAGE}.{name}", ast.parse("raise ImportError"), TESTS):
            sys.exit(f"{name}: a module that can't be imported was not noticed")
        path = ROOT / f"{PACKAGE.replace('.', '/')}/{name}.py"
        if is_noticed(f"{PACKAGE}.{name}", ast.parse(path.read_text("utf-8")), TESTS):
            sys.exit(f"{name}: the tests fail over the code as it is")
    left = 0
    for name in asked or MODULES:
        started = time.monotonic()
        count, found = survivors_of(name, known)
        left += len(found)
        seconds = time.monotonic() - started
        print(f"{name}: {count} mutants, {len(found)} survived ({seconds:.0f} s)", flush=True)
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
