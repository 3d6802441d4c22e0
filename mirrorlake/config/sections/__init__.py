"""The contract file as it is written: a model per section, with what each field means.

What belongs here: sections of which the engine takes tables, and what is wrong between fields. What
doesn't: those that are used as they are written (`settings`), and defaults filled in (`contract`).
"""
