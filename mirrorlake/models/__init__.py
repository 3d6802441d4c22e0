"""Models: SQL and Python over mirrored tables, stream views, and tables that are made elsewhere.

What belongs here: what a model is, compiling, computing and checking it, its commands and records.
What doesn't: which tables the mirror has (`mirrorlake.serving.catalogue`), and loads into BigQuery.
"""

ADDS = {
    "computed": {"models": "mirrorlake.models.computed:ComputedModels"},
    "lake.properties": {"models": "mirrorlake.models.external_sources.tables:OF_MODEL"},
    "ledger.tables": {
        "model_partitions": "mirrorlake.models.ledger:MODEL_PARTITIONS",
        "model_checks": "mirrorlake.models.ledger:MODEL_CHECKS",
    },
    "recorded copies": {"models": "mirrorlake.models.ledger:model_copies"},
    "commands: Models": {
        "run": "mirrorlake.models.cli.run_and_show:run_command",
        "show": "mirrorlake.models.cli.run_and_show:show_command",
        "test": "mirrorlake.models.cli.test:test_command",
        "models": "mirrorlake.models.cli.generate:models_group",
        "external": "mirrorlake.models.cli.external:external",
    },
}
