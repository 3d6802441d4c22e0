"""A page that can be handed on: Markdown, or HTML without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from mirrorlake import __version__
from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.lines import note_lines, scope_lines, value_lines
from mirrorlake.other_copies.run import ComparedCopies
from mirrorlake.other_copies.verdict import ComparedCopy
from mirrorlake.runtime.pages.page import refuse_other_file, render_page, write_page
from mirrorlake.runtime.plural import plural


def refuse_report(path: Path) -> None:
    """See that a page of that name can be made, before anything is compared.

    Raises:
        ConfigError: its name ends in something else, or there is a file of it that is no page of
            ours.
    """
    if path.suffix.lower() not in (".md", ".html"):
        raise ConfigError(
            f"--report {path}: its name ends in neither .md nor .html",
            next_step="Write --report comparison.html",
        )
    if path.suffix.lower() == ".html":
        refuse_other_file(path, "--report")


def write_report(path: Path, found: ComparedCopies) -> None:
    """Write a page about a comparison; its name's end says in what.

    Raises:
        ConfigError: it can't be written, or ends in something else.
    """
    refuse_report(path)
    if path.suffix.lower() == ".html":
        write_page(path, _html(found), "--report")
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_markdown(found), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"--report {path} can't be written: {error.strerror}", next_step="Name another file"
        ) from error


def _title(found: ComparedCopies) -> str:
    if len(found.tables) == 1 and not found.failures:
        return f"{found.tables[0].table}: MySQL and its copy"
    return f"{plural(len(found.tables) + len(found.failures), 'table')}: MySQL and their copies"


def _made() -> str:
    return f"Made by Mirrorlake {__version__}, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."


_MEANING = (
    "Equal: every row and every compared column has exactly MySQL's value. Different: something is "
    "lost or other. Undecided: what was compared is equal, and a column could not be compared."
)


def _rows_of(one: ComparedCopy) -> Iterator[tuple[str, str, str, str]]:
    """Each difference: column, what, how many, keys."""
    for found in one.differences:
        if not found.lossless:
            more = ", …" if found.keys and found.count > len(found.keys) else ""
            keys = ", ".join(found.keys) + more
            yield found.column or "(row)", found.words, f"{found.count:,}", keys


def _values_of(one: ComparedCopy) -> list[str]:
    return [f"{found.column}, {line}" for found in one.differences for line in value_lines(found)]


def _one_sided(found: ComparedCopies) -> Iterator[str]:
    if found.only_mysql:
        yield f"In MySQL alone, not compared: {', '.join(found.only_mysql)}"
    if found.only_theirs:
        yield f"In the copy alone, not compared: {', '.join(found.only_theirs)}"
    for table, error in found.failures:
        yield f"Not compared: {table}: {error}"


# --- Markdown -------------------------------------------------------------------------------------


def _markdown(found: ComparedCopies) -> str:
    parts = [f"# {_title(found)}", _made(), _MEANING]
    for one in found.tables:
        parts += [f"## {one.table}: {one.verdict}", _plain(one.compared())]
        rows = [*_rows_of(one)]
        if rows:
            parts.append(_table(("column", "what became of it", "rows", "keys"), rows))
        for title, lines in _sections(one):
            parts.append("\n".join([f"**{title}**", "", *(f"- {_plain(line)}" for line in lines)]))
        columns = [
            (c.name, c.type, c.theirs, c.their_type, "; ".join(c.notes)) for c in one.columns
        ]
        parts.append(_table(("column", "in MySQL", "in the copy", "its type", "note"), columns))
    parts += [f"- {_plain(line)}" for line in _one_sided(found)]
    return "\n\n".join(parts) + "\n"


def _sections(one: ComparedCopy) -> Iterator[tuple[str, list[str]]]:
    for title, lines in (
        ("What was compared", [*scope_lines(one)]),
        ("Other, and nothing lost", [*note_lines(one)]),
        ("Values", _values_of(one)),
    ):
        if lines:
            yield title, lines


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_plain, cells))} |" for cells in lines)


def _plain(text: str) -> str:
    """A text that Markdown shows as it is, on one line."""
    shown = "".join(f"\\{c}" if c in "\\`*_{}[]<>|#" else c for c in text)
    return " ".join(shown.split("\n"))


# --- HTML -----------------------------------------------------------------------------------------


def _html(found: ComparedCopies) -> str:
    tables = [
        {
            "of": one,
            "differences": [*_rows_of(one)],
            "sections": [*_sections(one)],
            "columns": [
                (c.name, c.type, c.theirs, c.their_type, "; ".join(c.notes)) for c in one.columns
            ],
        }
        for one in found.tables
    ]
    values: dict[str, object] = {"made": _made(), "meaning": _MEANING, "tables": tables}
    values["others"] = [*_one_sided(found)]
    return render_page(Path(__file__).parent / "page", "comparison", _title(found), values)
