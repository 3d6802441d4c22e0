"""Bar charts as SVG files, for pages that are written from figures.

What belongs here: how a chart looks. What doesn't: which figures are shown; those who write the
pages know. A chart has its own paper and follows the reader's light or dark by itself, for it is
shown as a picture, by Git hosts as well as by the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_LABEL, _BAR, _NUMBER, _ROW = 340, 340, 100, 26
_WIDTH = _LABEL + _BAR + _NUMBER
_STYLE = (
    "svg{--paper:#fff;--ink:#1b1f24;--soft:#59616b;--a:#1f7a4d;--b:#a9bfd6;--c:#e3b745;--d:#b3261e}"
    "@media(prefers-color-scheme:dark){svg{--paper:#14171b;--ink:#e7e9ec;--soft:#a2abb6;"
    "--a:#46b483;--b:#5b7796;--c:#d0a235;--d:#f4796f}}"
    "text{font:13px system-ui,'Segoe UI',Roboto,sans-serif;fill:var(--ink)}"
    ".soft{fill:var(--soft)}.end{text-anchor:end}.head{font-weight:600}"
    ".a{fill:var(--a)}.b{fill:var(--b)}.c{fill:var(--c)}.d{fill:var(--d)}"
    "rect.paper{fill:var(--paper)}path{stroke:var(--ink);stroke-width:1.5;fill:none}"
)


@dataclass(frozen=True)
class Bar:
    """One bar.

    Attributes:
        parts: lengths side by side, each with its colour: ``a`` is ours, or good; ``b`` others'.
        spread: lowest and highest, as a line across the end.
        shown: the number after it.
    """

    label: str
    parts: Sequence[tuple[float, str]]
    shown: str
    spread: tuple[float, float] | None = None


def bar_chart(
    title: str, unit: str, bars: Sequence[Bar], legend: Sequence[tuple[str, str]] = ()
) -> str:
    """A chart of horizontal bars, which all begin at zero.

    Args:
        unit: what the numbers are.
        legend: colours with their words.
    """
    ends = [max(sum(n for n, _ in bar.parts), *(bar.spread or (0,))) for bar in bars]
    scale = _BAR / (max(ends) or 1)
    top = 58 if legend else 38
    high = top + _ROW * len(bars) + 14
    drawn = [
        f'<text x="14" y="24" class="head">{escape(title)}</text>'
        f'<text x="{_WIDTH - 14}" y="24" class="soft end">{escape(unit)}</text>'
    ]
    left = 14
    for colour, words in legend:
        drawn.append(
            f'<rect class="{colour}" x="{left}" y="36" width="11" height="11" rx="2"/>'
            f'<text x="{left + 16}" y="46" class="soft">{escape(words)}</text>'
        )
        left += 36 + 7 * len(words)
    for number, bar in enumerate(bars):
        drawn += _drawn(bar, top + _ROW * number, scale)
    about = "; ".join(f"{bar.label}: {bar.shown}" for bar in bars)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {high}" role="img" '
        f'width="{_WIDTH}" height="{high}">'
        f"<title>{escape(title)}, {escape(unit)}</title><desc>{escape(about)}</desc>"
        f"<style>{_STYLE}</style>"
        f'<rect class="paper" width="{_WIDTH}" height="{high}" rx="6"/>{"".join(drawn)}</svg>\n'
    )


def _drawn(bar: Bar, top: int, scale: float) -> list[str]:
    label = bar.label if len(bar.label) <= 46 else f"{bar.label[:45]}…"
    drawn = [f'<text x="{_LABEL - 10}" y="{top + 17}" class="end">{escape(label)}</text>']
    left, middle = float(_LABEL), top + _ROW // 2
    for length, colour in bar.parts:
        wide = length * scale
        drawn.append(
            f'<rect class="{colour}" x="{left:.1f}" y="{top + 4}" width="{wide:.1f}" height="18"/>'
        )
        left += wide
    if bar.spread:
        low, high = (_LABEL + one * scale for one in bar.spread)
        ends = "".join(f"M{one:.1f} {middle - 4}v8" for one in (low, high))
        drawn.append(f'<path d="M{low:.1f} {middle}H{high:.1f}{ends}"/>')
        left = max(left, high)
    drawn.append(f'<text x="{left + 8:.1f}" y="{top + 17}">{escape(bar.shown)}</text>')
    return drawn


def write_plots(page: Path, drawn: Mapping[str, str]) -> None:
    """Write a page's charts where it shows them: images/plots/ beside it."""
    folder = page.parent / "images" / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    for name, chart in drawn.items():
        folder.joinpath(name).write_text(chart, "utf-8")
