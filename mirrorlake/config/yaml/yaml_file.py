"""YAML text → plain values, each of which remembers where it stands.

Every scalar stays the text that was written; only ``null``, ``~`` and nothing become ``None``. YAML
1.1 would turn a column called ``no`` into False, ``tls: off`` into False and ``1:30`` into 90; the
type of a value is the business of the section it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias, cast

import yaml
from yaml.composer import ComposerError

Plain: TypeAlias = "str | list[Plain] | dict[str, Plain] | None"
Path: TypeAlias = tuple[str | int, ...]

MOST_BYTES: Final = 16 * 2**20
"""A contract of ten thousand tables has about a third of it."""
_MOST_DEPTH: Final = 50
"""Levels of lists and mappings; a contract has a dozen."""
_MOST_ALIASED: Final = 250_000
"""Values that aliases and ``<<`` may stand for in all: ten aliases of ten aliases… would fill the
memory."""
_NULL = "tag:yaml.org,2002:null"
_MERGE = "tag:yaml.org,2002:merge"
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong in the file. ``line`` and ``column`` count from 1."""

    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{self.line}:{self.column}: {where}{self.message}"


class _TooManyError(Exception):
    """Aliases stand for too much; reported at one of them."""

    def __init__(self, mark: yaml.Mark) -> None:
        super().__init__()
        self.mark = mark


_RESOLVERS: Final[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
    **{first: [(_NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"))] for first in ("~", "n", "N", "")},
    "<": [(_MERGE, re.compile(r"<<\Z"))],
}


class _Loader(yaml.SafeLoader):
    """SafeLoader that recognises null and ``<<`` and leaves every other scalar as text."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = _RESOLVERS  # pyright: ignore[reportIncompatibleVariableOverride]

    _depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        """As PyYAML does, which calls itself for every level, and ends where the stack does."""
        if self._depth > _MOST_DEPTH:
            event = cast("yaml.Event", self.peek_event())  # pyright: ignore[reportUnknownMemberType]
            raise ComposerError(
                None,
                None,
                f"more than {_MOST_DEPTH} levels of lists and mappings",
                event.start_mark,
            )
        self._depth += 1
        try:
            return super().compose_node(parent, index)  # pyright: ignore[reportUnknownMemberType]
        finally:
            self._depth -= 1


_FastLoader: Final[Any] = (
    type("_FastLoader", (yaml.CSafeLoader,), {"yaml_implicit_resolvers": _RESOLVERS})
    if yaml.__with_libyaml__
    else None
)
"""The same by libyaml; None where PyYAML was built without it."""
# libyaml takes some texts that PyYAML refuses: tabs, byte order marks, tags and question marks in
# places, a comment right behind | or >. In lines that are only a comment they mean nothing.
_DISPUTED: Final = re.compile(
    r"^(?! *#[^\n\r\x85\u2028\u2029]*$).*(?:[\t?!\ufeff]|[|>][-+0-9]*#)", re.MULTILINE
)


def compose(text: str) -> yaml.Node | None:
    """The text's nodes: by libyaml, which takes a tenth of the time, where PyYAML has it and the
    text has nothing on which the two may differ. Whatever it refuses, PyYAML refuses or not, in its
    own words.

    Raises:
        YAMLError: the text is not valid, or is nested too deeply.
    """
    if _FastLoader is not None and not _DISPUTED.search(text):
        with suppress(yaml.YAMLError):
            if _is_shallow(text, _FastLoader):
                return cast("yaml.Node | None", yaml.compose(text, Loader=_FastLoader))  # pyright: ignore[reportUnknownMemberType]
    return cast("yaml.Node | None", yaml.compose(text, Loader=_Loader))  # pyright: ignore[reportUnknownMemberType]


def _is_shallow(text: str, loader: Any) -> bool:
    """Whether the text's levels are few enough: libyaml calls itself for each without an end."""
    depth = 0
    for event in yaml.parse(text, Loader=loader):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth >= _MOST_DEPTH:
                return False
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
    return True


class YamlFile:
    """The parsed file: its plain values (``root``), the place of each, and what YAML refuses.

    ``problems`` holds bad syntax, doubled keys, foreign tags and circular aliases; where it is not
    empty ``root`` may be incomplete.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.problems: list[Problem] = []
        self.root: Plain = None
        self._keys: dict[Path, yaml.Mark] = {}
        self._values: dict[Path, yaml.Mark] = {}
        self._open: list[yaml.Node] = []
        self._seen: set[int] = set()
        self._aliased = 0
        try:
            node = compose(text)
        except yaml.MarkedYAMLError as error:
            self._refuse_syntax(error)
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            message = f"the character U+{ord(text[error.position]):04X} is not allowed in YAML"
            self.problems.append(Problem(line, 1, "", message))
        else:
            if node is not None:
                self._expand(node)

    def problem(self, path: Path, message: str, *, at_key: bool = False) -> Problem:
        """``message`` about ``path``, at its line or at that of the nearest part written."""
        marks = (self._keys, self._values) if at_key else (self._values, self._keys)
        for length in range(len(path), -1, -1):
            # A missing key is reported at the name of its section, a wrong value at the value.
            for places in marks if length == len(path) else (self._keys, self._values):
                mark = places.get(path[:length])
                if mark is not None:
                    return Problem(mark.line + 1, mark.column + 1, _show_path(path), message)
        return Problem(1, 1, _show_path(path), message)

    def _refuse_syntax(self, error: yaml.MarkedYAMLError) -> None:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        words = _syntax_words(f"{error.context or ''}: {error.problem or ''}")
        self.problems.append(Problem(line, column, "", f"not valid YAML: {words}"))

    def _expand(self, node: yaml.Node) -> None:
        try:
            self.root = self._plain(node, ())
        except _TooManyError as error:
            mark = error.mark
            message = f"its aliases stand for more than {_MOST_ALIASED:,} values: write fewer"
            self.problems.append(Problem(mark.line + 1, mark.column + 1, "", message))

    def _count(self, node: yaml.Node) -> None:
        """A node that is met again is there by an alias."""
        if id(node) not in self._seen:
            self._seen.add(id(node))
            return
        self._aliased += 1
        if self._aliased > _MOST_ALIASED:
            raise _TooManyError(node.start_mark)

    def _plain(self, node: yaml.Node, path: Path) -> Plain:
        self._count(node)
        self._values[path] = node.start_mark
        if not node.tag.startswith("tag:yaml.org,2002:"):
            self.problems.append(self.problem(path, f"the tag {node.tag!r} has no meaning here"))
            return None
        if any(parent is node for parent in self._open):
            self.problems.append(self.problem(path, "this alias refers to a part that holds it"))
            return None
        self._open.append(node)
        try:
            return self._content(node, path)
        finally:
            self._open.pop()

    def _content(self, node: yaml.Node, path: Path) -> Plain:
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            return [self._plain(child, (*path, index)) for index, child in enumerate(node.value)]
        # `pii: null` names a rule. Read as "no rule" it would leave the column open to everyone.
        # In a test of a model it is a column's name. So does `clean: {email: null}`.
        is_rule = path[-1:] == ("pii",) and path[:1] != ("tests",)
        is_rule = is_rule or path[:-1] == ("clean",)
        if node.tag == _NULL and not (is_rule and node.value.lower() == "null"):
            return None
        return str(node.value).lower() if node.tag == _NULL else str(node.value)

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        for key, value in self._own_and_merged(node, path):
            if not isinstance(key, yaml.ScalarNode):
                mark = key.start_mark
                place = (mark.line + 1, mark.column + 1, _show_path(path))
                self.problems.append(Problem(*place, "a key must be a plain name"))
                continue
            name = str(key.value)
            self._keys[*path, name] = key.start_mark
            found[name] = self._plain(value, (*path, name))
        return found

    def _own_and_merged(
        self, node: yaml.MappingNode, path: Path
    ) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """The pairs of a mapping, and those that ``<<`` brings in unless it has its own."""
        own: dict[str, yaml.Mark] = {}
        merged: list[yaml.Node] = []
        for key, value in node.value:
            if key.tag == _MERGE:
                merged += value.value if isinstance(value, yaml.SequenceNode) else [value]
                continue
            if isinstance(key, yaml.ScalarNode):
                if key.value in own:
                    first = own[key.value].line + 1
                    mark = key.start_mark
                    message = f"this key is already on line {first}: keep one of them"
                    place = (mark.line + 1, mark.column + 1, _show_path((*path, key.value)))
                    self.problems.append(Problem(*place, message))
                    continue
                own[key.value] = key.start_mark
            yield key, value
        for source in merged:
            if not isinstance(source, yaml.MappingNode) or source is node:
                self.problems.append(self.problem(path, "'<<' takes a mapping, like <<: *name"))
                continue
            for key, value in self._own_and_merged(source, path):
                self._count(key)
                if isinstance(key, yaml.ScalarNode) and key.value not in own:
                    own[key.value] = key.start_mark
                    yield key, value


_SYNTAX = (
    (r"'\\t'", "a tab; YAML is indented with spaces"),
    (r"quoted scalar", "a quotation mark that opens a text is never closed"),
    (r"mapping values are not allowed", "a ':' is not expected here; put quotes around a text that "
     "holds ': ', and see that this line is indented as its neighbours are"),
    (r"could not find expected ':'", "a ':' and a space are missing between a name and its value"),
    (r"expected ',' or '\]'", "a list is not closed by ], or a comma is missing in it"),
    (r"expected ',' or '\}'", "a mapping is not closed by }, or a comma is missing in it"),
    (r"found undefined alias", "an alias (*name) whose anchor (&name) does not come before it"),
    (r"expected <block end>", "this line is not indented as its neighbours are"),
    (r"cannot start any token", "a text that begins so needs quotes around it"),
)  # fmt: skip
"""What PyYAML says of bad syntax, and what to tell somebody who edits the file."""


def _syntax_words(said: str) -> str:
    """PyYAML's complaint in words about the text, or its own where it has no better ones.

    >>> _syntax_words("while parsing a flow sequence: expected ',' or ']', but got ':'")
    'a list is not closed by ], or a comma is missing in it'
    """
    found = (words for pattern, words in _SYNTAX if re.search(pattern, said))
    return next(found, said.strip(": "))


def _show_path(path: Path) -> str:
    """``('tables', 'my table', 'key', 0)`` → ``tables."my table".key[0]``."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            name = part if _PLAIN_KEY.fullmatch(part) else '"' + part.replace('"', '\\"') + '"'
            shown += f".{name}" if shown else name
    return shown
