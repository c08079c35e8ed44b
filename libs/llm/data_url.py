"""Reads the addresses clients give for pictures and files: ``data:`` ones, and which others may go to a provider.

Called by client formats while they read a request.
"""

import re

_FORM = re.compile(
    r"data:(?P<type>[\w.+-]+/[\w.+-]+)?(?:;[\w.+-]+=[^;,]*)*(?P<base64>;base64)?,", re.IGNORECASE | re.ASCII
)
# Names in use for types that have another; providers check.
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}
_WEB = ("https://", "http://")


def is_web_address(url: str) -> bool:
    """Whether it is one a provider may be asked to fetch; nothing but the web is."""
    return url[:8].lower().startswith(_WEB)


def read_data_url(url: str) -> tuple[str, str] | None:
    """Media type and base64 data of a ``data:`` address; None when it is none or its data are not base64."""
    head = _FORM.match(url)
    if head is None or not head["base64"]:
        return None
    media_type = (head["type"] or "text/plain").lower()
    return _ALIASES.get(media_type, media_type), url[head.end() :]
