"""What `mirrorlake init` writes: a first contract, from a server or from landed files.

What belongs here: looking, proposing, and the file's text. What doesn't: reading a contract, which
is `mirrorlake.config`'s.
"""

ADDS = {"commands: Start": {"init": "mirrorlake.init.cli:init"}}
