"""What the scripted providers of the fault cases answer when a case does not care.
Used by the fixtures ``p1`` and ``p2`` and by tests that refuse some requests only.
"""

from tests.support import anthropic_wire
from tests.support.provider import DONE, Received, Scripted, completion, delta, finish, stream, usage


def says_ok(request: Received) -> Scripted:
    """The answer "ok", in the wire that the request came in."""
    streamed = request.json.get("stream") is True
    if request.path.endswith("/messages"):
        if not streamed:
            return anthropic_wire.message(anthropic_wire.text("ok"))
        block = anthropic_wire.text_block(0, "ok")
        return anthropic_wire.events(anthropic_wire.start(10), block, anthropic_wire.end("end_turn", 2))
    if not streamed:
        return completion("ok")
    return stream(delta("", role="assistant"), delta("ok"), finish("stop"), usage(10, 2), DONE)
