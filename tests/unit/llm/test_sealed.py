"""Sealed reasoning comes back to the upstream that made it and to no other, whatever a client does to it."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.llm.canonical import SEALED
from libs.llm.providers.sealed import seal, unseal


@given(st.text(), st.text())
def test_only_the_upstream_that_sealed_can_unseal(upstream: str, text: str) -> None:
    sealed = seal(upstream, e=text)
    assert sealed.startswith(SEALED)
    assert unseal(sealed, upstream) == {"e": text}
    assert unseal(sealed, upstream + "x") is None


@pytest.mark.parametrize(
    "signature", ["", "kn1.", "kn1.%%%", "kn1.e30", "kn1.W10", "kn1.é", "kn2.e30", "ErUB", "kn1.eyJ1Ijp7fX0", "kn1.a"]
)
def test_junk_unseals_to_nothing(signature: str) -> None:
    assert unseal(signature, "u") is None


@given(st.text())
def test_no_text_breaks_unsealing(text: str) -> None:
    assert unseal(SEALED + text, "u") is None


def test_a_client_cannot_read_whose_it_is() -> None:
    sealed = seal("vendor/SECRET_NAME", e="x").removeprefix(SEALED)
    assert b"vendor" not in urlsafe_b64decode(sealed + "=" * (-len(sealed) % 4))
