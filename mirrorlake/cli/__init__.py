"""The command line: the engine's capabilities without Dagster.

Exit codes: 0 done · 1 anything not named here · 2 config or flags · 3 the machine · 4 the source ·
5 a schema or a type · 6 the lake · 7 the ledger, or a held table · 8 a proof that could not be made
· 9 a check that found a difference · 10 a check that can't decide yet, or nothing failed and not
all is right. Where several tables fail, the first failure's code.

What belongs here: options, tables for people, JSON for programs. What doesn't: the use cases
themselves (`mirrorlake.operations`).
"""
