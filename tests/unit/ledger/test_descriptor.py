"""Descriptors say what we granted, and nobody else can make one."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.ledger.domain.descriptor import Descriptor, Signer

GRANTED = Descriptor("0198" + "0" * 28, 0, "acct_1", "payg", "v-2026|odd")
names = st.text(st.characters(blacklist_characters="|", blacklist_categories=["Cs"]), max_size=40)


@given(names, st.integers(0, 2**31), names, names, st.text(st.characters(blacklist_categories=["Cs"]), max_size=40))
def test_what_was_signed_is_read_back(request: str, line: int, account: str, kind: str, version: str) -> None:
    signer = Signer(b"secret")
    granted = Descriptor(request, line, account, kind, version)

    assert signer.read(signer.sign(granted)) == granted


def test_another_secret_reads_nothing() -> None:
    assert Signer(b"other").read(Signer(b"secret").sign(GRANTED)) is None


FOREIGN = base64.urlsafe_b64encode(b"0" * 40).decode()


@pytest.mark.parametrize("text", ["", "x", "not base64 at all!", "ünicode", FOREIGN])
def test_junk_reads_as_nothing(text: str) -> None:
    assert Signer(b"secret").read(text) is None


def test_a_changed_byte_reads_as_nothing() -> None:
    raw = bytearray(base64.urlsafe_b64decode(Signer(b"secret").sign(GRANTED)))
    for position in range(len(raw)):
        raw[position] ^= 1
        assert Signer(b"secret").read(base64.urlsafe_b64encode(raw).decode()) is None
        raw[position] ^= 1
