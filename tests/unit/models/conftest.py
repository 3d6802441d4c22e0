"""The fixtures of models beside one another: a contract, and models compiled beside it."""

from __future__ import annotations

from tests.unit.models.test_project import compiled, contract  # noqa: F401 – fixtures
