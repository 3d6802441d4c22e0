"""Records: each change that raw has of tables of mode ``binlog``, as JSON outside of the lake.

What belongs here: the section ``records``, what a record says, the places where records go (files,
queues) and how far each was published. What doesn't: the log and the loads that bring it
(`mirrorlake.operations.loading`), and the form of values (`mirrorlake.landing.files.written`).
"""

NEEDS = ("landing",)
ADDS = {
    "config.sections": {"records": "mirrorlake.records.config:RecordsConfig"},
    "config.problems": {"records": "mirrorlake.records.config:records_problems"},
    "ledger.tables": {"record_progress": "mirrorlake.records.ledger:RECORD_PROGRESS"},
    "publishers": {"records": "mirrorlake.records.publisher:RECORDS"},
    "commands: Every day": {"records": "mirrorlake.records.cli:records"},
}
