"""The kinds of kill, and the seeded order in which a soak deals them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from mirrorlake.failpoints import FAILPOINTS, OF_CLEAN_TENANTS, OF_TENANTS
from tests.soak.moves import HANDS, MOVES
from tests.soak.moves import TABLES as MOVED

T = TypeVar("T")
KINDS = {
    "step": "the run, at a named step of the protocol (a failpoint)",
    "run": "the run's process alone, at a random moment; the JVM that it used lives on",
    "tree": "the whole process tree of the run, its JVM too, at a random moment",
    "jvm": "the Spark JVM alone, at a random moment",
    "server": "the MariaDB server, at a random moment; it comes back within two seconds",
    "connection": "every connection to MariaDB (reset by a proxy), at a random moment",
    "move": "the run, at a random moment, as the first one after somebody changed table or contract",
    "tenants": "the sync of a table of tenants, at a named step or a random moment, after some joined "
    "or left, got another shape or other rows",
}
# Of a hundred rounds. A JVM takes seconds to come back, so fewer of those.
WEIGHTS = {
    **{"step": 40, "run": 12, "tree": 7, "jvm": 5, "server": 8, "connection": 8},
    **{"move": 10, "tenants": 10},
}
# Passed by the tables that are named, and not by others.
ONLY_PROVED = "cities"
ONLY_RELOADS = "reload.looked_up"
TABLES = ("orders", "visits", "clicks", "cities", "parcels", "stocks")
BY_HAND = 0.4
"""In so many rounds somebody else writes to the lake after the kill."""
OF_TABLES = tuple(kind for kind in KINDS if kind != "tenants")
TENANTS = "tenants"
FRESH = "fresh"
"""A table of the round's own, whose first load has several chunks."""


@dataclass(frozen=True)
class Kill:
    """One round: what is killed, during which act on which table.

    ``moment`` is where in the act's usual time a random kill falls, 0 to 1; ``pause`` for how many
    seconds a server or the way to it stays away.
    """

    kind: str
    table: str
    act: str
    failpoint: str
    moment: float
    pause: float
    move: str = ""
    """What was changed before: one of `tests.soak.moves.MOVES`."""
    hand: tuple[str, str] | None = None
    """What other hands do between the kill and the next run: one of `tests.soak.moves.HANDS`."""


def deal(rounds: int, seed: int, kinds: dict[str, int] | None = None) -> list[Kill]:
    """So many rounds in a seeded order; every kind and every failpoint as evenly as can be."""
    rng = Random(seed)  # noqa: S311
    weights = kinds or WEIGHTS
    names = _evenly(rng, [k for k, n in weights.items() for _ in range(n)], rounds)
    points = iter(_evenly(rng, list(FAILPOINTS), names.count("step")))
    moves = iter(_evenly(rng, list(MOVES), names.count("move")))
    steps = ["", "", *OF_TENANTS, *OF_CLEAN_TENANTS]
    of_tenants = iter(_evenly(rng, steps, names.count(TENANTS)))
    kills: list[Kill] = []
    for kind in names:
        if kind == "move":
            kills.append(_moved(rng, next(moves)))
        elif kind == TENANTS:
            kills.append(Kill(kind, TENANTS, "sync", next(of_tenants), rng.random(), 0.0))
        else:
            kills.append(_kill(rng, kind, next(points) if kind == "step" else ""))
    hands = iter(_evenly(rng, list(HANDS), rounds))
    by_hand = [kill.kind not in ("move", TENANTS) and rng.random() < BY_HAND for kill in kills]
    return [
        replace(kill, hand=next(hands)) if by else kill
        for kill, by in zip(kills, by_hand, strict=True)
    ]


def _moved(rng: Random, move: str) -> Kill:
    return Kill("move", MOVED[move], "sync", "", rng.random(), 0.0, move)


def _evenly(rng: Random, deck: list[T], number: int) -> list[T]:
    dealt: list[T] = []
    while len(dealt) < number:
        dealt += rng.sample(deck, len(deck))
    return dealt[:number]


def _kill(rng: Random, kind: str, point: str) -> Kill:
    table = rng.choices((*TABLES, FRESH), (40, 10, 10, 12, 10, 7, 11))[0]
    act = "reload" if table == "orders" and rng.random() < 0.25 else "sync"
    failpoint = point
    if failpoint == ONLY_RELOADS:
        table, act = "orders", "reload"
    elif failpoint.startswith("chunks."):
        table = FRESH
    elif failpoint.startswith(("branch.", "commit.staged", "commit.proved")):
        table, act = ONLY_PROVED, "sync"
    elif failpoint.startswith("fold") and table == "orders" and rng.random() < 0.4:
        failpoint += ":2"  # clean's fold, after deduped's
    # What is asked of MySQL is asked in the first part of a sync.
    moment = rng.random() * (0.6 if kind in ("server", "connection") else 1.0)
    return Kill(kind, table, act, failpoint, moment, rng.choice((0.0, 0.3, 1.5)))
