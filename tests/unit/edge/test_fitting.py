"""What of a request fits a model, and the headers that tell what else became of it."""

from typing import Any

import pytest
from kenari.router.v1 import router_pb2

from libs.llm.canonical import DEFAULT_MAX_TOKENS
from services.edge.errors import RefusedError
from services.edge.fitting import fitting_max_tokens, forwarded_header
from tests.unit.edge.peers import asked


def fitting(input_tokens: int, **limits: Any) -> int:
    return fitting_max_tokens(asked("m", input_tokens=input_tokens).request, router_pb2.Model(id="m", **limits))


@pytest.mark.rule("MODEL-017")
def test_an_input_beyond_the_models_own_limit_is_refused_though_it_fits_the_context() -> None:
    assert fitting(600, context_length=1_000, max_input_tokens=600) == 400
    with pytest.raises(RefusedError) as refused:
        fitting(601, context_length=1_000, max_input_tokens=600)
    assert (refused.value.error.status, refused.value.error.code) == (400, "context_length_exceeded")


@pytest.mark.rule("MODEL-018", "MODEL-043")
def test_a_limit_that_is_not_recorded_limits_nothing() -> None:
    assert fitting(10) == DEFAULT_MAX_TOKENS
    assert fitting(10, max_output_tokens=100) == 100


@pytest.mark.rule("MODEL-062", "MODEL-063")
def test_only_a_forwarded_request_says_so() -> None:
    request = asked("old").request
    assert forwarded_header(request, router_pb2.Model(id="new")) == ((b"x-kenari-model-forwarded", b"old->new"),)
    assert forwarded_header(request, router_pb2.Model(id="old")) == ()
