"""What is looked for in the built site is found; each fault is planted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import site_checks
from tools.site_hooks import slug

MARKDOWN = (
    "# A page\n\nSome `<code>` words.\n\n- one\n- two\n\n| a |\n|---|\n| b |\n\n```text\nc\n```\n"
)
HTML = """<html><head><link rel="stylesheet" href="style.css"></head><body><a href="#a-page">skip</a>
<article><h1 id="a-page">A page<a class="headerlink" href="#a-page">¶</a></h1>
<p>Some <code>&lt;code&gt;</code> words.</p><ul><li>one</li><li>two</li></ul>
<table><tr><th>a</th></tr><tr><td>b</td></tr></table><pre><code>c</code></pre></article></body></html>"""


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    docs, site = tmp_path / "docs", tmp_path / "site"
    docs.mkdir()
    site.mkdir()
    (site / "style.css").touch()
    monkeypatch.setattr(site_checks, "DOCS", docs)
    return docs, site


def wrong(folders: tuple[Path, Path], html: str, markdown: str = MARKDOWN) -> list[str]:
    docs, site = folders
    (docs / "page.md").write_text(markdown)
    (site / "page.html").write_text(html)
    return site_checks.find_wrong(site)


def test_a_page_that_is_the_same_is_right(folders: tuple[Path, Path]) -> None:
    assert wrong(folders, HTML) == []


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ('href="style.css"', 'href="https://fonts.example.com/a.css"', "is fetched from elsewhere"),
        ("<article>", '<script src="//cdn.example.com/a.js"></script><article>', "is fetched"),
        ("<p>Some", '<p><img src="gone.png">Some', "gone.png leads nowhere"),
        ('<a href="#a-page">', '<a href="#b-page">', "there is no such heading"),
        ('<a href="#a-page">', '<a href="../outside.html">', "leads nowhere"),
        ("<ul><li>one</li><li>two</li></ul>", "<p>- one - two</p>", "0 <li> in the site, 2 on"),
        ("&lt;code&gt;", "", "it says 'ApageSomewords"),
        ("<pre><code>c</code></pre>", "<p>c</p>", "0 <pre> in the site, 1 on"),
    ],
)
def test_each_fault_is_found(
    folders: tuple[Path, Path], before: str, after: str, words: str
) -> None:
    found = wrong(folders, HTML.replace(before, after, 1))
    assert any(words in line for line in found), found


def test_a_diagram_is_a_text_here_and_a_figure_there(folders: tuple[Path, Path]) -> None:
    figure = '<figure class="diagram"><svg><text>drawn</text></svg></figure></article>'
    diagram = MARKDOWN + "\n```mermaid\nA --> B\n```\n"
    assert wrong(folders, HTML.replace("</article>", figure), diagram) == []


def test_anchors_are_those_of_a_git_host() -> None:
    assert slug("1. `lake.catalog` – where?", "-") == "1-lakecatalog--where"
    assert slug("`sources.<name>.databases.<db>`", "-") == "sourcesnamedatabasesdb"
