"""Reports cuts to Dagster that it has no record of: made by the command, or by a follower."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from dagster_mirrorlake.build import Mirror
from dagster_mirrorlake.cuts.asset import (
    cut_materialization,
    cuts_key,
    followed_by_source,
)
from dagster_mirrorlake.cuts.checks import cut_evaluations
from dagster_mirrorlake.names import Names
from dagster_mirrorlake.table import MirroredTable

_LOOKED_AT = 100
"""Materialisations of an asset that are looked at: what is older than these is not reported."""
_UNDER_WAY = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True)
class CutReporter:
    """Reports the cuts of sources, with the verdicts of the newest."""

    sources: Mapping[str, Sequence[MirroredTable]]

    @property
    def names(self) -> Names:
        """What the mirror's definitions are called."""
        return next(iter(self.sources.values()))[0].names

    def find(
        self,
        instance: dg.DagsterInstance,
        resources: Any,
        *,
        verdicts: bool,
    ) -> tuple[list[dg.AssetMaterialization], list[dg.AssetCheckEvaluation]]:
        """Cuts that Dagster has no record of, and what its checks say of the newest ones since a
        look."""
        from mirrorlake.cuts.ledger import Cuts
        from mirrorlake.cuts.published import published_reads

        events: list[dg.AssetMaterialization] = []
        evaluations: list[dg.AssetCheckEvaluation] = []
        for source, tables in self.sources.items():
            cuts = Cuts(resources.ledger.ledger).all(source)
            followed = [table.contract.name for table in tables]
            if not cuts or self._is_under_way(instance, source):
                continue
            known = _reported(instance, cuts_key(source, self.names))
            new = [cut for cut in cuts if cut.name not in known]
            if len(known) >= _LOOKED_AT:
                new = [cut for cut in new if cut is cuts[-1]]
            for cut in new:
                left = dict.fromkeys(sorted({*followed} - {*cut.names}), "it was not at that place")
                published = published_reads(resources.ledger.ledger, cut)
                events.append(cut_materialization(cut, self.names, left, published))
            if verdicts and not new:  # a verdict is about a materialisation that is there
                evaluations += cut_evaluations(cuts[-1], self.names, followed)
        return events, evaluations

    def _is_under_way(self, instance: dg.DagsterInstance, source: str) -> bool:
        """Whether a run makes a cut: it reports it itself."""
        job = self.names.of(f"cut_{source}")
        wanted = dg.RunsFilter(job_name=job, statuses=_UNDER_WAY)
        return bool(instance.get_runs(wanted, limit=1))


def build_reporters(mirror: Mirror) -> list[CutReporter]:
    """One for all sources with cuts."""
    sources = followed_by_source(mirror)
    return [CutReporter(sources)] if sources else []


def _reported(instance: dg.DagsterInstance, key: dg.AssetKey) -> set[str]:
    """The names of the cuts that Dagster has."""
    records = instance.fetch_materializations(key, limit=_LOOKED_AT).records
    found = (r.asset_materialization for r in records)
    return {str(one.metadata["cut"].value) for one in found if one and "cut" in one.metadata}
