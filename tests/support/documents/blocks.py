"""Every fenced block of every page."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PAGES = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")],
    key=str,
)
_BLOCK = re.compile(
    r"(?:^ *<!-- (?P<mark>[^\n]+?) -->\n+)?"
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
NOT_RUN = "not run: "


@dataclass(frozen=True)
class Block:
    """One block.

    Attributes:
        line: where its fence is, from 1.
        mark: what the comment right before it says.
    """

    page: Path
    line: int
    language: str
    text: str
    mark: str = ""

    @property
    def place(self) -> str:
        """Where it is, for people."""
        inside = self.page.is_relative_to(ROOT)
        return f"{self.page.relative_to(ROOT) if inside else self.page.name}:{self.line}"

    @property
    def not_run(self) -> str:
        """Why the page says that nothing runs it; '' where something does."""
        return self.mark.removeprefix(NOT_RUN) if self.mark.startswith(NOT_RUN) else ""


def blocks_of(page: Path) -> Iterator[Block]:
    """A page's blocks, in order."""
    text = page.read_text("utf-8")
    for found in _BLOCK.finditer(text):
        yield Block(
            page,
            text.count("\n", 0, found.start("fence")) + 1,
            found["language"],
            textwrap.dedent(found["text"]),
            found["mark"] or "",
        )


ALL_BLOCKS = [block for page in PAGES for block in blocks_of(page)]
