"""Spark, for models that stand beside the chains."""

from typing import Any

import dagster as dg
from dagster_pyspark import LazyPySparkResource

from dagster_mirrorlake.resources.workspace import WorkspaceResource


class SparkResource(LazyPySparkResource):
    """dagster-pyspark's lazy resource over the engine's session: there is one JVM per process.

    ``spark_config`` is not read: the session is made from the contract file's ``spark`` section.
    """

    workspace: dg.ResourceDependency[WorkspaceResource]

    @property
    def spark_session(self) -> Any:
        """The session; the first call starts or attaches it."""
        return self.workspace.workspace.spark.get()

    @property
    def spark_context(self) -> Any:
        return self.spark_session.sparkContext
