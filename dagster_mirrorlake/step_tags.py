"""The tags of ops: how a run's executor may take their steps.

What belongs here: what an op says of itself. What doesn't: what heeds it
(`dagster_mirrorlake.threads`).
"""

from dagster_mirrorlake.table import LAYERS, Layer

_ORDER: tuple[Layer, ...] = (*LAYERS, "bigquery")

THREAD_TAG = "mirrorlake/thread"
"""On an op whose step may run beside others. Any other step runs in the run's main thread, one at a
time: nobody has promised that it can share its process."""


def step_tags(layer: Layer) -> dict[str, str]:
    """The tags of a layer's op, or of its checks': it runs in a thread, and what completes a chain
    goes before what begins another."""
    return {THREAD_TAG: "true", "dagster/priority": str(_ORDER.index(layer))}
