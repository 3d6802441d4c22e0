"""A page that can be handed on: Markdown, or HTML without anything from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from pathlib import Path

from mirrorlake import __version__
from mirrorlake.errors import ConfigError
from mirrorlake.other_copies.lines import note_lines, scope_lines, value_lines
from mirrorlake.other_copies.run import ComparedCopies
from mirrorlake.other_copies.verdict import ComparedCopy
from mirrorlake.runtime.plural import plural

_STYLE = """
:root { color-scheme: light dark; }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }
body { padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; }
th, td { text-align: left; vertical-align: top; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid #8886; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; }
.equal { color: #157347; } .different { color: #b02a37; } .undecided { color: #8a6100; }
@media (prefers-color-scheme: dark) {
  .equal { color: #6fd39a; } .different { color: #ff8a94; } .undecided { color: #e8c25a; }
}
"""


def refuse_report(path: Path) -> None:
    """See that a page of that name can be made, before anything is compared.

    Raises:
        ConfigError: its name ends in something else.
    """
    if path.suffix.lower() not in (".md", ".html"):
        raise ConfigError(
            f"--report {path}: its name ends in neither .md nor .html",
            next_step="Write --report comparison.html",
        )


def write_report(path: Path, found: ComparedCopies) -> None:
    """Write a page about a comparison; its name's end says in what.

    Raises:
        ConfigError: it can't be written, or ends in something else.
    """
    refuse_report(path)
    maker = _html if path.suffix.lower() == ".html" else _markdown
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(maker(found), encoding="utf-8")
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
    title = escape(_title(found))
    parts = [f"<h1>{title}</h1>", f"<p>{escape(_made())}</p>", f"<p>{_MEANING}</p>"]
    for one in found.tables:
        parts.append(
            f'<h2>{escape(one.table)}: <span class="{one.verdict}">{one.verdict}</span></h2>'
            f"<p>{escape(one.compared())}</p>"
        )
        if rows := [*_rows_of(one)]:
            parts.append(_grid(("column", "what became of it", "rows", "keys"), rows, number=2))
        for head, lines in _sections(one):
            items = "".join(f"<li>{escape(line)}</li>" for line in lines)
            parts.append(f"<h3>{head}</h3><ul>{items}</ul>")
        columns = [
            (c.name, c.type, c.theirs, c.their_type, "; ".join(c.notes)) for c in one.columns
        ]
        heads = ("column", "in MySQL", "in the copy", "its type", "note")
        parts.append(f"<h3>Columns</h3>{_grid(heads, columns)}")
    if lines := [*_one_sided(found)]:
        parts.append(f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>")
    body = "\n".join(parts)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body><main>\n{body}\n"
        "</main></body></html>\n"
    )


def _grid(heads: Sequence[str], rows: Sequence[Sequence[str]], number: int = -1) -> str:
    def line(tag: str, cells: Sequence[str]) -> str:
        scope = ' scope="col"' if tag == "th" else ""
        shown = [
            f"<{tag}{scope}{' class=n' if n == number else ''}>{escape(cell)}</{tag}>"
            for n, cell in enumerate(cells)
        ]
        return f"<tr>{''.join(shown)}</tr>"

    body = "".join(line("td", cells) for cells in rows)
    return (
        f'<div class="scroll" tabindex="0"><table><thead>{line("th", heads)}</thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
