"""Rates of currencies, as any source of dlt's would bring them."""

from collections.abc import Iterator

import dlt


@dlt.source
def rates() -> dlt.sources.DltResource:
    @dlt.resource(name="daily", primary_key=("day", "currency"), write_disposition="merge")
    def daily() -> Iterator[dict[str, object]]:
        yield {"day": "2026-01-31", "currency": "USD", "rate": 1.1}

    return daily


rates_source = rates()
rates_pipeline = dlt.pipeline("rates", destination="duckdb", dataset_name="rates")
