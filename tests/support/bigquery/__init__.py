"""BigQuery and Cloud Storage on this machine."""
