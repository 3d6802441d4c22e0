"""The machine that Mirrorlake runs on: its cache folder, Java, jars, and ``doctor``.

What belongs here: finding a piece, bringing it once with its checksum verified, and one clear line
when it is missing or broken. What doesn't: anything that knows of tables, sources or sessions.
"""
