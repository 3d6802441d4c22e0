"""The documents' site: ``python -m tools.site`` builds it into ``site/``, ``--serve`` serves it on
loopback while pages change, ``--check`` builds it elsewhere and looks at what was built.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "site"
# The theme's own notice about another program's future, at each build.
os.environ.setdefault("NO_MKDOCS_2_WARNING", "1")


def main() -> int:
    """0 if the site was built, and nothing is wrong with it."""
    parser = argparse.ArgumentParser(prog="python -m tools.site", description=__doc__)
    parser.add_argument("--check", action="store_true", help="look at what was built; keep nothing")
    parser.add_argument("--serve", action="store_true", help="on 127.0.0.1, until Ctrl-C")
    parser.add_argument("--port", type=int, default=8000, help="of --serve")
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    if given.serve:
        from mkdocs.commands.serve import serve

        serve(str(ROOT / "mkdocs.yml"), dev_addr=f"127.0.0.1:{given.port}")
        return 0
    if not given.check:
        return build(SITE)
    with tempfile.TemporaryDirectory(prefix="mirrorlake-site-") as folder:
        return build(Path(folder)) or check(Path(folder))


def build(folder: Path) -> int:
    """Build the site; a broken link, a page that is in no menu or an unknown anchor is 1."""
    from mkdocs.commands.build import build as build_site
    from mkdocs.config import load_config
    from mkdocs.exceptions import Abort, BuildError

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    try:
        build_site(config)
    except (Abort, BuildError, ValueError) as error:
        sys.stderr.write(f"site: {error}\n")
        return 1
    finally:
        config.plugins.on_shutdown()
    return 0


def check(folder: Path) -> int:
    """1, and a line for each thing that is wrong with the site in ``folder``."""
    from tools.site_checks import find_wrong

    wrong = find_wrong(folder)
    for line in wrong:
        sys.stderr.write(f"site: {line}\n")
    pages = sum(1 for _ in folder.rglob("*.html"))
    sys.stdout.write(f"site: {pages} pages{'' if wrong else ', as a Git host shows them'}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
