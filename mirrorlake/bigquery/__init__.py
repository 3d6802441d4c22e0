"""BigQuery: loads what the lake shows, makes views of it, and compares the two.

What belongs here: the section ``bigquery``, Google's clients and BigQuery's types and SQL, loads,
checks, views, and tables of BigQuery that models read. What doesn't: who may do what with datasets
(`mirrorlake.permissions`).
"""

NEEDS = ("models",)
ADDS = {
    "config.sections": {"bigquery": "mirrorlake.bigquery.config:BigQueryConfig"},
    "config.problems": {"bigquery": "mirrorlake.bigquery.contract_problems:bigquery_problems"},
    "ledger.tables": {
        "publications": "mirrorlake.bigquery.ledger:PUBLICATIONS",
        "job_costs": "mirrorlake.bigquery.ledger:JOB_COSTS",
        "bigquery_named_versions": "mirrorlake.bigquery.named_versions:NAMED_VERSIONS",
    },
    "publishers": {"bigquery": "mirrorlake.bigquery.publisher:BIGQUERY"},
    "models: refused": {"bigquery": "mirrorlake.bigquery.refused_models:refuse_unpublishable"},
    "models: external stores": {"bigquery": "mirrorlake.bigquery.external_store:STORE"},
    "commands: external": {"views": "mirrorlake.bigquery.cli_external:external_views"},
    "commands: BigQuery": {"bigquery": "mirrorlake.bigquery.cli:bigquery"},
}
