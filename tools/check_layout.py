"""What the layout promises and no linter holds; `make check` runs it.

- The engine's root has the modules of `ROOT_MODULES` and packages, nothing else.
- Each package says in its first words what belongs there and what does not.
- Each package of the engine is in the layers that import-linter holds.
- Only its own package knows a library that `ROOMS` names.
- No two types of the engine have one name, classes and names for types, but for private ones.
- What follows from a table's mode stands in one place: nothing else compares its name.
- Each kind of lake is in the contract that keeps destinations apart.
- Git holds nothing that .gitignore names: no virtual environment, no file made by running.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENGINE = ROOT / "mirrorlake"
PACKAGES = ("mirrorlake", "dagster_mirrorlake", "assets", "checks", "resources", "sensors", "demo")
ROOT_MODULES = {"__init__", "capabilities", "errors", "failpoints", "workspace"}
ROOMS = {
    "pyiceberg": ("mirrorlake/destinations/iceberg", "demo/oracle.py"),
    "apprise": ("mirrorlake/alerts/services.py",),
}
"""Libraries, and who may import them: the oracle reads the lake by itself, as it checks us."""
MODES_SAY = ("mirrorlake/config/modes.py", "mirrorlake/init", "demo")
"""Where what a mode means stands; what `init` writes and the demo shows is by the mode's name."""
WORDS = ("What belongs here", "What doesn't")


def strays() -> Iterator[str]:
    """Modules at the engine's root that belong into a package."""
    for path in sorted(ENGINE.glob("*.py")):
        if path.stem not in ROOT_MODULES:
            yield f"{path.relative_to(ROOT)}: no module belongs here; put it into its package"


def wordless() -> Iterator[str]:
    """Packages that don't say what belongs there."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("__init__.py")):
            said = " ".join((ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").split())
            if path.parent != ENGINE and not all(word in said for word in WORDS):
                yield f"{path.relative_to(ROOT)}: says not {' and '.join(WORDS)}"


def layerless() -> Iterator[str]:
    """Packages that stand in no layer."""
    contracts = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    contracts = contracts["tool"]["importlinter"]["contracts"]
    [layers] = [c["layers"] for c in contracts if c["name"] == "layers of the engine"]
    known = {name.strip() for layer in layers for name in layer.split("|")}
    for path in sorted(ENGINE.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        names = {".".join(parts[:length]) for length in range(2, len(parts) + 1)}
        if path.name != "__init__.py" and not names & known:
            yield f"{path.relative_to(ROOT)}: is in no layer of pyproject.toml"


def outsiders() -> Iterator[str]:
    """Modules that import a library which has a package of its own."""
    for package in (*PACKAGES, "definitions.py"):
        folder = ROOT / package
        for path in [folder] if folder.is_file() else sorted(folder.rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            for name in sorted(_imported(path) & set(ROOMS)):
                if not any(place == room or place.startswith(f"{room}/") for room in ROOMS[name]):
                    yield f"{place}: imports {name}; only {' and '.join(ROOMS[name])} may"


def doubles() -> Iterator[str]:
    """Types that have the name of another one."""
    known: dict[str, str] = {}
    for path in sorted(ENGINE.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        for node in ast.parse(path.read_text("utf-8")).body:
            name = _type_name(node)
            if name and not name.startswith("_"):
                if name in known:
                    yield f"{place}: type {name} is in {known[name]} already"
                known[name] = place


def _type_name(node: ast.stmt) -> str:
    """The name of the class, or of the type, that a statement of a module makes; '' if it makes
    none. A name in capitals and small letters that is set to something is a type's."""
    if isinstance(node, ast.ClassDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id if ast.unparse(node.annotation) == "TypeAlias" else ""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        return name if name[0].isupper() and not name.isupper() else ""
    return ""


def moded() -> Iterator[str]:
    """Comparisons of a mode's name: `MODES_SAY` has what follows from a mode."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            place = path.relative_to(ROOT).as_posix()
            if any(place == room or place.startswith(f"{room}/") for room in MODES_SAY):
                continue
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Compare) and _compares_mode(node):
                    yield f"{place}:{node.lineno}: compares a mode's name; use {MODES_SAY[0]}"


def _compares_mode(node: ast.Compare) -> bool:
    sides = [node.left, *node.comparators]
    modes = [s for s in sides if isinstance(s, ast.Attribute) and s.attr == "mode"]
    texts = [s for side in sides for s in ast.walk(side) if isinstance(s, ast.Constant)]
    return bool(modes) and any(isinstance(text.value, str) for text in texts)


def unheld() -> Iterator[str]:
    """Kinds of lakes that the contract for destinations doesn't name."""
    contracts = tomllib.loads(ROOT.joinpath("pyproject.toml").read_text("utf-8"))
    contracts = contracts["tool"]["importlinter"]["contracts"]
    named = {m for c in contracts if c["type"] == "independence" for m in c["modules"]}
    for path in sorted((ENGINE / "destinations").glob("*/__init__.py")):
        module = ".".join(path.parent.relative_to(ROOT).parts)
        if module not in named:
            yield f"{path.relative_to(ROOT)}: no contract of independence names it"


def _imported(path: Path) -> set[str]:
    """The packages that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found


def tracked() -> Iterator[str]:
    """Files that git holds although .gitignore names them, a symbolic link to .venv included."""
    if not (ROOT / ".git").exists():
        return
    command = ["git", "ls-files", "--cached", "--ignored", "--exclude-standard"]
    for name in subprocess.check_output(command, cwd=ROOT, text=True).splitlines():
        yield f"{name}: .gitignore names it, git holds it; git rm --cached {name}"


def main() -> int:
    found = [
        *strays(),
        *wordless(),
        *layerless(),
        *outsiders(),
        *doubles(),
        *moded(),
        *unheld(),
        *tracked(),
    ]
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
