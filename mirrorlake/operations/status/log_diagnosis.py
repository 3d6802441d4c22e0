"""Whether a source's binary log can be followed, for `doctor`: each thing that it lacks by name."""

from __future__ import annotations

from mirrorlake.config import Config, Mirrored
from mirrorlake.config.server import SourceConfig
from mirrorlake.errors import MirrorlakeError
from mirrorlake.runtime.doctor import Diagnosis
from mirrorlake.sources.mysql.binlog.requirements import find_missing
from mirrorlake.sources.mysql.sessions.connect import session


def look_at_log(config: Config, source: SourceConfig) -> list[Diagnosis]:
    """What a source's log lacks, if any of its tables follows it."""
    following: list[Mirrored] = [c for c in config.tables if c.source == source.name and c.by_log]
    following += [t for t in config.tenants if t.by_log and source.name in t.sources]
    if not following:
        return []
    title = f"binary log of {source.name}"
    try:
        with session(source) as connection:
            missing = find_missing(connection)
    except MirrorlakeError as error:
        return [Diagnosis(title, "", "broken", "", str(error))]
    found = [
        Diagnosis(
            f"{title}, {one.name}",
            "",
            "broken",
            "",
            f"{one.problem}: {one.fix}",
            optional=not one.needed,
        )
        for one in missing
    ]
    return found or [Diagnosis(title, "", "ok", "", f"{len(following)} tables can follow it")]
