"""Clients of Spark Connect find out that nothing passes any more."""

from __future__ import annotations

from pyspark.sql.connect.client import DefaultChannelBuilder

from mirrorlake.destinations.iceberg.spark.settings import keep_alive


def test_a_channel_pings() -> None:
    for _ in range(2):
        keep_alive()
        builder = DefaultChannelBuilder("sc://127.0.0.1:15002")
        options = builder._channel_options
        assert options.count(("grpc.keepalive_time_ms", 300_000)) == 1
        assert options.count(("grpc.keepalive_timeout_ms", 60_000)) == 1
        assert len(dict(options)) == len(options)
