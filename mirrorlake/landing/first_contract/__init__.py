"""`mirrorlake init --from-landing`: a first contract from files that landed.

What belongs here: looking at files, and what is proposed. What doesn't: a server's tables
(`mirrorlake.init`).
"""
