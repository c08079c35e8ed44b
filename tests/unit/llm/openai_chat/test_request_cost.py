"""What the largest bodies may cost: hostile ones are refused before they are decoded, real ones are not.
Run by pytest; each body is read in a process of its own, whose memory is then known.
"""

import json
import subprocess
import sys

import pytest

from libs.llm.failures import BadRequest
from libs.llm.formats.openai_chat.request import parse
from libs.llm.providers.base import Target
from libs.llm.providers.openai_chat.request import provider_body

TARGET = Target(base_url="http://up/v1", model="up")
LARGEST = 31 * 1024 * 1024
READ = """
import json, resource, sys, time
from libs.llm.failures import BadRequest
from libs.llm.formats.openai_chat.request import parse
head, piece, count, tail = json.loads(sys.argv[1])
body = head.encode() + piece.encode() * count + tail.encode()
before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
try:
    parse(body)
    outcome = "read"
except BadRequest as error:
    outcome = error.message
spent = time.process_time() - started
print(json.dumps([outcome, spent, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024]))
"""
MESSAGE = '{"role":"user","content":['
HEAD = '{"model":"m","messages":[' + MESSAGE
UNKNOWN = HEAD + '{"type":"zz","text":['


def reading(head: str, piece: str, count: int, tail: str) -> tuple[str, float, float]:
    """How the body ended, the processor seconds and the MiB it took."""
    told = subprocess.run(
        [sys.executable, "-c", READ, json.dumps([head, piece, count, tail])], capture_output=True, text=True, check=True
    )
    outcome, seconds, mib = json.loads(told.stdout)
    return outcome, seconds, mib


@pytest.mark.parametrize(
    ("head", "piece", "tail"),
    [
        (UNKNOWN, "[],", "[]]}]}]}"),
        (UNKNOWN, "{},", "[]]}]}]}"),
        (UNKNOWN, "1,", "1]}]}]}"),
        (HEAD, '{"type":"t"},', '{"type":"t"}]}]}'),
        (HEAD, '{"type":"text","text":"a"},', '{"type":"t"}]}]}'),
        ('{"model":"m","messages":[', '{"role":"tool"},', '{"role":"tool"}]}'),
        ('{"model":"m"', ',"a":1', "}"),
    ],
    ids=["arrays", "objects", "numbers", "unknown parts", "text parts", "messages", "members"],
)
def test_the_largest_body_of_tiny_members_is_refused_at_once(head: str, piece: str, tail: str) -> None:
    outcome, seconds, mib = reading(head, piece, (LARGEST - len(head + tail)) // len(piece), tail)
    assert outcome.startswith("too many ")
    assert seconds < 0.6 and mib < 50


@pytest.mark.parametrize(
    ("head", "piece", "count", "tail"),
    [
        (UNKNOWN, "[],", 349_000, "[]]}]}]}"),
        (HEAD, '{"type":"t"},', 349_000, '{"type":"t"}]}]}'),
        (HEAD, '{"type":"text","text":"a"},', 233_000, '{"type":"t"}]}]}'),
        (HEAD, '{"type":"image_url","image_url":{"url":"https://a"}},', 174_000, '{"type":"t"}]}]}'),
        ('{"model":"m","messages":[', '{"role":"tool"},', 99_000, '{"role":"tool"}]}'),
        (HEAD + '{"type":"t"},{"type":"text","text":"\U0001f600', "a", LARGEST, '"}]}]}'),
    ],
    ids=["arrays", "unknown parts", "text parts", "images", "messages", "one text"],
)
def test_the_dearest_bodies_that_are_read_stay_cheap(head: str, piece: str, count: int, tail: str) -> None:
    outcome, seconds, mib = reading(head, piece, count, tail)
    assert outcome == "read"
    assert seconds < 1.5 and mib < 350


def test_too_many_messages_are_refused() -> None:
    tail = '{"role":"tool"}]}'
    assert reading('{"model":"m","messages":[', '{"role":"tool"},', 340_000, tail)[0].startswith("too many messages")


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([[n % 100, n % 77, n % 13] for n in range(160_000)], separators=(",", ":")),
        json.dumps({"rows": [{"id": n, "ok": True, "name": f"row {n}"} for n in range(110_000)]}),
        "if (a[0]) { f(a, b); }\n" * 200_000,
    ],
    ids=["numbers", "rows", "code"],
)
def test_a_million_tokens_of_dense_text_are_read(text: str) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    assert len(body) > 1024 * 1024
    assert parse(body).messages[0].text() == text


def test_large_bodies_of_many_brackets_are_refused_with_the_limit_named() -> None:
    with pytest.raises(BadRequest, match="700,000 commas and opening brackets"):
        parse(b"[" * 800_000)


def test_parts_around_an_unknown_one_travel_on_byte_by_byte() -> None:
    kept = b'{"type":"text", "text":"\\u00e9 1.0e2", "x":[1.0,  2e5]}'
    turn = b'{"role":"user","content":[' + kept + b',{"type":"zz","x":[{}]}],"name":"\\u0061"}'
    raw = b'{"model":"m","messages":[{"role":"user","content":"a"},' + turn + b"]}"
    told = provider_body(parse(raw), TARGET, "max_tokens", 9, stream=False)
    assert kept in told and b"zz" not in told and b'"name":"\\u0061"' in told
    json.loads(told)
