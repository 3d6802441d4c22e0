"""What is wrong with a site that was built: links, what is fetched from elsewhere, and words that a
Git host shows otherwise.

The site is made by Python-Markdown, which reads some Markdown otherwise than Git hosts do (a list
without a blank line before it is no list). Each page is therefore rendered by CommonMark's rules,
too, and its words, lists, tables and blocks are compared with the site's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt

DOCS = Path(__file__).resolve().parent.parent / "docs"
COUNTED = ("h1", "h2", "h3", "h4", "li", "pre", "tr", "td", "th", "blockquote", "img")
"""Elements of which a page has as many as on a Git host."""
FETCHED = {"img": "src", "script": "src", "source": "src", "link": "href", "iframe": "src"}
"""Elements that load something by themselves, and by which attribute."""
_VOID = {"img", "br", "hr", "link", "meta", "input", "source"}


@dataclass
class Parsed(HTMLParser):
    """What a page has: ids, links, what it fetches, and of its article the elements and words."""

    ids: set[str] = field(default_factory=set[str])
    links: list[str] = field(default_factory=list[str])
    fetched: list[str] = field(default_factory=list[str])
    elements: Counter[str] = field(default_factory=Counter[str])
    words: list[str] = field(default_factory=list[str])
    article: str = "article"
    """The element that holds the page's own words; '' for all of it."""
    _inside: int = 0
    _left_out: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if name := given.get("id"):
            self.ids.add(name)
        if tag == "a" and (link := given.get("href")):
            self.links.append(link)
        if tag in FETCHED and (source := given.get(FETCHED[tag])):
            self.fetched.append(source)
        if tag == self.article:
            self._inside += 1
        if not self._left_out and _is_drawn(tag, given):
            self.elements["pre"] -= tag == "code"  # the text of a diagram; the site has a figure
        if self._left_out or _is_left_out(tag, given):
            self._left_out += [tag] if tag not in _VOID else []
        elif self._inside or not self.article:
            self.elements[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        if tag == self.article:
            self._inside -= 1
        if self._left_out and self._left_out[-1] == tag:
            self._left_out.pop()

    def handle_data(self, data: str) -> None:
        if not self._left_out and (self._inside or not self.article):
            self.words.append(data)

    @property
    def text(self) -> str:
        """Its words without the spaces between them: blocks are laid out by each in its own way."""
        return re.sub(r"\s+", "", "".join(self.words))


def _is_drawn(tag: str, given: dict[str, str | None]) -> bool:
    names = (given.get("class") or "").split()
    return (tag == "code" and "language-mermaid" in names) or "diagram" in names


def _is_left_out(tag: str, given: dict[str, str | None]) -> bool:
    """What the theme adds, and diagrams, which the other side has as text."""
    return "headerlink" in (given.get("class") or "").split() or _is_drawn(tag, given)


def find_wrong(site: Path) -> list[str]:
    """A line for each thing that is wrong."""
    pages = {path: _parsed(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        wrong += [f"{name}: {line}" for line in _elsewhere(page)]
        wrong += [f"{name}: {line}" for line in _broken(path, page, site, pages)]
    for source in sorted(DOCS.rglob("*.md")):
        built = site / source.relative_to(DOCS).with_suffix(".html")
        if source.name == "README.md":
            built = built.with_name("index.html")
        wrong += [f"{source.relative_to(DOCS)}: {line}" for line in _differs(source, pages[built])]
    return wrong


def _parsed(html: str, article: str = "article") -> Parsed:
    page = Parsed(article=article)
    page.feed(html)
    page.close()
    return page


def _elsewhere(page: Parsed) -> Iterator[str]:
    for source in page.fetched:
        if urlsplit(source).netloc:
            yield f"{source} is fetched from elsewhere when somebody reads the page"


def _broken(path: Path, page: Parsed, site: Path, pages: dict[Path, Parsed]) -> Iterator[str]:
    """Links and files that lead nowhere; mkdocs looks at pages' own Markdown, not at all of it."""
    if path.name == "404.html":
        return  # its links are absolute: it is shown at any address
    for link in {*page.links, *page.fetched}:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.is_relative_to(site.resolve()) or not target.exists():
            yield f"{link} leads nowhere"
        elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
            yield f"{link}: there is no such heading"


def _differs(source: Path, page: Parsed) -> Iterator[str]:
    """What is otherwise than on a Git host."""
    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    host = _parsed(markdown.render(source.read_text("utf-8")), article="")
    for tag in COUNTED:
        if page.elements[tag] != host.elements[tag]:
            yield f"{page.elements[tag]} <{tag}> in the site, {host.elements[tag]} on a Git host"
    if page.text != host.text:
        at = next(
            (n for n, (a, b) in enumerate(zip(page.text, host.text, strict=False)) if a != b),
            min(len(page.text), len(host.text)),
        )
        here, there = (text[max(0, at - 20) : at + 30] for text in (page.text, host.text))
        yield f"it says {here!r} in the site, {there!r} on a Git host"
