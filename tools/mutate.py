"""Mutants of what proves: each is the code with one thing changed, and a test must notice.

``python tools/mutate.py`` (or with names of modules: ``ranges recheck``). Each mutant runs in a
fork of this process that has imported everything else already, so that one takes about a second.
``--record`` keeps what it came to, module by module, and writes docs/reliability.md again;
``--again`` runs only those that survived the recorded run of the same code (tests may have grown).

What is not mutated: texts (the SQL of both sides is proved by both servers, see
``tests/integration``), annotations, and docstrings. Where Spark decides, in a text or a call, the
changes are written down here (`BY_HAND`). The survivors that are known are explained in
``tests/soak/mutants.md``; any other one fails.
"""

from __future__ import annotations

import ast
import gc
import hashlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "mirrorlake.proof"
ELSEWHERE = {
    "masking_audit": "mirrorlake.serving.masking_audit",
    "repair": "mirrorlake.operations.repairing.repair",
    "fold": "mirrorlake.merge.fold_plan",
    "current_rows": "mirrorlake.merge.current_rows",
}
"""The modules that are not of the package."""
PARTS = {
    "fold": ("Todo", "plan_fold", "_known"),
    "current_rows": ("_current", "_unknown", "_latest", "_key_parts", "_first", "_flagged"),
}
"""Of modules that do much else: which loads are folded, and which row of a key is the newest."""
BY_HAND = {
    "current_rows": (
        # One key's newest row.
        ("*apart).orderBy(f.desc(SEQ))", "*apart).orderBy(f.asc(SEQ))"),
        ("*apart).orderBy(f.desc(SEQ))", "*apart).orderBy(f.lit(1))"),
        (", *apart).orderBy(f.desc(SEQ))", ").orderBy(f.desc(SEQ))"),
        ('"_mirror_rank = 1"', '"_mirror_rank = 2"'),
        ('"_mirror_rank = 1"', '"_mirror_rank >= 1"'),
        ("f.row_number()", "f.rank()"),
        # The same where deleted rows are flagged or ignored.
        ('rows.where(f"NOT {GONE}")', "rows"),
        ('rows.where(f"NOT {GONE}")', 'rows.where(f"{GONE}")'),
        ("by_key.orderBy(GONE, f.desc(SEQ))", "by_key.orderBy(f.desc(SEQ))"),
        ("by_key.orderBy(GONE, f.desc(SEQ))", "by_key.orderBy(GONE)"),
        ("by_key.orderBy(GONE, f.desc(SEQ))", "by_key.orderBy(f.desc(GONE), f.desc(SEQ))"),
        ("by_key.orderBy(GONE, f.desc(SEQ))", "by_key.orderBy(GONE, f.asc(SEQ))"),
        ("by_key = Window.partitionBy(*_key_parts(plan), *apart)",
         "by_key = Window.partitionBy(*_key_parts(plan))"),
        ('f.max(f.expr(f"CASE WHEN NOT {GONE}', 'f.min(f.expr(f"CASE WHEN NOT {GONE}'),
        ('f.max(f.expr(f"CASE WHEN NOT {GONE}', 'f.max(f.expr(f"CASE WHEN {GONE}'),
        ("{SEQ} > coalesce(_mirror_alive, 0)", "{SEQ} < coalesce(_mirror_alive, 0)"),
        ("{SEQ} > coalesce(_mirror_alive, 0)", "{SEQ} > coalesce(_mirror_alive, 1)"),
        ("{SEQ} > coalesce(_mirror_alive, 0)", "{SEQ} > _mirror_alive"),
        ("f.min(f.expr(later))", "f.max(f.expr(later))"),
        # What has changed since the loads before.
        ("{SEQ} IN ({seqs})\")), plan, apart", "{SEQ} NOT IN ({seqs})\")), plan, apart"),
        ("plan, apart=(_KNOWN,))", "plan)"),
        ("f.lead(f.expr(", "f.lag(f.expr("),
        (".orderBy(_KNOWN)", ".orderBy(f.desc(_KNOWN))"),
        ('"NOT {_KNOWN} AND NOT', '"NOT'),
        ("NOT ({same})", "({same})"),
        (" AND NOT ({same})", ""),
        ('" AND ".join(same_value', '" OR ".join(same_value'),
        (' + [(GONE, "boolean")]', ""),
        ('columns.append((ORIGINAL, "list"))', "pass"),
        ('columns.append((DELETED_AT, "timestamptz"))', "pass"),
    ),
}  # fmt: skip
"""Changes of texts and calls by which Spark decides: what stands there once, and what instead."""
_COMPARISON = ("parts", "reads", "recheck", "order", "ranges")
TESTS: dict[str, tuple[str, ...]] = {
    "ranges": ("proof/test_ranges", *(f"proof/test_{name}" for name in _COMPARISON[:-1])),
    "order": (
        "proof/test_order",
        *(f"proof/test_{name}" for name in _COMPARISON if name != "order"),
    ),
    "differences": (
        "proof/test_recheck",
        "proof/test_ranges",
        "proof/test_parts",
        "proof/test_reads",
        "proof/test_order",
    ),
    "recheck": ("proof/test_recheck", "proof/test_parts", "proof/test_reads"),
    "compare": (
        "proof/test_reads",
        *(f"proof/test_{name}" for name in _COMPARISON if name != "reads"),
    ),
    "scope": ("proof/test_scope",),
    "local_side": ("proof/test_local",),
    "server_hashes": ("proof/test_server_hashes",),
    "duckdb_forms": ("proof/test_server_hashes", "proof/test_local", "proof/test_duckdb_bounds"),
    "rows_beside_bounds": ("proof/test_rows_beside_bounds",),
    "impossible_keys": ("proof/test_rows_beside_bounds",),
    "unchanged_since_load": ("proof/test_rows_beside_bounds",),
    "verdict": ("proof/test_verdict", "proof/test_parts"),
    "counts": ("proof/test_counts",),
    "canonical": ("proof/test_forms", "proof/test_ranges"),
    "rows": ("proof/test_forms", "proof/test_ranges"),
    "repair": ("operations/test_repair",),
    "masking_audit": ("serving/test_exposure",),
    "fold": ("merge/test_fold_plan",),
    "current_rows": ("../integration/merge/test_newest",),
}
"""The tests that look at a module, the one that most likely notices first: unit tests, but where
Spark decides."""
MODULES = tuple(TESTS)
KNOWN = ROOT / "tests" / "soak" / "mutants.md"
KEPT = ROOT / "tests" / "soak" / "results" / "mutants.json"
SECONDS, SPARKS_SECONDS = 20, 200
"""Of a core: so much no run of the tests needs; a mutant that does not end is noticed too."""
EXAMPLES = 25
"""So many cases of each property, and always the same."""

_QUIETLY = ("-x", "-q", "-m", "not full", "-p", "no:cacheprovider", "-p", "pytest_timeout")
_QUIETLY = (*_QUIETLY, "--timeout=0")

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
    """The changes that can be made to one node, by name; each is made in place in its turn,
    and undone before the next."""
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
    elif isinstance(node, ast.Return) and not _is_none(node.value):
        value_ = node.value
        node.value = ast.Constant(None)
        yield "return None"
        node.value = value_
    elif isinstance(node, ast.Continue | ast.Break):
        kind = type(node)
        node.__class__ = ast.Break if kind is ast.Continue else ast.Continue  # type: ignore[assignment]
        yield f"{kind.__name__} ↔"
        node.__class__ = kind  # type: ignore[assignment]


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """What is mutated, in the order of the text: no annotations, and nothing inside a text."""
    skipped: set[int] = set()
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            hint = getattr(node, name, None)
            skipped |= {id(part) for part in ast.walk(hint)} if hint is not None else set()
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


class _SameExamples:
    """A plugin of pytest: the tests' own settings begin from ours, whatever conftest.py loaded."""

    def pytest_collection(self) -> None:
        from hypothesis import settings

        settings.load_profile("mutants")


def module_of(name: str) -> str:
    """A module's whole name; one of the package is known by its last part."""
    if name in ELSEWHERE:
        return ELSEWHERE[name]
    [path] = (ROOT / PACKAGE.replace(".", "/")).rglob(f"{name}.py")
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def path_of(name: str) -> Path:
    """Where a module's code is."""
    return ROOT / f"{module_of(name).replace('.', '/')}.py"


def forget(module: str) -> None:
    """So that a module is imported again, and all of ours that may hold something of it."""
    if module.startswith(PACKAGE):
        return  # nothing of the package was imported
    for name in [n for n in sys.modules if n.partition(".")[0] in ("mirrorlake", "checks")]:
        del sys.modules[name]


def is_noticed(name: str, tree: ast.Module) -> bool:
    """Whether a test fails over this tree; one that does not end is noticed too."""
    module = module_of(name)
    tests = [os.path.normpath(f"tests/unit/{test}.py") for test in TESTS[name]]
    seconds = SPARKS_SECONDS if name in BY_HAND else SECONDS
    code = compile(ast.fix_missing_locations(tree), f"<mutant of {module}>", "exec")
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        signal.alarm(15 * seconds)
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        forget(module)
        sys.meta_path.insert(0, _Mutant(module, code))
        import pytest  # after the setting of `warm`

        # Most are noticed by the first: then the others are not even imported. Without a file
        # pytest would run the whole suite.
        for some in (tests[:1], tests[1:]):
            if some and pytest.main([*_QUIETLY, *some], plugins=[_SameExamples()]):
                os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    return status != 0


def warm() -> None:
    """Import what the tests import, but for the package that is mutated; half of a mutant's time
    would go into that."""
    os.chdir(ROOT)
    sys.dont_write_bytecode = False  # whatever the surroundings say: each mutant imports much again
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.path.insert(0, str(ROOT))
    from hypothesis import settings

    more: dict[str, Any] = {"derandomize": True, "database": None, "deadline": None}
    settings.register_profile("mutants", max_examples=EXAMPLES, **more)
    names = ("hypothesis.strategies", "pyiceberg.table", "pymysql", "pyarrow.compute")
    names = (*names, "pytest", "pytest_timeout", "_pytest.assertion.rewrite")
    for name in (*names, "mirrorlake.operations.loading.sync", "mirrorlake.ledger"):
        importlib.import_module(name)
    for name in [
        n for n in sys.modules if n.startswith((PACKAGE, "mirrorlake.load.protocol.verify"))
    ]:
        del sys.modules[name]
    for name in [n for n in sys.modules if n.startswith("mirrorlake")]:
        if (
            hasattr(sys.modules[name], "prove_loaded")
            or name == "mirrorlake.operations.loading.sync"
        ):
            del sys.modules[name]
    gc.freeze()  # pytest collects garbage twice; what is here already is none


def mutants(name: str, text: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Every mutant of a module's code: the line, what was changed, and the whole changed."""
    tree, lines = ast.parse(text), text.splitlines()
    for was, _ in BY_HAND.get(name, ()):
        if text.count(was) != 1:
            sys.exit(f"{name}: `{was}` stands there {text.count(was)} times: say which")
    chosen = [
        part
        for part in tree.body
        if name not in PARTS or getattr(part, "name", None) in PARTS[name]
    ]
    for node in nodes(ast.Module(chosen, [])):
        line = getattr(node, "lineno", 0)
        for what in edits(node):
            yield line, f"{name}: {what}: `{lines[line - 1].strip()}`", tree
    for was, now in BY_HAND.get(name, ()):
        line = text[: text.index(was)].count("\n") + 1
        yield line, f"{name}: `{was}` → `{now}`", ast.parse(text.replace(was, now))


def run(name: str, known: str, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """What the mutants of a module came to.

    Args:
        before: what an earlier run came to, of whose mutants only the survivors run again.
    """
    started, path = time.monotonic(), path_of(name)
    text = path.read_text("utf-8")
    code = hashlib.sha256(text.encode()).hexdigest()
    if before is not None and before["code"] != code:
        sys.exit(f"{name} is not the code of the recorded run: run it without --again")
    count, survivors = 0, list[str]()
    for line, mutant, tree in mutants(name, text):
        count += 1
        if (before is not None and mutant not in before["survivors"]) or is_noticed(name, tree):
            continue
        survivors.append(mutant)
        why = "known" if mutant in known else f"NOT KNOWN, line {line}"
        print(f"survived ({why}): {mutant}", flush=True)
    seconds = round(time.monotonic() - started)
    print(f"{name}: {count} mutants, {len(survivors)} survived ({seconds} s)", flush=True)
    return {"mutants": count, "survivors": survivors, "code": code, "seconds": seconds}


def record(found: Mapping[str, Any]) -> None:
    """In a process of its own: the page's figures import what is mutated here."""
    child = os.fork()
    if child == 0:
        try:
            from tests.soak.report import record_mutants

            record_mutants(found)
        except BaseException:  # noqa: BLE001 - the child must not go on as if it were the parent
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"{', '.join(found)}: the result could not be kept in {KEPT}")


def main(arguments: Sequence[str]) -> int:
    warm()
    options = [word for word in arguments if word.startswith("--")]
    known = KNOWN.read_text("utf-8") if KNOWN.exists() else ""
    kept = json.loads(KEPT.read_text("utf-8"))["modules"] if "--again" in options else {}
    found: dict[str, Any] = {}
    for name in [word for word in arguments if word not in options] or MODULES:
        if not is_noticed(name, ast.parse("raise ImportError")):
            sys.exit(f"{name}: a module that can't be imported was not noticed")
        if is_noticed(name, ast.parse(path_of(name).read_text("utf-8"))):
            sys.exit(f"{name}: the tests fail over the code as it is")
        found[name] = run(name, known, kept[name] if kept else None)
        if "--record" in options:
            record({name: found[name]})
    return 1 if any(text not in known for one in found.values() for text in one["survivors"]) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
