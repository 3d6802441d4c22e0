"""A publisher service of Pub/Sub on loopback, over Google's own messages and wire."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import grpc
from google.pubsub_v1 import PublishRequest, PublishResponse

PUBLISH = "google.pubsub.v1.Publisher"


@dataclass
class PubSubServer:
    """What it took, request by request; ``refusals`` are answered first, one a request."""

    requests: list[PublishRequest] = field(default_factory=list)
    refusals: list[grpc.StatusCode] = field(default_factory=list)
    address: str = ""
    _lock: Any = field(default_factory=Lock)

    @property
    def messages(self) -> list[Any]:
        return [message for request in self.requests for message in request.messages]

    def publish(self, request: PublishRequest, context: grpc.ServicerContext) -> PublishResponse:
        """As the service: one ordering key a request, 10 MB and 1,000 messages at most."""
        with self._lock:
            if self.refusals:
                context.abort(self.refusals.pop(0), "refused for a test")
            keys = {message.ordering_key for message in request.messages}
            size = PublishRequest.pb(request).ByteSize()
            if len(keys) != 1 or len(request.messages) > 1000 or size > 10_000_000:
                context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"{len(keys)} keys, {size} bytes")
            self.requests.append(request)
            numbers = range(len(self.messages) - len(request.messages), len(self.messages))
            return PublishResponse(message_ids=[str(number) for number in numbers])


@contextmanager
def pubsub_server() -> Iterator[PubSubServer]:
    served = PubSubServer()
    handler = grpc.unary_unary_rpc_method_handler(
        served.publish,
        request_deserializer=PublishRequest.deserialize,
        response_serializer=PublishResponse.serialize,
    )
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.max_receive_message_length", -1)])
    handlers = grpc.method_handlers_generic_handler(PUBLISH, {"Publish": handler})
    server.add_generic_rpc_handlers((handlers,))
    served.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield served
    finally:
        server.stop(None)
