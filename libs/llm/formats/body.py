"""Decodes the bodies clients send, within limits, into typed members and raw ones.

Called first by every client format; what it lets through is JSON of the expected types and of bounded cost.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from msgspec import DecodeError, Raw, Struct, ValidationError
from msgspec.json import Decoder

from libs.llm.failures import BadRequest, NotJson

NULL = Raw(b"null")
"""Absent or null: ``Raw | None`` is no type a decoder takes."""

MOST_MESSAGES = 100_000  # each costs a model several tokens besides its text
LARGEST_LIMIT = 2**31 - 1
"""Output limits are capped here: fits every provider's integer; far above every model's own limit."""

# Each opening bracket and comma may become an object of ours, so their number bounds the time and memory a body
# takes. A million tokens of code or JSON have 50,000 to 400,000 of them, of nothing but small numbers 670,000.
_MOST_MARKS = 700_000

decode_members = Decoder(dict[str, Raw]).decode
"""The members of a JSON object, each as it was sent."""

decode_list = Decoder(list[Raw]).decode
"""The elements of a JSON array, each as it was sent."""

Typed = TypeVar("Typed", bound=Struct)
Decoded = TypeVar("Decoded")


class BodyDecoder(Generic[Typed]):
    """Reads bodies of one format. ``known`` holds the members that are interpreted, all with defaults."""

    def __init__(self, known: type[Typed]) -> None:
        self._decode = Decoder(known).decode

    def read(self, body: bytes) -> tuple[Typed, dict[str, Raw]]:
        """The known members typed, and all members raw; of a member sent twice both see the last.

        Raises ``BadRequest`` with the path of the member at fault.
        """
        if len(body) > _MOST_MARKS:
            _check_marks(body)
        if not body.isascii():
            # Members nobody reads are skipped unread: without this, broken UTF-8 would travel on in them.
            try:
                body.decode()
            except UnicodeDecodeError:
                raise NotJson("the body is not valid JSON") from None
        return decode_at("", self._decode, body), decode_at("", decode_members, body)


def decode_at(path: str, decode: Callable[[bytes | Raw], Decoded], data: bytes | Raw) -> Decoded:
    """Decode the part of a body that stands at ``path`` ("" for the whole); raise ``BadRequest`` with the full path."""
    try:
        return decode(data)
    except ValidationError as error:
        problem, _, inner = str(error).partition(" - at `$")
        field = (path + inner.rstrip("`")).lstrip(".")
        raise BadRequest(f"`{field}`: {problem}" if field else f"the body: {problem}", field or None) from None
    except DecodeError:
        raise NotJson("the body is not valid JSON") from None
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None


def _check_marks(body: bytes) -> None:
    """Refuse what would take long to decode; those inside strings count too, since telling them apart takes as long."""
    if body.count(b",") + body.count(b"{") + body.count(b"[") > _MOST_MARKS:
        raise BadRequest(f"too many members and elements: a body may hold {_MOST_MARKS:,} commas and opening brackets")
