"""What is mirrored, whatever it is: what commands ask of tables of one database and of tables of
tenants alike.

What belongs here: the questions, and who answers them for which kind. What doesn't: the answers
(`mirrorlake.operations.loading`, `mirrorlake.operations.tenants`, `mirrorlake.operations.planning`,
`mirrorlake.operations.status`).
"""
