"""The recordings of the documents can be made again, from nothing."""

from __future__ import annotations

from html import unescape

import pytest

from mirrorlake.runtime.embedded.server import free_port
from tools.recordings import record

SAID = {
    "init": ("Wrote mirrorlake.yaml: 6 tables",),
    "sync": ("6 tables: 6 loaded",),
    "check": ("5 equal", "1 different", "missing (id=276)", "changed (id=1166)"),
    "repair": ("now equal", "1 changed, 1"),
    "preflight": ("attention", "email is new"),
}
"""What each must show; it was shown when the pages were written."""


@pytest.mark.full
def test_each_recording_can_be_made_again() -> None:
    made = record(free_port())
    assert made.keys() == SAID.keys()
    for name, svg in made.items():
        words = unescape(svg).replace("\xa0", " ")
        for said in SAID[name]:
            # A colour begins a new text.
            assert all(word in words for word in said.split()), (name, said)
        assert len(svg.encode()) <= 60_000
        assert "shop-mirror-" not in svg
        assert "/tmp/" not in svg  # noqa: S108
