"""`dg scaffold defs`: a first component, with the contract file that `mirrorlake init` writes.

What belongs here: what is asked and written. What doesn't: looking at a server (`mirrorlake.init`).
"""

ADDS = {"scaffolder": {"init": "dagster_mirrorlake.init.scaffolder:MirrorlakeScaffolder"}}
