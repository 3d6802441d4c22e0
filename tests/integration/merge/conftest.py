"""Folds by Spark, of however few rows: those without it have a file of their own."""

from __future__ import annotations

import pytest

from mirrorlake.merge import fold


@pytest.fixture(autouse=True)
def by_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a project with ``spark.folds_from: 0`` has them."""
    if not request.module.__name__.endswith("test_small_fold"):
        monkeypatch.setattr("mirrorlake.merge.small_fold._is_small", lambda *_: False)
        monkeypatch.setattr(fold, "small_fold", lambda *_, **__: None)
