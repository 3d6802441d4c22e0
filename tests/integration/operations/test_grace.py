"""A Connect server outlives its clients: no file of its statements is taken for an orphan."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

import pytest

from mirrorlake.errors import ConfigError
from mirrorlake.operations.repairing.recover import recover_table
from mirrorlake.operations.upkeep.maintain import Ages, maintain_table
from mirrorlake.operations.upkeep.orphans import SHORTEST_REMOTE
from mirrorlake.workspace import Workspace

TABLE = {"mode": "full", "key": ["id"]}


def test_no_short_grace_with_a_connect_server(engine_for: Callable[..., Workspace]) -> None:
    here = engine_for({"t": TABLE})
    contract = here.config.tables[0]
    assert recover_table(here, contract, timedelta()).orphans == 0
    remote = engine_for({"t": TABLE})
    spark = remote.config.spark.model_copy(update={"connect": "sc://127.0.0.1:1"})
    config = remote.config.model_copy(update={"spark": spark})
    remote = dataclasses.replace(remote, config=config)
    short = SHORTEST_REMOTE - timedelta(seconds=1)
    with pytest.raises(ConfigError, match="Spark Connect"):
        recover_table(remote, contract, short)
    with pytest.raises(ConfigError, match="Spark Connect"):
        maintain_table(remote, contract, dataclasses.replace(Ages(), grace=short))
    assert recover_table(remote, contract, SHORTEST_REMOTE).orphans == 0
