"""Chat formats of clients and providers around one hub, and the calls to providers.

Used by the edge. A client format reads a body into the hub's request, a provider adapter answers it in the
hub's events, the client format renders them; no pair of formats knows each other. One request, in short::

    from contextlib import aclosing
    from libs.llm.failures import BadRequest, ProviderFailure
    from libs.llm.formats.openai_chat import FORMAT
    from libs.llm.http_transport import HttpTransport
    from libs.llm.identity import Identity
    from libs.llm.providers import Providers
    from libs.llm.providers.base import Target
    from libs.llm.tokens import estimated_usage, tokens_of

    transport = HttpTransport()                      # one per process; start() and stop()
    providers = Providers(transport)

    try:
        request = FORMAT.parse(body, header)         # ChatRequest; header(b"anthropic-beta") -> str | None
    except BadRequest as error:
        return FORMAT.render_error(error.api_error())  # status and body
    identity = Identity(id=request_id, model=request.model, created=unix_seconds)
    adapter = providers.get("openai_chat")           # or "simulated": the router's ProviderFormat, lower case
    target = Target(base_url=..., model=upstream_model, credential=..., connect_s=5, first_byte_s=60, idle_s=60)

    # whole
    answer = await adapter.complete(request, target, max_tokens)             # raises ProviderFailure
    usage = answer.usage or estimated_usage(request, answer)
    return 200, FORMAT.render_answer(answer, usage, identity, request)

    # streamed
    writer = FORMAT.writer(identity, request)
    async with aclosing(adapter.stream(request, target, max_tokens)) as batches:
        try:
            async for events in batches:             # nothing comes before the first content:
                await send(writer.write(events))     # until then a failure may go to the next attempt
                if type(events[-1]) is Finish:
                    usage = events[-1].usage         # None: estimate from writer.characters
        except ProviderFailure as failure:           # after the first item: in the stream
            await send(writer.fail(failure.api_error(streaming=True)))
    delivered = tokens_of(writer.characters)

``ProviderFailure.kind`` is the attempts event's ``outcome``; ``.api_error()`` is what a client may see of it.
"""
