"""The section ``bigquery`` of the contract file."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, TypeAlias

from pydantic import Field

from mirrorlake.config.fields import Duration
from mirrorlake.config.sections.added import AddedSection
from mirrorlake.config.settings import PROJECT

ViewKind: TypeAlias = Literal["clean", "full"]


class BigQueryConfig(AddedSection):
    """Where tables with ``publish: [lake, bigquery]`` are loaded, beside the lake. No secret:
    whoever runs Mirrorlake is logged in by Google's own means."""

    project: str = Field(pattern=PROJECT)
    """The project that has the datasets, and in which jobs run."""
    location: str = Field(default="US", pattern=r"^[A-Za-z]+(?:-[a-z0-9]+)*$")
    """Where the datasets are: ``US``, ``EU``, ``europe-west1``. The bucket must suit it."""
    bucket: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$")
    """The bucket through which rows go, without ``gs://``. Files stay there while a job runs."""
    prefix: str = Field(default="mirrorlake", pattern=r"^[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*$")
    """What the names of these files begin with."""
    wait: Duration = timedelta(seconds=30)
    """How long `mirrorlake sync` waits for a table's jobs; those that run longer are settled by a
    later one."""
    views: tuple[ViewKind, ...] = ("clean",)
    """Which views of each table are made, each in a dataset of its own: ``clean``, by the rules on
    columns, and ``full``, of all columns as they are."""

    def views_dataset(self, dataset: str, views: ViewKind) -> str:
        """Where the views of a dataset's tables are."""
        return f"{dataset}__views_{views}"

    def views_datasets(self, dataset: str) -> list[str]:
        """Where all views of the tables are that are loaded into a dataset."""
        return [self.views_dataset(dataset, kind) for kind in self.views]
