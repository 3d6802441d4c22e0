"""Carriers are made by one program of this process, and by another one of a copy of it."""

from __future__ import annotations

import os
import tempfile

import pytest

from mirrorlake.config import SourceConfig
from mirrorlake.errors import SourceError
from mirrorlake.sources.mysql.reading import helper_processes
from mirrorlake.sources.mysql.reading.helper_processes import new_carrier, settings_of
from mirrorlake.sources.mysql.reading.route import _Told

NOBODY_THERE = {
    "host": "127.0.0.1",
    "port": 1,
    "user": "u",
    "password": "p",
    "tls": False,
    "ca": None,
    "refused": [],
    "database": "d",
    "brake": None,
    "before": [],
    "silence": 5.0,
    "most": None,
    "beats": [],
    "beat_seconds": 0.0,
    "pid": os.getpid(),
}


def refused(folder: str) -> bool:
    """Whether a carrier ran, and said that it reaches no server."""
    carrier = new_carrier()
    try:
        carrier.tell(NOBODY_THERE | {"socket": f"{folder}/{os.urandom(4).hex()}"})
        [line] = carrier.lines() or []
        return settings_of(line)["wrong"][0] == 2003
    finally:
        carrier.end()


def test_each_process_has_a_maker_of_its_own() -> None:
    with tempfile.TemporaryDirectory(prefix="c-", dir="/tmp") as folder:
        assert refused(folder)
        ours = helper_processes._MAKER._program
        assert ours is not None
        child = os.fork()
        if child == 0:
            # Nothing of the tests' own may run in the copy.
            well = refused(folder) and helper_processes._MAKER._program is not ours
            os._exit(0 if well else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert refused(folder)
        assert helper_processes._MAKER._program is ours
        # Somebody ends it: the next read starts another.
        ours.kill()
        ours.wait()
        assert refused(folder)


def test_a_carrier_that_somebody_ends_is_told_as_that() -> None:
    """Not as the server's answer: another attempt may pass."""
    source = SourceConfig(name="s", host="127.0.0.1", port=1, user="u", password="p", tls="off")
    carrier = new_carrier()
    carrier.tell("no settings")  # it fails, and ends
    told = _Told(carrier, source)
    with pytest.raises(SourceError, match="the process that carries its rows was ended") as caught:
        told.next_words(lambda: None)
    assert caught.value.retryable
    carrier.end()
