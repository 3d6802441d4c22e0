"""The suite's own settings: a busy machine is no reason to fail."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def test_examples_may_take_their_time() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_settings_of_a_test_begin_from_the_suites() -> None:
    own = settings(max_examples=3)
    assert (own.deadline, HealthCheck.too_slow in own.suppress_health_check) == (None, True)
