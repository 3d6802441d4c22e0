"""The engine, for one run."""

from typing import TYPE_CHECKING, Any

import dagster as dg
from pydantic import PrivateAttr

from resources.contracts import read_config

if TYPE_CHECKING:
    from mirrorlake.sync import Engine


class EngineResource(dg.ConfigurableResource[Any]):
    """The engine over one contract file: opened when a step first uses it, closed with its run.

    With the in-process executor all steps of a run share it, and so one JVM, which starts only
    when a step needs Spark.
    """

    config_path: str
    """Where mirrorlake.yaml is."""

    _engine: "Engine | None" = PrivateAttr(default=None)
    _run_id: str | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        self._run_id = context.run.run_id if context.run else None

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:  # noqa: ARG002
        if self._engine is not None:
            self._engine.spark.stop()
            self._engine = None

    @property
    def engine(self) -> "Engine":
        """The engine; the first call opens lake and ledger."""
        if self._engine is None:
            from mirrorlake.sync import Engine

            self._engine = Engine(read_config(self.config_path), self._run_id)
        return self._engine
