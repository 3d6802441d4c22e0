"""A file of Python beside the models, looked at and never run: where its header is, its functions,
and what a change of it is.

What belongs here: the syntax tree of one file. What doesn't: what the header of a model says
(`mirrorlake.models.files.python_model`), and running it (`mirrorlake.models.spark.python_code`).
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mirrorlake.errors import ModelError
from mirrorlake.models.files.header_places import TextPlace
from mirrorlake.models.files.python_clock_and_chance import unsteady_calls

FRAME = "DataFrame"
"""The annotation of an input and of what the function returns: PySpark's class."""

_OPENED = re.compile(r"""[rR]?(\"{3}|'{3})""")
_FENCE = "---"
_PARSED = "<a model in Python>"
"""What Python takes for the file's name, and for the module of its warnings."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a model's function.

    Attributes:
        annotation: the last name of its type: ``date`` of ``datetime.date``.
    """

    name: str
    annotation: str
    place: TextPlace


@dataclass(frozen=True)
class ModelFunction:
    """The function of a Python model.

    Attributes:
        line: where it stands, from 1.
        parameters: in order.
        digest: of all that the file says but comments, docstrings and layout.
        names: what the file defines at its top level.
    """

    line: int
    parameters: tuple[Parameter, ...]
    digest: str
    names: tuple[str, ...]


def read_function(path: Path, source: str, name: str, root: Path) -> ModelFunction:
    """The function of a model's file.

    Args:
        name: what it must be called.
        root: the folder of the contract file: what lies in it can't be imported.

    Raises:
        ModelError: the file is no Python, has no such function, one of another form, or imports a
            file that is beside the models; with its place.
    """
    tree = parse_python(path, source)
    code = _Code(path, source.split("\n"))
    code.refuse_neighbours(tree, (root, path.parent.parent, path.parent))
    code.refuse_unsteady(tree)
    found = next((one for one in _defined(tree) if one.name == name), None)
    if found is None:
        raise ModelError(
            f"{path}: there is no function {name}: a Python model is a function called as its file",
            next_step=f"Write def {name}(…) -> {FRAME}",
        )
    if isinstance(found, ast.AsyncFunctionDef):
        raise code.wrong(found, f"{name} is asynchronous: it is called, and returns a {FRAME}")
    if _annotation(found.returns) != FRAME:
        raise code.wrong(found.returns or found, f"{name} returns a {FRAME}: write -> {FRAME}")
    return ModelFunction(
        line=found.lineno,
        parameters=tuple(code.parameters(found)),
        digest=_digest(tree),
        names=tuple(_names(tree)),
    )


def read_arities(path: Path, source: str, root: Path) -> tuple[dict[str, int | None], str]:
    """The functions of a file that queries call, each with how many arguments it takes by their
    places, or None where nobody can tell; and a digest of the file as `ModelFunction.digest`.

    Args:
        root: the folder of the contract file: what lies in it can't be imported.

    Raises:
        ModelError: it is no Python, or imports a file that is beside it; with its place.
    """
    tree = parse_python(path, source)
    code = _Code(path, source.split("\n"))
    code.refuse_neighbours(tree, (root, path.parent))
    code.refuse_unsteady(tree)
    found: dict[str, int | None] = {}
    for one in _defined(tree):
        given = one.args
        unclear = given.vararg or given.kwarg or given.kwonlyargs or given.defaults
        plain = isinstance(one, ast.FunctionDef) and not unclear
        found.setdefault(one.name, len(given.posonlyargs) + len(given.args) if plain else None)
    return found, _digest(tree)


def python_parts(path: Path, text: str) -> str:
    """The header of a file: empty lines stand for those before it.

    Raises:
        ModelError: it is no Python, or has no header.
    """
    tree = parse_python(path, text)
    first = tree.body[0] if tree.body else None
    lines = text.split("\n")
    begin = first.lineno if first is not None else 1
    opened = _OPENED.match(lines[begin - 1])
    end = first.end_lineno if first is not None else None
    if first is None or opened is None or end is None:
        raise _no_header(path)
    rest = lines[begin - 1][opened.end() :].strip()
    fence = begin if rest == _FENCE else begin + 1
    if rest not in (_FENCE, "", "\\") or (fence > begin and lines[begin].rstrip() != _FENCE):
        raise _no_header(path)
    for number in range(fence, end):
        if lines[number].rstrip().removesuffix(opened[1]).rstrip() == _FENCE:
            return "\n" * fence + "\n".join(lines[fence:number]) + "\n"
    raise ModelError(
        f"{path}:{fence}:1: the header has no end", next_step="Close it by a line of ---"
    )


def _no_header(path: Path) -> ModelError:
    return ModelError(
        f"{path}:1:1: a Python model begins with its header: a docstring between lines of ---",
        next_step='Write """--- first, then reads: and columns:, and close it by ---"""',
    )


def parse_python(path: Path, source: str) -> ast.Module:
    """The syntax tree of a file.

    Raises:
        ModelError: it is no Python, with line and column.
    """
    try:
        # What Python warns of is the author's affair. Not for a block alone: filters belong to the
        # process, and threads that put them back would put back each other's.
        warnings.filterwarnings("ignore", module=re.escape(_PARSED))
        return ast.parse(source, _PARSED)
    except SyntaxError as error:
        place = (error.lineno or 1, error.offset or 1)
        words = f"{path}:{place[0]}:{place[1]}: not valid Python: {error.msg}"
        raise ModelError(words, place=place) from None
    except (ValueError, RecursionError, MemoryError) as error:
        words = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise ModelError(f"{path}: not valid Python: {words}") from None


def _defined(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    # The last of a name is the one that the module has.
    for one in reversed(tree.body):
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            yield one


def _names(tree: ast.Module) -> Iterator[str]:
    for one in tree.body:
        if isinstance(one, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield one.name
        for target in one.targets if isinstance(one, ast.Assign) else ():
            if isinstance(target, ast.Name):
                yield target.id
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id


def _annotation(node: ast.expr | None) -> str:
    """The last name of a type: ``sql.DataFrame`` and ``"DataFrame"`` are the same; '' of what is no
    name."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        try:
            node = ast.parse(node.value, mode="eval").body
        except SyntaxError:
            return ""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@dataclass(frozen=True)
class _Code:
    """A file whose syntax tree is looked at."""

    path: Path
    lines: list[str]

    def wrong(self, node: Any, words: str, next_step: str = "") -> ModelError:
        line, column = self.place(node)
        said = f"{self.path}:{line}:{column}: {words}"
        return ModelError(said, place=(line, column), next_step=next_step)

    def place(self, node: Any) -> TextPlace:
        """Where a node stands; Python counts bytes."""
        before = self.lines[node.lineno - 1].encode()[: node.col_offset]
        return node.lineno, len(before.decode(errors="replace")) + 1

    def parameters(self, function: ast.FunctionDef) -> Iterator[Parameter]:
        given = function.args
        for one in (given.vararg, given.kwarg):
            if one is not None:
                words = f"{function.name} takes each input, and each name of its scope, by its name"
                raise self.wrong(one, words)
        for one in given.posonlyargs:
            raise self.wrong(
                one, f"parameter {one.arg} can't be given by its name: leave out the /"
            )
        for default in (*given.defaults, *given.kw_defaults):
            if default is not None:
                raise self.wrong(default, "a parameter is always given: it has no default")
        for one in (*given.args, *given.kwonlyargs):
            found = _annotation(one.annotation)
            if not found:
                words = f"parameter {one.arg} has no type"
                raise self.wrong(one, words, f"Write {one.arg}: {FRAME}, if it is an input")
            yield Parameter(one.arg, found, self.place(one))

    def refuse_unsteady(self, tree: ast.Module) -> None:
        """The clock and chance make other rows each time, and nobody could say when."""
        for call, name in unsteady_calls(tree):
            raise self.wrong(
                call,
                f"{name}() gives something else each time: nobody could say when the rows are "
                "stale",
                "Take it from a name under `for`, or from a column",
            )

    def refuse_neighbours(self, tree: ast.Module, folders: Sequence[Path]) -> None:
        """A file that is imported would change what the model gives, and no partition would be
        stale. So a model is one file; what is installed it may import."""
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom):
                names = ["." * node.level + (node.module or "")]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            for name in names:
                first = name.partition(".")[0]
                if not first or any(_is_module(folder / first) for folder in folders):
                    raise self.wrong(
                        node,
                        f"{name} is a file beside this one: a model is one file, and a change of "
                        "another one would make no partition stale",
                        "Write it into this file, or install it as a package",
                    )


def _is_module(place: Path) -> bool:
    return place.with_name(f"{place.name}.py").is_file() or (
        place.is_dir() and any(place.rglob("*.py"))
    )


def _digest(tree: ast.Module) -> str:
    """Of all that a file says, in all versions of Python that read it alike: without places,
    docstrings, and what is empty. Trees may be deeper than Python's stack."""
    said: list[Sequence[object]] = []
    left: list[Any] = [tree]
    while left:
        one = left.pop()
        if isinstance(one, ast.AST):
            parts = [(name, value) for name, value in _fields(one) if value not in (None, [])]
            said.append((type(one).__name__, [name for name, _ in parts]))
            left += [value for _, value in reversed(parts)]
        elif isinstance(one, list):
            members = cast("list[Any]", one)
            said.append(("list", len(members)))
            left += reversed(members)
        else:
            said.append(("value", type(one).__name__, repr(one)))
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]


def _fields(node: ast.AST) -> Iterator[tuple[str, Any]]:
    for name, value in ast.iter_fields(node):
        if name != "ctx":
            yield name, _without_docstring(value) if name == "body" else value


def _without_docstring(body: Any) -> Any:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest
        case _:
            return body
