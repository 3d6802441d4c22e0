"""Where mirrored tables live.

What belongs here: what any lake must offer (`base`), and a package for each kind of lake. What
doesn't: what the tables mean, which is `mirrorlake.table`'s, and how rows get there, which is
`mirrorlake.load`'s and `mirrorlake.merge`'s.
"""
