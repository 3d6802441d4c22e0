"""What a person can do about a failed check: a link to the job that puts it right, with its run
config filled in; the config to paste; and the command that does the same.
"""

import json
import shlex
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlencode

import dagster as dg
import yaml

from dagster_mirrorlake.table import MirroredTable
from dagster_mirrorlake.translator import SOURCE_TAG
from mirrorlake.config import TableContract

_JOBS = {
    "exact_match": "repair",
    "row_count": "repair",
    "unique_key": "repair",
    "contract": "refold",
    "matches_deduped": "refold",
    "gaps": "backfill_errored",
}
_COMMANDS = {
    "repair": "mirrorlake repair {table}",
    "refold": "mirrorlake refold {table}",
    "sync": "mirrorlake sync {table}",
    "backfill_errored": "mirrorlake backfill {table} --missing --from {first}",
}
_SETTINGS: dict[str, dict[str, bool]] = {
    # Whoever comes from a failed check has seen what differs.
    "repair": {"dry_run": False},
    "backfill_errored": {"missing_too": True},
}
DRIFT, UNDECIDED, UNLOADED = (
    "MySQL's columns changed",
    "Not decidable yet",
    "Nothing is mirrored yet",
)
_LOADED_BY = (DRIFT, UNDECIDED, UNLOADED)
"""Words of verdicts that a load puts right, where anything does."""


@dataclass(frozen=True)
class RepairLinks:
    """What a person can do about a failed check.

    Attributes:
        job: what puts it right; ``config``: its run config, YAML.
        url: the job's launchpad, that config filled in; None where no location has it.
        command: what does the same in a shell.
    """

    job: str
    config: str
    url: str | None
    command: str

    def words_of(self, words: str | None) -> str:
        """A verdict's words, as Markdown: the link first, by its label, for the address is long."""
        link = f"[Put it right: {self.job}]({self.url})\n\n" if self.url else ""
        return f"{link}{words or ''}"

    @property
    def metadata(self) -> dict[str, Any]:
        """The rest, beside the words. Dagster shows metadata by their names' order."""
        # On one line: the UI shows a text without its line breaks.
        config = json.dumps(yaml.safe_load(self.config))
        return {
            f"run config of {self.job}": dg.MetadataValue.text(config),
            "or in a shell": self.command,
        }


def repair_links(
    run: dg.DagsterRun, table: MirroredTable, check: str, words: str | None
) -> RepairLinks | None:
    """What puts a failed check right; None where no job can help.

    Args:
        run: that of the check: its code location has the job.
    """
    contract = table.contract
    # What is too new to be decided, or was never loaded, is for a load.
    job = "sync" if (words or "").startswith(_LOADED_BY) else _JOBS.get(check)
    if job is None or contract.landed or (job == "repair" and contract.repair == "off"):
        return None
    config, origin, url = run_config(job, contract), run.remote_job_origin, None
    if origin is not None:
        url = launchpad(origin.location_name, table.names.of(job), config, table.source_tag)
    command = _COMMANDS[job].format(
        table=shlex.quote(contract.name), first=contract.start or "1970-01-01"
    )
    return RepairLinks(job, config, url, command)


def run_config(job: str, contract: TableContract) -> str:
    """The run config of a job for one table: YAML, in JSON's spelling where names need it."""
    lines = [f"tables: [{json.dumps(contract.name, ensure_ascii=False)}]"]
    lines += [f"{name}: {str(value).lower()}" for name, value in _SETTINGS.get(job, {}).items()]
    inner = "\n".join(f"      {line}" for line in lines)
    return f"ops:\n  {job}:\n    config:\n{inner}\n"


def launchpad(location: str, job: str, config: str, source: str) -> str:
    """The job's launchpad with this config and its source's tag filled in: a path on the server
    that shows the check."""
    query = {"config": config, "tags[0][key]": SOURCE_TAG, "tags[0][value]": source}
    return f"/locations/{quote(location)}/jobs/{job}/playground/setup?{urlencode(query)}"
