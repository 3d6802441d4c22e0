"""A page's blocks, run as a new user runs them: in their order, in one shell, in an empty home.

What a page can't say of every machine is put in its place before (an address, a folder of the
clone); nothing else is changed. A block that the page marks as another terminal's runs beside the
others, until the end.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.documents.blocks import Block, blocks_of

BESIDE = "in another terminal"
_STARTED = "Ctrl-C|Serving dagster-webserver"
"""What a program that goes on says when it is ready."""
_RUN = ("sh", "python", "sql")
_PRINTED = ("text", "yaml")
_SIGN = "@@ mirrorlake block"


@dataclass(frozen=True)
class Ran:
    """One block that was run: what it printed, and what the page says it prints, if it does."""

    block: Block
    printed: str
    shown: str = ""


def run_page(
    page: Path,
    home: Path,
    environment: Mapping[str, str],
    instead: Mapping[str, str],
    *,
    left_out: Sequence[str] = (),
    until: str = "",
    sql: Sequence[str] = (),
    seconds: float = 900,
) -> list[Ran]:
    """Run a page's blocks.

    Args:
        instead: words of the page → what stands for them here.
        left_out: blocks that begin so are not run.
        until: the block that begins so is the last.
        sql: the server's own client, for blocks of SQL.

    Raises:
        AssertionError: a block failed: with all that was printed.
    """
    wanted = [
        block
        for block in blocks_of(page)
        if not block.not_run and not (left_out and block.text.startswith(tuple(left_out)))
    ]
    if until:
        last = next(n for n, block in enumerate(wanted) if block.text.startswith(until))
        wanted = wanted[: last + 2]  # what it prints may follow
        if wanted[-1].language not in _PRINTED:
            wanted = wanted[: last + 1]
    # Each program that goes on is a group of its own, which ends as a whole.
    script = ["set -emo pipefail", "trap 'for j in $(jobs -p); do kill -- -$j; done; wait' EXIT"]
    for block in wanted:
        script += _lines(block, instead, sql)
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=home,
        env={"HOME": str(home), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, (
        f"{page.name}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return _ran(wanted, done.stdout)


def _lines(block: Block, instead: Mapping[str, str], sql: Sequence[str]) -> list[str]:
    if block.language not in _RUN:
        return []
    text = block.text
    for words, here in instead.items():
        text = text.replace(words, here)
    lines = [f"echo '{_SIGN} {block.line}'"]
    if block.mark == BESIDE:
        log = f'"$HOME/.terminal-{block.line}"'
        return [
            *lines,
            f"( {text.strip()} ) > {log} 2>&1 &",
            f"for _ in $(seq 1200); do grep -Eq '{_STARTED}' {log} && break; sleep 0.1; done",
            f"grep -Eq '{_STARTED}' {log} || {{ cat {log}; exit 1; }}",
            f"cat {log}",
        ]
    if block.language == "sql":
        client = shlex.join(sql)
        return [*lines, f"{client} <<'END OF SQL'", text.rstrip("\n"), "END OF SQL"]
    if block.language == "python":
        return [*lines, "python - <<'END OF PYTHON'", text.rstrip("\n"), "END OF PYTHON"]
    return [*lines, text.rstrip("\n")]


def _ran(blocks: Sequence[Block], printed: str) -> list[Ran]:
    parts = re.split(rf"^{_SIGN} (\d+)\n", printed, flags=re.MULTILINE)
    of_line = dict(zip(map(int, parts[1::2]), parts[2::2], strict=True))
    found: list[Ran] = []
    for number, block in enumerate(blocks):
        if block.line in of_line:
            after = blocks[number + 1] if number + 1 < len(blocks) else None
            shown = after.text if after and after.language in _PRINTED else ""
            found.append(Ran(block, of_line[block.line], shown))
    return found
