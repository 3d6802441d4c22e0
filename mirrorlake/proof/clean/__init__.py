"""Clean held against deduped, by the contract's rules stated a second time.

What belongs here: that comparison. What doesn't: anything that makes clean.
"""
