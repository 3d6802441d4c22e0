"""Jobs in BigQuery that died runs left of models.

What belongs here: which models have some. What doesn't: settling them
(`mirrorlake.operations.recover`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial

from mirrorlake.errors import MirrorlakeError
from mirrorlake.ledger.lake_heads import OF_MODELS
from mirrorlake.models.bigquery.published import PublishedModel
from mirrorlake.models.contract_models import models_there
from mirrorlake.operations.recover import Recovered, ToRecover, settle_published
from mirrorlake.workspace import Workspace


def models_to_recover(
    workspace: Workspace, names: Sequence[str]
) -> tuple[list[ToRecover], list[tuple[str, MirrorlakeError]]]:
    """The models that are published in BigQuery, or some of them; and those with jobs there that
    nobody may go on with, since they do not compile.

    Raises:
        ModelError: one that is named does not compile, or is in the lake alone.
        LakeError, LedgerError: they can't be read.
    """
    models, broken = models_there(workspace.config, lambda: workspace.lake, names)
    steps = [ToRecover(one.name, partial(recover_model, workspace, one)) for one in models]
    return steps, _with_jobs(workspace, broken)


def recover_model(workspace: Workspace, model: PublishedModel, grace: timedelta) -> Recovered:  # noqa: ARG001 - files are left to maintenance
    """Settle what was submitted to BigQuery of a model; nothing is loaded, and nothing of the lake
    is looked at.

    Raises:
        BigQueryError: BigQuery can't be asked.
        LeaseHeld: a live run holds the model.
    """
    with workspace.leased(model) as leased:
        return Recovered(model.name, 0, 0, 0, 0, 0, bigquery=settle_published(leased, model))


def _with_jobs(
    workspace: Workspace, broken: Mapping[str, MirrorlakeError]
) -> list[tuple[str, MirrorlakeError]]:
    newest = workspace.ledger.newest_publications()
    named = {f"{OF_MODELS}{name}": error for name, error in broken.items()}
    return [
        (name, error)
        for name, error in named.items()
        if name in newest and newest[name].state == "pending"
    ]
