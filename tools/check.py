"""`make check`: lint, format, types, layers, layout and the documents' site side by side; each
one's output is whole."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
CHECKS: tuple[tuple[str | Path, ...], ...] = (
    (BIN / "basedpyright",),  # the longest: it starts first
    (sys.executable, "-m", "tools.site", "--check"),
    (BIN / "lint-imports",),
    (BIN / "ruff", "check", "."),
    (BIN / "ruff", "format", "--check", "."),
    (sys.executable, "tools/check_layout.py"),
)


def main() -> int:
    """0 if every check passes; each is run whatever the others find."""
    started = [
        subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for command in CHECKS
    ]
    failed = 0
    # The quick ones are shown first.
    for command, check in reversed(list(zip(CHECKS, started, strict=True))):
        said, _ = check.communicate()
        print(said, end="", flush=True)
        if check.returncode:
            failed = 1
            name = " ".join(Path(part).name for part in command)
            print(f"check: {name} failed", file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
