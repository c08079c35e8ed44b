"""Reads the ``data:`` addresses in which OpenAI-format clients send pictures and files.

Called by client formats while they read a request.
"""

import re

_FORM = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*(?P<base64>;base64)?,", re.IGNORECASE | re.ASCII
)
# Names in use for types that have another; providers check.
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def read_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data of a ``data:`` address; None when it is none or its data are not base64."""
    head = _FORM.match(url)
    if head is None or not head["base64"]:
        return None
    media_type = (head["type"] or "text/plain").lower()
    return _ALIASES.get(media_type, media_type), url[head.end() :]
