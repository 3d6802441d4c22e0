"""Several tables, each for itself: one that fails stops no other, and nothing else is caught."""

from __future__ import annotations

import pytest

from mirrorlake.errors import ConfigError, MirrorlakeError, SourceError
from mirrorlake.runtime.outcomes import Outcome, Outcomes


def fail(error: BaseException) -> int:
    raise error


def test_results_and_failures_keep_their_order() -> None:
    done = Outcomes[int]()
    for name, act in (
        ("a", lambda: 1),
        ("b", lambda: fail(SourceError("no", source="s"))),
        ("c", lambda: None),
        ("d", lambda: 0),
        ("e", lambda: fail(ConfigError("bad"))),
    ):
        done.attempt(name, act)
    assert done.results == [1, 0]  # of c there was nothing to do
    assert [name for name, _ in done.failures] == ["b", "e"]
    assert done.exit_code == SourceError.exit_code != ConfigError.exit_code
    assert Outcomes[int]().exit_code == 0


def test_what_is_no_error_of_ours_ends_the_command() -> None:
    done = Outcomes[int]()
    for error in (KeyError("x"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            done.attempt("a", lambda error=error: fail(error))
    assert (done.results, done.failures) == ([], [])


def test_one_outcome_has_a_result_or_an_error() -> None:
    error = MirrorlakeError("no")
    assert Outcome.of("a", lambda: 1) == Outcome("a", 1)
    assert Outcome.of("a", lambda: fail(error)) == Outcome("a", error=error)
