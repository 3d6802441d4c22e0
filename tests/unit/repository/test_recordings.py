"""The recordings of the documents: of commands that there are, shown somewhere, and light."""

from __future__ import annotations

import re
from html import unescape
from xml.etree import ElementTree

import pytest

from tests.support.documents import shell
from tests.support.documents.blocks import PAGES
from tools.recordings import RECORDINGS, RECORDINGS_FOLDER, Recording

MOST_BYTES = 60_000


@pytest.mark.parametrize("one", RECORDINGS, ids=lambda one: one.name)
def test_what_is_shown_is_what_would_be_recorded(one: Recording) -> None:
    """Its commands are there, with their options; a text that changed wants a new picture."""
    svg = (RECORDINGS_FOLDER / f"{one.name}.svg").read_text("utf-8")
    for command in (*one.commands, *one.before):
        for words in shell.commands_of(command):
            shell.check_command(words)
    [told] = re.findall(r"<desc>(.*?)</desc>", svg)
    assert unescape(told) == "; ".join(one.commands), "run: python -m tools.recordings"
    assert one.title.replace(" ", "\xa0") in unescape(svg)


@pytest.mark.parametrize("one", RECORDINGS, ids=lambda one: one.name)
def test_a_recording_is_light_and_fetches_nothing(one: Recording) -> None:
    svg = (RECORDINGS_FOLDER / f"{one.name}.svg").read_text("utf-8")
    assert len(svg.encode()) <= MOST_BYTES
    assert set(re.findall(r"https?://[^\"' )]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"url\((.)", svg)) == {"#"}
    assert "@font-face" not in svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")  # noqa: S314 - ours


def test_each_recording_is_on_a_page() -> None:
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"recordings/(\w+)\.svg", page.read_text("utf-8"))
    }
    assert shown == {one.name for one in RECORDINGS}
    assert {path.stem for path in RECORDINGS_FOLDER.glob("*")} == shown
