"""The text of a migration → its statements, word by word, each with its place.

What belongs here: comments, quotes, and where a statement ends. What doesn't: what it says
(`mirrorlake.sources.mysql.ddl.parser`).

Source: MySQL 8.0 manual, 9.1.1 "String Literals", 9.2 "Schema Object Names", 9.7 "Comments",
4.5.1.2 "mysql Client Commands" (DELIMITER); MariaDB knowledge base, "Comment Syntax".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mirrorlake.errors import DdlRefused

COMMENT: Final = r"/\*(?!M?!).*?\*/|\#[^\n]*|--(?=[\x00-\x20\x7f]|\Z)[^\n]*"
"""Pattern of a comment that no server runs; ``.`` is any character there."""
WORD: Final = r"[\w$\u0080-\U0010FFFF]+"
"""Pattern of a keyword, or of a name that stands without quotes."""
_LEXEME: Final = re.compile(
    r"(?P<space>[ \t\r\n\f\v]+)"
    rf"|(?P<comment>{COMMENT})"
    r"|(?P<opens>/\*M?!(?P<release>\d{5,6})?)"
    r"|(?P<string>'[^'\\]*(?:(?:''|\\.)[^'\\]*)*'|\"[^\"\\]*(?:(?:\"\"|\\.)[^\"\\]*)*\")"
    r"|(?P<name>`[^`]*(?:``[^`]*)*`)"
    rf"|(?P<word>{WORD})"
    r"|(?P<mark>.)",
    re.DOTALL,
)
_NOT_NEWLINE: Final = re.compile(r"[^\n]")
_RUN_BY_ALL: Final = 50_699
"""MariaDB reads ``/*!50700 … */`` to ``/*!99999 … */`` as comments, whatever its release."""
_RUN_BY_NONE: Final = 990_000
_PROGRAMS: Final = ("TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE")


@dataclass(frozen=True)
class Word:
    """A word, a name in backticks, a string, or one mark.

    Attributes:
        said: in upper case; '' where it stands in quotes, and so is no keyword.
        text: as it is written.
        start, end: its place in the migration's text.
        line: in which it begins, from 1.
        unsure: whether it stands in a comment that some servers run and others don't.
    """

    said: str
    text: str
    start: int
    end: int
    line: int = 1
    unsure: bool = False

    @property
    def name(self) -> str:
        """What it is as a name or a value: without its quotes."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote) if quote in "`'\"" else self.text


@dataclass(frozen=True)
class Passage:
    """A statement, or a part of one. A part of which words were taken away keeps the places of the
    others.

    Attributes:
        whole: the migration's text; its comments are blanks.
        words: one at least.
    """

    whole: str
    words: tuple[Word, ...]

    @property
    def said(self) -> tuple[str, ...]:
        return tuple(word.said for word in self.words)

    @property
    def start(self) -> int:
        return self.words[0].start

    @property
    def line(self) -> int:
        return self.words[0].line

    @property
    def text(self) -> str:
        """Its words as they stand, with blanks for what is between them."""
        parts: list[str] = []
        at = self.start
        for word in self.words:
            parts += [blank(self.whole[at : word.start]), word.text.ljust(word.end - word.start)]
            at = word.end
        return "".join(parts)

    @property
    def shown(self) -> str:
        """Its beginning, to be shown."""
        return " ".join(self.text.split())[:80]

    def says(self, *said: str, at: int = 0) -> bool:
        """Whether these words stand there."""
        return tuple(word.said for word in self.words[at : at + len(said)]) == said

    def part(self, first: int, last: int | None = None) -> Passage:
        return replace(self, words=self.words[first:last])

    def refused(self, why: str, at: int | None = None) -> DdlRefused:
        """The error that it can't be read.

        Args:
            at: a place in the migration's text; by default where the passage begins.
        """
        at = self.start if at is None else at
        line, column = self.whole.count("\n", 0, at) + 1, at - self.whole.rfind("\n", 0, at)
        return DdlRefused(
            f"{self.shown[:60]}: {why}",
            next_step="Write it in a form that MySQL's manual has, one ALTER TABLE for each table, "
            "or look at it by hand",
        ).at(line, column)


def blank(text: str) -> str:
    """As many blanks; line breaks stay, so that the places of what follows do."""
    return _NOT_NEWLINE.sub(" ", text)


def depths(words: Sequence[Word]) -> Iterator[tuple[int, Word, int]]:
    """Each word's number, the word, and in how many parentheses it stands; a parenthesis itself is
    outside of what it opens or closes."""
    depth = 0
    for number, word in enumerate(words):
        depth -= word.said == ")"
        yield number, word, depth
        depth += word.said == "("


def read_words(text: str) -> tuple[str, tuple[Word, ...]]:
    """A text, its comments blanked out, and its words, of all its statements together.

    Raises:
        DdlRefused: a quote or a comment has no end.
    """
    whole, words = _Lexer(text).read()
    return whole, tuple(words)


def split_statements(text: str) -> Iterator[Passage]:
    """The statements of a migration, in order.

    Raises:
        DdlRefused: a quote or a comment has no end, or a stored program's body no DELIMITER.
    """
    lexer = _Lexer(text)
    whole, words = lexer.read()
    start = 0
    for number, word in enumerate([*words, _end(len(text), ";")]):
        if word.said != _END:
            continue
        if number > start:
            passage = Passage(whole, tuple(words[start:number]))
            yield from _apart(passage, program_ends=word.text != ";")
        start = number + 1


_END: Final = "\0"
"""What the end of a statement says: no word does."""


def _end(at: int, text: str) -> Word:
    return Word(_END, text, at, at + len(text))


def _apart(passage: Passage, *, program_ends: bool) -> Iterator[Passage]:
    """Statements that stand before one end: a DELIMITER of one's own leaves semicolons in them."""
    begins = passage.said.index("BEGIN") if "BEGIN" in passage.said else None
    first = passage.said[0]
    program = first == "CREATE" and next((w for w in passage.said if w in _THINGS), "") in _PROGRAMS
    block = first == "BEGIN" and len(passage.words) > 1 and not passage.says("WORK", at=1)
    if begins is not None and (program or block) and not program_ends:
        raise passage.refused(
            "what stands between BEGIN and END has semicolons of its own: put it between DELIMITER "
            "lines, as the mysql client needs it",
            passage.words[begins].start,
        )
    if program or block:
        yield passage
        return
    start = 0
    for number, said in enumerate((*passage.said, ";")):
        if said == ";":
            if number > start:
                yield passage.part(start, number)
            start = number + 1


_THINGS: Final = (*_PROGRAMS, "TABLE", "INDEX", "VIEW", "DATABASE", "SCHEMA", "USER", "ROLE")


class _Lexer:
    """Reads a text once, from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.clean: list[str] = []
        self.line = 1
        self.words: list[Word] = []
        self.delimiter = ";"
        self.opened: tuple[int, bool] | None = None
        """Where a comment that servers run began, and whether only some of them do."""

    def read(self) -> tuple[str, list[Word]]:
        at = 0
        while at < len(self.text):
            at = self._step(at)
        if self.opened is not None:
            raise self._unended(self.opened[0])
        return "".join(self.clean), self.words

    def _step(self, at: int) -> int:
        if self.text.startswith(self.delimiter, at):
            return self._word(_END, at, at + len(self.delimiter))
        if self.opened is not None and self.text.startswith("*/", at):
            self.opened = None
            return self._leave_out(at, at + 2)
        found: re.Match[str] = _LEXEME.match(self.text, at)  # type: ignore[assignment]  # any character
        match found.lastgroup:
            case "space" | "comment":
                return self._leave_out(at, found.end())
            case "opens":
                return self._open(found)
            case "word":
                return self._plain(found[0].upper(), at, found.end())
            case "string" | "name":
                return self._word("", at, found.end())
            case _:
                return self._mark(found[0], at)

    def _plain(self, said: str, at: int, end: int) -> int:
        if said == "DELIMITER" and self._first_of_line(at):
            return self._take_delimiter(at, end)
        cut = self.text.find(self.delimiter, at, end)
        end = end if cut < 0 else cut
        return self._word(self.text[at:end].upper(), at, end)

    def _mark(self, mark: str, at: int) -> int:
        text = self.text
        if text.startswith("--", at) and self._first_of_line(at):
            # What tools write as a comment and MySQL does not read as one: `--liquibase formatted`.
            line_end = text.find("\n", at)
            return self._leave_out(at, len(text) if line_end < 0 else line_end)
        if mark in "`'\"" or text.startswith("/*", at):
            raise self._unended(at)
        return self._word(mark, at, at + 1)

    def _word(self, said: str, start: int, end: int) -> int:
        unsure = self.opened is not None and self.opened[1]
        written = self.text[start:end]
        self.clean.append(written)
        self.words.append(Word(said, written, start, end, self.line, unsure))
        self.line += written.count("\n")
        return end

    def _leave_out(self, start: int, end: int) -> int:
        left = self.text[start:end]
        self.clean.append(blank(left))
        self.line += left.count("\n")
        return end

    def _open(self, found: re.Match[str]) -> int:
        release = int(found["release"] or 0)
        if release >= _RUN_BY_NONE:
            end = self.text.find("*/", found.start())
            if end < 0:
                raise self._unended(found.start())
            return self._leave_out(found.start(), end + 2)
        self.opened = (found.start(), "M" in found[0] or release > _RUN_BY_ALL)
        return self._leave_out(found.start(), found.end())

    def _first_of_line(self, at: int) -> bool:
        return not self.text[self.text.rfind("\n", 0, at) + 1 : at].strip()

    def _take_delimiter(self, start: int, end: int) -> int:
        line_end = self.text.find("\n", end)
        line_end = len(self.text) if line_end < 0 else line_end
        given = self.text[end:line_end].split()
        if self.words and self.words[-1].said != _END:
            raise self._refused(start, "the statement before DELIMITER has no end")
        if not given:
            raise self._refused(start, "DELIMITER names none")
        self.delimiter = given[0].strip("'\"`") or given[0]
        return self._leave_out(start, line_end)

    def _unended(self, at: int) -> DdlRefused:
        return self._refused(
            at, "the text ends inside of a quoted name, a string or a comment that begins here"
        )

    def _refused(self, at: int, why: str) -> DdlRefused:
        line_end = self.text.find("\n", at)
        shown = self.text[at : at + 60 if line_end < 0 else min(line_end, at + 60)] or " "
        passage = Passage(self.text, (Word("", shown, at, at + len(shown)),))
        return passage.refused(why)
