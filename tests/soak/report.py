"""What a soak came to: printed, kept as JSON, and made into docs/reliability.md.

The page's prose stands in `reliability.md` beside this file; its figures come from the committed
JSON in `results/`.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any
from xml.etree import ElementTree

from mirrorlake.failpoints import FAILPOINTS
from tests.soak.kills import KINDS, OF_TABLES
from tests.soak.moves import HANDS, MOVES
from tests.soak.soak import Soak
from tests.soak.steps import FINISHED, STEPS
from tools.plots import Bar, bar_chart, write_plots

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results"
PAGE = ROOT / "docs" / "reliability.md"
FAULTS = {
    "lost": "rows (or loads) lost",
    "doubled": "rows (or loads) doubled",
    "changed": "rows that differ",
    "stuck": "windows, loads, leases, runs that stayed stuck",
    "orphans": "orphan files after maintenance",
    "unexpected": "errors that are none of ours, and other surprises",
}
ACTS = tuple(dict.fromkeys(act for _, act in HANDS))
"""What other hands do."""
MUST_COVER = 50
"""From so many rounds on, a step that nothing was killed at fails the soak."""


def result_of(soak: Soak, rounds: int, seed: int, seconds: float) -> dict[str, Any]:
    """Everything that is kept of a soak, as JSON has it."""
    landed = [k for k in soak.killed if k.step != FINISHED]
    named = [k for k in landed if k.kill.kind == "step"]
    steps = {
        step: {
            kind: sum(k.step == step and k.kill.kind == kind for k in landed) for kind in OF_TABLES
        }
        for step in STEPS
    }
    return {
        "command": f"make soak ROUNDS={rounds} SEED={seed}",
        "commit": commit(),
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "rounds": rounds,
        "done": len(soak.killed),
        "episodes": soak.episodes,
        "seconds": round(seconds, 1),
        "kinds": {
            kind: dict(Counter(k.outcome for k in soak.killed if k.kill.kind == kind))
            for kind in KINDS
        },
        "steps": steps,
        "failpoints": {
            name: sum(k.kill.failpoint.partition(":")[0] == name for k in named)
            for name in FAILPOINTS
        },
        "recovery": {
            "median": round(median([k.recovery for k in soak.killed] or [0]), 2),
            "slowest": max([k.recovery for k in soak.killed] or [0]),
            "tries": max([k.tries for k in soak.killed] or [0]),
            "second_tries": sum(k.tries > 1 for k in soak.killed),
        },
        "moves": {name: sum(k.kill.move == name for k in soak.killed) for name in MOVES},
        "hands": {
            step: {
                act: sum((k.step, k.hand and k.hand[1]) == (step, act) for k in soak.killed)
                for act in ACTS
            }
            for step in (*STEPS, FINISHED)
        },
        "changes": dict(sorted(soak.changes.items())),
        "rows": soak.rows,
        "faults": {name: getattr(soak.findings, name) for name in FAULTS},
    }


def uncovered(result: Mapping[str, Any]) -> list[str]:
    """The steps and failpoints that nothing was killed at, where there were rounds enough."""
    if result["rounds"] < MUST_COVER:
        return []
    steps = [step for step, kinds in result["steps"].items() if not sum(kinds.values())]
    named = {**result["failpoints"], **result.get("moves", {})}
    return steps + [name for name, number in named.items() if not number]


def is_good(result: Mapping[str, Any]) -> bool:
    """No fault, every round done, and something was killed at every step."""
    whole = result["done"] == result["rounds"]
    return whole and not any(result["faults"].values()) and not uncovered(result)


def text_of(result: Mapping[str, Any]) -> str:
    """For the terminal: the figures, and every fault."""
    lines = ["", *(line for line in _figures(result) if not line.startswith("!["))]
    for name, found in result["faults"].items():
        lines += [f"{name}: {what}" for what in found[:20]]
    for name in uncovered(result):
        lines.append(f"nothing was killed at: {name}")
    lines += ["", "good" if is_good(result) else "NOT GOOD"]
    return "\n".join(lines)


def record(result: Mapping[str, Any]) -> None:
    """Keep the result, and write the page again."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    (RESULTS / "soak.json").write_text(text + "\n", "utf-8")
    write_page()


def record_alarms(result: Mapping[str, Any]) -> None:
    """Keep what `tests.soak.alarms` came to, and write the page again."""
    RESULTS.mkdir(exist_ok=True)
    text = json.dumps(result, indent=2, ensure_ascii=False)
    (RESULTS / "alarms.json").write_text(text + "\n", "utf-8")
    write_page()


def record_tests(junit: Path) -> None:
    """Keep what `make test-full` came to, from pytest's own XML, and write the page again."""
    suite = ElementTree.parse(junit).getroot().find("testsuite")  # noqa: S314 - pytest wrote it
    assert suite is not None
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    skipped = int(suite.get("skipped", 0))
    result = {
        "command": "make test-full",
        "commit": commit(),
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "passed": int(suite.get("tests", 0)) - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "minutes": round(float(suite.get("time", 0)) / 60, 1),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "full.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    write_page()


def record_mutants(found: Mapping[str, Any]) -> None:
    """Keep what `tools/mutate.py` came to, by module, and write the page again."""
    RESULTS.mkdir(exist_ok=True)
    kept = RESULTS / "mutants.json"
    before: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {}
    modules = {**before.get("modules", {}), **found}
    result = {
        "command": "python tools/mutate.py --record",
        "commit": commit(),
        "machine": machine(),
        "when": datetime.now(UTC).isoformat(timespec="minutes"),
        "modules": {name: modules[name] for name in sorted(modules)},
    }
    kept.write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n", "utf-8")
    write_page()


def write_page() -> None:
    """docs/reliability.md, and its charts."""
    PAGE.write_text(page(), "utf-8")
    write_plots(PAGE, plots())


def plots() -> dict[str, str]:
    """File name → chart, of the figures that are kept."""
    drawn: dict[str, str] = {}
    if (kept := RESULTS / "soak.json").exists():
        steps = json.loads(kept.read_text("utf-8"))["steps"]
        kills = {step: sum(kinds.values()) for step, kinds in steps.items()}
        bars = [Bar(step, [(number, "a")], str(number)) for step, number in kills.items()]
        title = "Where the run was when the kill fell"
        drawn["reliability-steps.svg"] = bar_chart(title, "kills", bars)
    if (kept := RESULTS / "mutants.json").exists():
        bars = [
            Bar(name, [(killed, "a"), (known, "c"), (left, "d")], f"{killed} of {made}")
            for name, made, killed, known, left in _mutant_rows(json.loads(kept.read_text("utf-8")))
        ]
        words = [
            ("a", "noticed"),
            ("c", "not, and explained below"),
            ("d", "not, and not explained"),
        ]
        title = "Mutants that tests noticed, by module"
        drawn["reliability-mutants.svg"] = bar_chart(title, "mutants", bars, words)
    return drawn


def page() -> str:
    """docs/reliability.md from its prose and the figures that are kept."""
    text = (HERE / "reliability.md").read_text("utf-8")
    kinds = "\n".join(f"| {kind} | {how} |" for kind, how in KINDS.items())
    text = text.replace("{{kinds}}", kinds)
    text = text.replace("{{explained}}", (HERE / "mutants.md").read_text("utf-8").strip())
    sections = (("soak", _figures), ("full", _full), ("alarms", _alarms), ("mutants", _mutants))
    for name, figures in sections:
        kept = RESULTS / f"{name}.json"
        lines = figures(json.loads(kept.read_text("utf-8"))) if kept.exists() else ["Not run yet."]
        text = text.replace("{{" + name + "}}", "\n".join(lines))
    return text


def _figures(result: Mapping[str, Any]) -> list[str]:
    recovery = result["recovery"]
    changes = ", ".join(f"{number:,} × {kind}" for kind, number in result["changes"].items())
    return [
        f"{result['done']} rounds in {result['episodes']} episodes, {result['seconds']:.0f} s "
        f"({result['seconds'] / max(result['done'], 1):.1f} s a round). Live changes meanwhile: "
        f"{changes}. Then {result['rows']:,} rows with a key, and all those without one, were "
        "compared cell by cell.",
        "",
        *_markdown(
            ("what was looked for", "found"),
            [(what, str(len(result["faults"][name]))) for name, what in FAULTS.items()],
        ),
        "",
        *(line for note in result.get("notes", ()) for line in (note, "")),
        f"A new run put everything right in {recovery['median']} s (median; "
        f"slowest {recovery['slowest']} s); {recovery['second_tries']} times it took more than one "
        f"try, never more than {recovery['tries']}.",
        "",
        "Where the run was when the kill fell, by what was killed:",
        "",
        "![Kills by step of the protocol: the table below](images/plots/reliability-steps.svg)",
        "",
        *_markdown(
            ("step of the protocol", *OF_TABLES, "all"),
            [
                (step, *(str(n) for n in kinds.values()), str(sum(kinds.values())))
                for step, kinds in result["steps"].items()
            ],
        ),
        "",
        "Kills at named steps (the column `step` above):",
        "",
        *_markdown(
            ("failpoint", "kills"), [(f"`{n}`", str(k)) for n, k in result["failpoints"].items()]
        ),
        "",
        *_moves(result),
        *_hands(result),
        "What became of the run:",
        "",
        *_markdown(
            ("killed", "rounds", "outcome"),
            [
                (kind, str(sum(found.values())), ", ".join(f"{n} {w}" for w, n in found.items()))
                for kind, found in result["kinds"].items()
            ],
        ),
        "",
        _origin(result),
    ]


def _moves(result: Mapping[str, Any]) -> list[str]:
    """What was done to tables and contracts, in soaks that do so."""
    made = result.get("moves")
    if not made:
        return []
    rows = [(what, str(made[name])) for name, what in MOVES.items() if name in made]
    return [
        "What was changed before a run that was killed:",
        "",
        *_markdown(("", "times"), rows),
        "",
    ]


def _hands(result: Mapping[str, Any]) -> list[str]:
    """What other hands did to the lake between a kill and the next run."""
    made: Mapping[str, Mapping[str, int]] = result.get("hands") or {}
    done = {step: acts for step, acts in made.items() if sum(acts.values())}
    if not done:
        return []
    return [
        "What other hands did to the lake between the kill and the next run, by where the run was:",
        "",
        *_markdown(
            ("step of the protocol", *ACTS, "all"),
            [
                (step, *(str(n) for n in acts.values()), str(sum(acts.values())))
                for step, acts in done.items()
            ],
        ),
        "",
    ]


def _full(result: Mapping[str, Any]) -> list[str]:
    return [
        *_markdown(
            ("passed", "failed", "skipped", "minutes"),
            [tuple(str(result[name]) for name in ("passed", "failed", "skipped", "minutes"))],
        ),
        "",
        *(line for note in result.get("notes", ()) for line in (note, "")),
        _origin(result),
    ]


def _alarms(result: Mapping[str, Any]) -> list[str]:
    verdicts = ", ".join(f"{number} × {what}" for what, number in result["verdicts"].items())
    return [
        f"{result['seconds']} s of live changes at {result['rate']} a second "
        f"({', '.join(f'{n:,} × {kind}' for kind, n in result['changes'].items())}); clocks off by "
        f"{', '.join(f'{c:+d}' for c in result['clocks'])} s; the replica up to {result['lag']} s "
        f"behind; `settle` {result['settle']} s. {result['compared']:,} rows were compared, "
        f"{result['waiting']:,} waited. Verdicts: {verdicts}.",
        "",
        *_markdown(
            ("what", "found"),
            [
                ("false alarms", str(len(result["false"]))),
                ("rows that were deleted in MySQL, and named", str(result["deleted_and_told"])),
                ("altered rows that were not named", str(len(result["missed"]))),
            ],
        ),
        "",
        _origin(result),
    ]


def _mutants(result: Mapping[str, Any]) -> list[str]:
    rows = _mutant_rows(result)
    total = ("**all**", *(sum(row[n] for row in rows) for n in range(1, 5)))
    return [
        "![Mutants by module: the table below](images/plots/reliability-mutants.svg)",
        "",
        *_markdown(
            ("module", "mutants", "killed", "explained", "not explained"),
            [(str(name), *map(str, figures)) for name, *figures in (*rows, total)],
        ),
        "",
        _origin(result),
    ]


def _mutant_rows(result: Mapping[str, Any]) -> list[tuple[str, int, int, int, int]]:
    """Module, mutants, killed, explained, not explained."""
    explained = (HERE / "mutants.md").read_text("utf-8")
    rows: list[tuple[str, int, int, int, int]] = []
    for name, one in result["modules"].items():
        known = sum(told in explained for told in one["survivors"])
        left = len(one["survivors"])
        rows.append((name, one["mutants"], one["mutants"] - left, known, left - known))
    return rows


def _origin(result: Mapping[str, Any]) -> str:
    return (
        f"Command: `{result['command']}` · commit {result['commit']} · {result['machine']} · "
        f"{result['when']} UTC."
    )


def _markdown(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    head = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return head + ["| " + " | ".join(row) + " |" for row in rows]


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"


if __name__ == "__main__":
    record_tests(Path(sys.argv[1]))
