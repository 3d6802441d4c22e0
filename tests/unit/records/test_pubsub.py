"""Records to a topic of Pub/Sub, over the wire to a server on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import grpc
import pytest

from mirrorlake.errors import RecordsError
from mirrorlake.records import pubsub
from mirrorlake.records.pubsub import Topic
from mirrorlake.records.queue import Message
from tests.unit.records.pubsub_server import PubSubServer, pubsub_server

TOPIC = "projects/acme/topics/changes"


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[PubSubServer]:
    with pubsub_server() as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        monkeypatch.setattr(pubsub, "_PATIENCE", 3.0)
        yield server


def message(number: int, key: str = "k", body: bytes = b"{}") -> Message:
    return Message(f"id-{number}", f"s.d.t:{key}", {"id": f"id-{number}", "table": "t"}, body)


def test_messages_of_a_key_are_in_order_whatever_else_is_sent(served: PubSubServer) -> None:
    topic = Topic(TOPIC, "s.d.t")
    topic.send([message(n, key=f"k{n % 7}") for n in range(100)])
    topic.close()
    assert {request.topic for request in served.requests} == {TOPIC}
    assert {one.attributes["id"] for one in served.messages} == {f"id-{n}" for n in range(100)}
    for key in range(7):
        own = [m for m in served.messages if m.ordering_key == f"s.d.t:k{key}"]
        assert [m.attributes["id"] for m in own] == [f"id-{n}" for n in range(key, 100, 7)]


def test_what_passes_is_tried_again(served: PubSubServer) -> None:
    served.refusals += [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED]
    topic = Topic(TOPIC, "s.d.t")
    topic.send([message(1, body="größe".encode())])
    topic.close()
    [one] = served.messages
    assert (one.data.decode(), one.attributes["table"]) == ("größe", "t")


@pytest.mark.parametrize(
    ("code", "words", "retryable"),
    [
        (grpc.StatusCode.NOT_FOUND, f"Make the topic, or correct its name: {TOPIC}", False),
        (grpc.StatusCode.PERMISSION_DENIED, "roles/pubsub.publisher", False),
        (grpc.StatusCode.INVALID_ARGUMENT, "refused for a test", False),
        (grpc.StatusCode.UNAVAILABLE, "the next run goes on with it", True),
    ],
)
def test_a_refusal_names_the_topic_and_the_next_step(
    served: PubSubServer, code: grpc.StatusCode, words: str, retryable: bool
) -> None:
    served.refusals += [code] * 50
    topic = Topic(TOPIC, "s.d.t")
    with pytest.raises(RecordsError) as raised:
        topic.send([message(1)])
    topic.close()
    assert "table s.d.t: its records can't be published to projects/acme/topics/changes" in str(
        raised.value
    )
    assert words.lower() in str(raised.value).lower()
    assert raised.value.retryable == retryable
    assert served.messages == []


def test_requests_are_bounded_and_a_larger_record_is_refused(served: PubSubServer) -> None:
    topic = Topic(TOPIC, "s.d.t")
    topic.send([message(n, body=b"x" * 4_000_000) for n in range(5)])
    assert [m.attributes["id"] for m in served.messages] == [f"id-{n}" for n in range(5)]
    assert len(served.requests) == 3
    with pytest.raises(RecordsError, match=r"a record of 10\.0 MB \(id id-9\) is larger"):
        topic.send([message(8), message(9, body=b"x" * 10_000_000)])
    topic.close()


def test_nobody_logged_in_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", f"{tmp_path}/none.json")
    with pytest.raises(RecordsError, match="nobody is logged in"):
        Topic(TOPIC, "s.d.t")


def test_the_library_is_imported_for_a_topic_alone() -> None:
    code = (
        "import sys, mirrorlake.records.publish, mirrorlake.records.cli;"
        "sys.exit('google.pubsub_v1' in sys.modules or 'grpc' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
