"""``python -m mirrorlake.cli``."""

from mirrorlake.cli import main

main()
