"""Google Cloud by Google's own libraries, for every capability that speaks to it.

What belongs here: clients, their patience and their errors in our words, and tables of BigQuery
that somebody else writes. What doesn't: tables that we publish (`mirrorlake.bigquery`).
"""
