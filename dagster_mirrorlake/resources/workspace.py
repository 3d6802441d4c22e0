"""The engine, for one run."""

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr

from dagster_mirrorlake.resources.contracts import read_config

if TYPE_CHECKING:
    from mirrorlake.operations.loading.unchanged import Look
    from mirrorlake.workspace import Workspace


@dataclass
class _Shared:
    """The engine of one run, and how many resources of the run may still use it."""

    users: int = 0
    workspace: "Workspace | None" = None
    looks: "dict[str, Look]" = field(default_factory=dict)
    opening: threading.RLock = field(default_factory=threading.RLock)


# Dagster makes a second resource of one that another depends on: both are given the same engine.
_SHARED: dict[tuple[str, str | None], _Shared] = {}


def end_thread(run_id: str) -> None:
    """Give back what this thread had of the run's engines: its Spark session, for another step."""
    for workspace in _workspaces(run_id):
        workspace.spark.rejoin()


def give_up(run_id: str) -> None:
    """End what Spark is doing for a run."""
    for workspace in _workspaces(run_id):
        workspace.spark.cancel()


def _workspaces(run_id: str) -> "list[Workspace]":
    found = [shared.workspace for (_, run), shared in list(_SHARED.items()) if run == run_id]
    return [workspace for workspace in found if workspace is not None]


class WorkspaceResource(dg.ConfigurableResource[Any]):
    """The engine over one contract file: opened when a step first uses it, closed with its run.

    All steps of a run share it, and so one JVM, which starts only when a step needs Spark. A step
    in a thread of its own has a Spark session of its own. Files that are written meanwhile have the
    contract's permissions.
    """

    config_path: str
    """Where mirrorlake.yaml is."""

    _run_id: str | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        self._run_id = context.run.run_id if context.run else None
        _SHARED.setdefault(self._key, _Shared()).users += 1

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002
        shared = _SHARED.get(self._key)
        if shared is None:
            return
        shared.users -= 1
        if shared.users > 0:
            return
        del _SHARED[self._key]
        if shared.workspace is not None:
            shared.workspace.close()

    @property
    def _key(self) -> tuple[str, str | None]:
        return self.config_path, self._run_id

    @property
    def workspace(self) -> "Workspace":
        """The engine; the first call opens lake and ledger."""
        shared = _SHARED.setdefault(self._key, _Shared())
        with shared.opening:
            if shared.workspace is None:
                from mirrorlake.workspace import Workspace

                shared.workspace = Workspace.open(read_config(self.config_path), self._run_id)
        if threading.current_thread() is not threading.main_thread():
            shared.workspace.spark.separate()
        return shared.workspace

    def look(self, source: str) -> "Look":
        """What a source shows of its full copies: queried once in a run, before any is read."""
        shared = _SHARED.setdefault(self._key, _Shared())
        with shared.opening:
            if source not in shared.looks:
                from mirrorlake.operations.loading.unchanged import look_at

                workspace = self.workspace
                copies = [c for c in workspace.config.tables if c.source == source and c.copies]
                shared.looks[source] = look_at(workspace.config, workspace.ledger, copies)
        return shared.looks[source]

    def looked(self, source: str) -> "Look | None":
        """The run's look at a source; None where it made none."""
        return _SHARED.setdefault(self._key, _Shared()).looks.get(source)
