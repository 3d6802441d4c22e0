"""The installed command, for tests that run it in a process of its own."""

import sys
from pathlib import Path

COMMAND = (sys.executable, str(Path(sys.executable).with_name("mirrorlake")))
