"""Imports without a search for garbage: the collector is as it was afterwards."""

from __future__ import annotations

import gc
from importlib import import_module

import pytest

from mirrorlake.runtime.quick_imports import importing


def test_nothing_is_collected_meanwhile() -> None:
    assert gc.isenabled()
    before = gc.get_freeze_count()
    try:
        with importing():
            assert not gc.isenabled()
            made = [[] for _ in range(3)]
        assert gc.isenabled()
        assert gc.get_freeze_count() > before
        assert not any(one is made for one in gc.get_objects()), "it is never looked at again"
    finally:
        gc.unfreeze()


def test_it_is_enabled_again_after_an_error() -> None:
    with pytest.raises(ModuleNotFoundError), importing():
        import_module("mirrorlake.nowhere")
    assert gc.isenabled()
    gc.unfreeze()


def test_who_collects_nothing_is_left_alone() -> None:
    gc.disable()
    try:
        with importing():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
