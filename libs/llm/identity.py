"""What every part of one answer says about itself, whatever the provider called it.

Made once per request by the edge, read by the renderers of ``formats``.
"""

from msgspec import Struct


class Identity(Struct, frozen=True, gc=False):
    """``id`` is the request id, ``model`` the name the client asked for, ``created`` Unix seconds."""

    id: str
    model: str
    created: int
