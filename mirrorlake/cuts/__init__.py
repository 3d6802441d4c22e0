"""Cuts: a source's tables at one place in its log, under one name, and proved there.

What belongs here: how tables are brought to one place, tagged, compared with MySQL at that place,
listed and dropped. What doesn't: following the log (`mirrorlake.operations.loading.follow_log`).
"""

ADDS = {
    "config.sections": {"cuts": "mirrorlake.cuts.config:CutsConfig"},
    "config.problems": {"cuts": "mirrorlake.cuts.config:cuts_problems"},
    "ledger rebuild": {"cuts": "mirrorlake.cuts.restore:restore_cuts"},
    "between rounds": {"cuts": "mirrorlake.cuts.due:FOLLOWER"},
    "ledger.tables": {
        "cuts": "mirrorlake.cuts.ledger:CUTS",
        "cut_tables": "mirrorlake.cuts.ledger:CUT_TABLES",
        "cut_foreign_keys": "mirrorlake.cuts.ledger:CUT_KEYS",
        "cut_key_looks": "mirrorlake.cuts.ledger:CUT_KEY_LOOKS",
        "cut_evidence": "mirrorlake.cuts.evidence:CUT_EVIDENCE",
        "cut_forms": "mirrorlake.cuts.evidence:CUT_FORMS",
    },
    "clean views: followers": {"cuts": "mirrorlake.cuts.clean_views:FOLLOWER"},
    "check: others": {"cut": "mirrorlake.cuts.check_option:CUT_AGAIN"},
    "clone: others": {"cut": "mirrorlake.cuts.clone_option:CUT_CLONE"},
    "models: read at": {"cuts": "mirrorlake.cuts.readable:ReadableCuts"},
    "commands: Prove and repair": {
        "cut": "mirrorlake.cuts.cli:cut",
        "cuts": "mirrorlake.cuts.cli:cuts",
        "at": "mirrorlake.cuts.cli:at",
    },
}
