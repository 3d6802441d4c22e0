"""Draws the diagrams of the documents: ``python -m tools.diagrams mermaid.min.js``.

A Git host draws them while somebody reads; the site shows what is drawn here, so that no script is
fetched. The argument is the program's own bundle (npm: mermaid, dist/mermaid.min.js); it needs a
Chromium. Only diagrams whose text changed are drawn; those that are gone are removed.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIAGRAMS = ROOT / "docs" / "images" / "diagrams"
_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_BOX, _LINE, _INK = "#f0f1f2", "#f0f1f3", "#f0f1f4"
_COLOURS = {_BOX: "var(--diagram-box)", _LINE: "var(--diagram-line)", _INK: "var(--diagram-ink)"}
"""Colours that the program writes, and the site's in their place: light or dark."""
_THEME = {
    **dict.fromkeys(("primaryColor", "mainBkg", "secondaryColor", "tertiaryColor"), _BOX),
    **dict.fromkeys(("actorBkg", "labelBoxBkgColor", "edgeLabelBackground"), _BOX),
    **dict.fromkeys(("primaryBorderColor", "lineColor", "nodeBorder", "actorBorder"), _LINE),
    **dict.fromkeys(("signalColor", "actorLineColor", "labelBoxBorderColor"), _LINE),
    **dict.fromkeys(("primaryTextColor", "textColor", "nodeTextColor", "titleColor"), _INK),
    **dict.fromkeys(("actorTextColor", "signalTextColor", "labelTextColor"), _INK),
    "fontFamily": "system-ui, sans-serif",
    "fontSize": "14px",
}
_DRAW = """
async ([name, source, theme]) => {
  mermaid.initialize({
    startOnLoad: false, theme: "base", themeVariables: theme, htmlLabels: false,
    flowchart: {htmlLabels: false}, fontFamily: theme.fontFamily,
  });
  return (await mermaid.render(name, source)).svg;
}
"""


def diagram_path(source: str) -> Path:
    """Where a diagram is drawn: its name changes with its text; an old one is never shown."""
    return DIAGRAMS / f"{hashlib.sha256(source.strip().encode()).hexdigest()[:12]}.svg"


def main() -> int:
    """Draw what is missing."""
    parser = argparse.ArgumentParser(prog="python -m tools.diagrams", description=__doc__)
    parser.add_argument("bundle", type=Path, help="mermaid.min.js")
    given = parser.parse_args()
    pages = sorted(ROOT.glob("docs/**/*.md"))
    sources = [source for page in pages for source in _BLOCK.findall(page.read_text("utf-8"))]
    DIAGRAMS.mkdir(parents=True, exist_ok=True)
    wanted = {diagram_path(source): source for source in sources}
    for path in DIAGRAMS.glob("*.svg"):
        if path not in wanted:
            path.unlink()
    missing = {path: source for path, source in wanted.items() if not path.exists()}
    for path, svg in _drawn(missing, given.bundle).items():
        path.write_text(svg + "\n", "utf-8")
        sys.stdout.write(f"{path.relative_to(ROOT)}\n")
    return 0


def _drawn(sources: dict[Path, str], bundle: Path) -> dict[Path, str]:
    from playwright.sync_api import sync_playwright

    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=browser_path, args=["--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(content=bundle.read_text("utf-8"))
        found = {
            path: page.evaluate(_DRAW, [f"d{path.stem}", source, _THEME])
            for path, source in sources.items()
        }
        browser.close()
    return {path: _in_the_sites_colours(svg) for path, svg in found.items()}


def _in_the_sites_colours(svg: str) -> str:
    for colour, name in _COLOURS.items():
        svg = svg.replace(colour, name)
    return svg.replace('role="graphics-document document"', 'role="img"')


if __name__ == "__main__":
    sys.exit(main())
