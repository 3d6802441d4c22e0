"""`mirrorlake explain`: what an error or an exit code means, and what to do.

What belongs here: the texts (`explanations.yaml`), from which docs/runbook.md is written too, and
finding the one that is asked for. What doesn't: the errors themselves (`mirrorlake.errors`).
"""
