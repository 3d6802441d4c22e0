"""The suite's own settings: a busy machine is no reason to fail, a new warning of ours is."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import HealthCheck, settings


def test_examples_may_take_their_time() -> None:
    assert settings.default is not None
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_settings_of_a_test_begin_from_the_suites() -> None:
    own = settings(max_examples=3)
    assert (own.deadline, HealthCheck.too_slow in own.suppress_health_check) == (None, True)


@pytest.mark.parametrize("category", [DeprecationWarning, PendingDeprecationWarning, FutureWarning])
@pytest.mark.parametrize(
    "module", ["mirrorlake.load.chunks.runner", "dagster_mirrorlake", "mirrorlake.trial.shop"]
)
def test_a_deprecated_use_of_ours_is_an_error(category: type[Warning], module: str) -> None:
    with pytest.raises(category):
        warnings.warn_explicit("it is deprecated", category, "file.py", 1, module=module)


def test_what_is_known_of_others_is_not_shown() -> None:
    for module, category, message in (
        (
            "dagster._core.external",
            DeprecationWarning,
            "Property `S.environment_vars` is deprecated",
        ),
        ("pyiceberg.io.pyarrow", UserWarning, "Parquet writer option(s) ['x'] not implemented"),
        ("dagster_mirrorlake.models", Warning, "Class `X` is currently in beta, and may break"),
    ):
        with warnings.catch_warnings(record=True) as shown:
            warnings.warn_explicit(message, category, "file.py", 1, module=module)
        assert shown == []
    with pytest.warns(UserWarning, match="another"):
        warnings.warn_explicit("another", UserWarning, "file.py", 1, module="pyiceberg.io.pyarrow")
