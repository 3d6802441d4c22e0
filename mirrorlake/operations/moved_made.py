"""What follows where the table of a landing is not as our last commit left it.

    table           | what happened         | what follows
    ----------------|-----------------------|------------------------------------------------------
    any             | our version is there  | it is shown again: `show_ours`
    a landing's     | set back, or gone     | its snapshots are folded again from their files
    a landing's     | another, or rows by   | refused
                    | others over ours      |

What belongs here: tables that are made of no raw of ours. What doesn't: mirrored tables and tenants
(`mirrorlake.operations.moved_layers`).
"""

from __future__ import annotations

STEPS = {
    "written": "Set its main back to the last version that Mirrorlake made (`mirrorlake publish "
    "TABLE` lists them, with `--rollback` it is shown again)",
    "another": "Rename or drop the table that stands in its place, then put ours back: by its "
    "name, or by `mirrorlake lake find`",
}
