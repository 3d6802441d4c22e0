"""One run's context: what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from mirrorlake.workspace import Workspace
from tests.unit.plans import contract


def test_a_closed_workspace_takes_no_lease_and_a_write_needs_one() -> None:
    part: Any = None
    workspace = Workspace(part, part, part, part, "run")
    with pytest.raises(RuntimeError, match="under its lease"):
        workspace.check_lease()
    workspace.close()
    workspace.close()
    with pytest.raises(RuntimeError, match="closed"), workspace.leased(contract()):
        pass
