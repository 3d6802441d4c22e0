"""Models: SQL and Python over mirrored tables, stream views, and tables that are made elsewhere.

What belongs here: what a model is, compiling, computing and checking it, its commands and records.
What doesn't: which tables the mirror has (`mirrorlake.serving.catalogue`), and loads into BigQuery.
"""

ADDS = {
    "computed": {"models": "mirrorlake.operations.models.computed:ComputedModels"},
    "recover": {"models": "mirrorlake.operations.models.jobs_in_bigquery:models_to_recover"},
    "lake.properties": {"models": "mirrorlake.models.external_tables:OF_MODEL"},
    "ledger.tables": {
        "model_partitions": "mirrorlake.models.ledger:MODEL_PARTITIONS",
        "model_checks": "mirrorlake.models.ledger:MODEL_CHECKS",
    },
    "commands: Models": {
        "run": "mirrorlake.cli.models:run_command",
        "show": "mirrorlake.cli.models:show_command",
        "test": "mirrorlake.cli.model_tests:test_command",
        "models": "mirrorlake.cli.generate:models_group",
        "external": "mirrorlake.cli.external:external",
    },
}
