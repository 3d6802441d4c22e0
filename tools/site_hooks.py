"""What makes a site of docs/ as it stands for a Git host: the `hooks` that mkdocs calls.

- A pattern in `nav` stands for the pages that it matches.
- Headings get the anchors that a Git host gives them.
- Files outside of docs/ that a page links to become pages of their own, below `repository/`.
- Diagrams are drawn already: docs/images/diagrams/, by `tools/diagrams.py`. No script draws them
  while somebody reads.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

from tools.diagrams import diagram_path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)(#[^)\s]*)?(?=\))")
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
_LANGUAGES = {".py": "python", ".sql": "sql", ".yaml": "yaml", ".toml": "toml"}
# The two pages that lead to all others: a reader of the site is on the second.
_HOMES = (ROOT / "README.md", DOCS / "README.md", DOCS)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Patterns, anchors and diagrams."""
    config.nav = [_expanded(entry) for entry in config.nav or ()]
    config.mdx_configs["toc"]["slugify"] = slug
    config.mdx_configs["pymdownx.superfences"] = {
        "custom_fences": [{"name": "mermaid", "class": "diagram", "format": _diagram}]
    }
    return config


def _expanded(entry: Any) -> Any:
    """An entry of `nav` whose lists have pages in the place of patterns."""
    if not isinstance(entry, dict):
        return entry
    [(title, inside)] = entry.items()
    if not isinstance(inside, list):
        return entry
    found: list[Any] = []
    for one in inside:
        if isinstance(one, str) and "*" in one:
            found += sorted(str(path.relative_to(DOCS)) for path in DOCS.glob(one))
        else:
            found.append(_expanded(one))
    return {title: found}


def slug(heading: str, separator: str) -> str:
    """The anchor that a Git host gives a heading.

    >>> slug("1. `lake.catalog` – where?", "-")
    '1-lakecatalog--where'
    """
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def _diagram(source: str, *_: Any, **__: Any) -> str:
    path = diagram_path(source)
    if not path.exists():
        raise ValueError(f"a diagram is not drawn: {source[:60]!r}. Run: python -m tools.diagrams")
    return f'<figure class="diagram">{path.read_text("utf-8").strip()}</figure>'


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Pages for what docs/ links to outside of itself, and for what these link to."""
    waiting = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in files.documentation_pages():
        waiting += _outside(page.content_string, Path(page.abs_src_path or "").parent)
    known: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path in known:
            continue
        known.add(path)
        text = _page_of(path)
        waiting += _outside(text, path.parent)
        made = File.generated(config, _uri(path), content=text)
        made.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(made)
    return files


def _outside(text: str, folder: Path) -> list[Path]:
    """What a page in a folder links to that is in the repository, and not in docs/."""
    targets = [(folder / found[1]).resolve() for found in LINK.finditer(_FENCE.sub("", text))]
    return [
        one
        for one in targets
        if one.exists() and one.is_relative_to(ROOT) and not one.is_relative_to(DOCS)
        if one not in _HOMES
    ]


def _uri(path: Path) -> str:
    """The page of a file, or of a folder, outside of docs/."""
    name = path.relative_to(ROOT).as_posix()
    return f"repository/{name}" if path.suffix == ".md" else f"repository/{name}.md"


def _page_of(path: Path) -> str:
    if path.suffix == ".md":
        return path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    if path.is_dir():
        inside = sorted(
            one for one in path.rglob("*") if one.is_file() and "__pycache__" not in one.parts
        )
        return f"# {name}\n\n" + "".join(
            f"- [`{one.relative_to(path)}`]({one.relative_to(path.parent).as_posix()})\n"
            for one in inside
        )
    language = _LANGUAGES.get(path.suffix, "text")
    return f"# {name}\n\n````{language}\n{path.read_text('utf-8').rstrip()}\n````\n"


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Links that leave docs/ lead to the pages that stand for what is there."""
    uri = page.file.src_uri
    of_repository = uri.removeprefix("repository/") if uri.startswith("repository/") else None
    source = ROOT / of_repository if of_repository else DOCS / uri
    if of_repository:
        page.meta["search"] = {"exclude": True}
    folder = source.parent
    return _beside_fences(markdown, lambda text: LINK.sub(partial(_link, folder, uri), text))


def on_post_page(output: str, **_: Any) -> str:
    """The theme's search is a dialog without a name, which a screen reader wants."""
    dialog = 'data-md-component="search" role="dialog"'
    return output.replace(dialog, f'{dialog} aria-label="Search"')


def _beside_fences(markdown: str, change: Callable[[str], str]) -> str:
    parts: list[str] = []
    end = 0
    for fence in _FENCE.finditer(markdown):
        parts += [change(markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(markdown[end:])])


def _link(folder: Path, uri: str, found: re.Match[str]) -> str:
    target = (folder / found[1]).resolve()
    if not target.exists() or not target.is_relative_to(ROOT):
        return found[0]  # mkdocs says so
    is_inside = target.is_relative_to(DOCS)
    new = target.relative_to(DOCS).as_posix() if is_inside else _uri(target)
    if target in _HOMES:
        new = "README.md"
    return posixpath.relpath(new, posixpath.dirname(uri) or ".") + (found[2] or "")
