"""The shape of keys and their hashes: what is issued is recognised, and a hash tells nothing of the key."""

import re

import pytest

from libs.core.keys import hash_key, looks_like_key, new_key

SECRET = b"a secret of the server, long enough"


def test_every_new_key_starts_with_kn_and_is_recognised() -> None:
    keys = {new_key() for _ in range(500)}
    assert len(keys) == 500
    for key in keys:
        assert re.fullmatch(r"kn-[A-Za-z0-9_-]{43}", key)
        assert looks_like_key(key)


@pytest.mark.parametrize(
    "text",
    ["", "kn-", "sk-" + "a" * 43, "kn-" + "a" * 42, "kn-" + "a" * 44, "kn-" + "a" * 42 + "!", "KN-" + "a" * 43,
     " kn-" + "a" * 43, "kn-" + "a" * 43 + "\n", "kn-" + "ä" * 43],
)  # fmt: skip
def test_anything_else_is_not_taken_for_a_key(text: str) -> None:
    assert not looks_like_key(text)


def test_hash_is_hmac_sha256_in_lower_hex() -> None:
    # RFC 4231, test case 2.
    assert hash_key(b"Jefe", "what do ya want for nothing?") == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_hash_depends_on_the_servers_secret() -> None:
    key = new_key()
    assert hash_key(SECRET, key) == hash_key(SECRET, key)
    assert hash_key(SECRET, key) != hash_key(SECRET + b"!", key)
    assert re.fullmatch(r"[0-9a-f]{64}", hash_key(SECRET, key))
