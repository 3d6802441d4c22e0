"""`mirrorlake try`: a mirror and its proof, for somebody who has no database at hand.

What belongs here: an invented shop, and the commands that are run over it. What doesn't: the server
that holds it, which is `mirrorlake.runtime.embedded`.
"""

NEEDS = ("init",)
ADDS = {"commands: Start": {"try": "mirrorlake.trial.cli:try_"}}
