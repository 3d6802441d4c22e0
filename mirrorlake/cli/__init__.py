"""The command line: the engine's capabilities without Dagster.

Exit codes: 0 done · 1 anything not named here · 2 the contract file, a flag, a model's file · 3 the
machine: Java, a jar, a port · 4 the source · 5 a schema or a type · 6 the lake, or BigQuery · 7 the
ledger, or a table that another run holds · 8 a proof that could not be made, or a load that failed
its proof · 9 a difference, a failed test, expectation or external check · 10 a check that can't
decide yet, or nothing failed and not all is right · 20 `plan` and `preflight`: readers lose a
column, or a table stops · 130 Ctrl-C. Where several tables fail, the first failure's code.

What belongs here: options, tables for people, JSON for programs. What doesn't: the use cases
themselves (`mirrorlake.operations`).
"""
