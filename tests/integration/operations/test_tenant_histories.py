"""Any history of changes and DDL over a few tenants, and syncs of them: all are read as they are.

Runs are killed on the way. Hypothesis draws the histories; `tests.integration.tenant_machine` says
what can happen and what must hold.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from mirrorlake.runtime.embedded.mariadb import MariaDB
from tests.integration.conftest import Place
from tests.integration.tenant_machine import TenantHistories, TenantWorld
from tests.soak.runs import Runner

RULES = {
    *("join", "leave", "made again", "made again otherwise", "insert", "update", "delete"),
    *("add", "drop", "retype", "rename in case", "rename", "rename a secret", "wider key"),
    *("sync", "maintain", "refused", "altered at tenants.committed", "killed"),
    *("clean as a view", "clean as a table", "dropped: keep", "dropped: remove"),
}
"""What `make test-full` must have done at least once, with an effect."""


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_many_tenant_histories(mariadb: MariaDB, place: Place, runner: Runner) -> None:
    world = TenantWorld(mariadb, place, runner)

    def make() -> TenantHistories:
        return TenantHistories(world)

    many = settings(
        max_examples=30,
        stateful_step_count=24,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
        # Shrinking a failure here costs minutes, and its steps are told anyway.
        phases=[Phase.generate],
    )
    run_state_machine_as_test(make, settings=many)
    print(f"rules that had an effect: {dict(sorted(world.taken.items()))}")
    assert not RULES - {name for name, times in world.taken.items() if times}
