"""The benchmarks name what the engine has: they are run seldom, and nothing else imports them."""

from __future__ import annotations

from click.testing import CliRunner

from benchmarks.__main__ import main


def test_the_benchmarks_can_be_started() -> None:
    done = CliRunner().invoke(main, ["--help"])
    assert done.exit_code == 0, done.output
    assert "tenants" in done.output
