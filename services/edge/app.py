"""Composition of the edge: read top to bottom to see what it is made of."""

from typing import Any

from fastapi import FastAPI

from libs.events import topics
from libs.events.accounts import KeyChanged
from libs.events.ledger import AccountState
from libs.events.router import ModelPublished
from libs.kafka.bus import Bus
from libs.llm.formats import anthropic_messages, kyara_chat, openai_chat, openai_responses
from libs.llm.http_transport import HttpTransport
from libs.llm.providers import Providers
from libs.ops.telemetry import Telemetry
from libs.rpc.client import RpcClient
from libs.service.component import Periodic
from libs.service.http import HttpServer
from libs.service.service import Service
from services.edge import openapi
from services.edge.address import Addresses
from services.edge.admission import Admission
from services.edge.attempts import Attempts
from services.edge.believable import Believable
from services.edge.body import BodyReader
from services.edge.callers import Callers
from services.edge.catalog import Catalog
from services.edge.clients import (
    AccountsClient,
    IdempotencyClient,
    LedgerClient,
    LimiterClient,
    ledger_checks,
    limiter_checks,
    router_checks,
)
from services.edge.dialects import Dialect, KyaraDialect
from services.edge.endpoints import account, account_keys, health, manifests, models, price_pages, reading, usage
from services.edge.endpoints.chat import ChatEndpoint, ChatParts
from services.edge.endpoints.count_tokens import CountTokens
from services.edge.funds import Funds
from services.edge.http import Hot, PublicApp
from services.edge.idempotency import Idempotency
from services.edge.keys import KeyDirectory
from services.edge.limiter import Limiter
from services.edge.limits import ChatLimits
from services.edge.live import LiveRequests
from services.edge.public_prices import PublicPrices
from services.edge.reports import Reports
from services.edge.settings import EdgeSettings
from services.edge.settlement import Settlement


def read_settings() -> EdgeSettings:
    """The settings of this process."""
    return EdgeSettings.read()


def build(settings: EdgeSettings) -> Service:
    """The edge, ready to start."""
    telemetry = Telemetry("edge", settings.telemetry)
    service = Service("edge", settings, settings.ops, telemetry)

    bus = service.add(Bus(settings.kafka, "edge", telemetry))
    catalog = Catalog(bus.table(topics.ROUTER_CATALOG, ModelPublished, key=lambda model: model.id))
    keys_table = bus.table(topics.ACCOUNTS_KEYS, KeyChanged, key=lambda key: key.key_hash)

    accounts_rpc = service.add(RpcClient(settings.accounts_address, telemetry, deadline_s=1.0))
    router_rpc = service.add(RpcClient(settings.router_address, telemetry, deadline_s=1.0))
    limiter_rpc = service.add(RpcClient(settings.limiter_address, telemetry, deadline_s=1.0))
    ledger_rpc = service.add(RpcClient(settings.ledger_address, telemetry, deadline_s=3.0))
    accounts = AccountsClient(accounts_rpc)
    ledger = LedgerClient(ledger_rpc)
    router = service.add(router_checks(router_rpc, telemetry))
    limiter = Limiter(service.add(limiter_checks(limiter_rpc, telemetry)), settings, telemetry)
    ledger_stream = service.add(ledger_checks(ledger_rpc, telemetry))

    addresses = Addresses(settings.trusted_proxies)
    secret = settings.key_hash_secret.get_secret_value().encode()
    keys = service.add(KeyDirectory(keys_table, accounts, addresses, secret, telemetry))
    callers = Callers(keys, addresses, limiter)
    service.add(Periodic("key-use", settings.key_use_every_s, keys.report_use, telemetry))
    transport = service.add(HttpTransport())
    reports = Reports(bus.producer, telemetry)
    live = service.add(LiveRequests(settings.waits, telemetry))
    settlement = service.add(Settlement(ledger_stream, ledger, reports, settings.touch_every_s, telemetry))
    states = bus.table(topics.LEDGER_STATES, AccountState, key=lambda state: state.account_id)
    funds = Funds(ledger_stream, settlement, states, settings)
    limits = ChatLimits(limiter, catalog)
    idempotency = service.add(Idempotency(IdempotencyClient(ledger_rpc), limits, telemetry))
    service.add(Periodic("idempotency", settings.idempotency_every_s, idempotency.keep_alive, telemetry))
    parts = ChatParts(
        callers=callers,
        catalog=catalog,
        live=live,
        bodies=BodyReader(settings.body),
        admission=Admission(limits, router, funds, settlement, settings),
        attempts=Attempts(Providers(transport), reports, settings.provider_wait_s, telemetry.tracing),
        settlement=settlement,
        idempotency=idempotency,
        believable=Believable(telemetry),
        reports=reports,
        tracing=telemetry.tracing,
    )

    # A redirect would repeat whatever host the caller claims to have asked.
    reads = FastAPI(title="kenari", docs_url=None, redoc_url=None, openapi_url="/openapi.json", redirect_slashes=False)
    for endpoint in (models, account, account_keys, usage, health, manifests, price_pages):
        reads.include_router(endpoint.router)
    reading.install_handlers(reads)
    openapi.install(reads)
    reads.state.keys, reads.state.catalog, reads.state.ledger = keys, catalog, ledger
    reads.state.accounts, reads.state.live, reads.state.bodies = accounts, live, parts.bodies
    reads.state.callers, reads.state.limiter, reads.state.problems = callers, limiter, service.problems
    reads.state.public_url = settings.reached_at
    reads.state.public_prices = PublicPrices(catalog, LimiterClient(limiter_rpc), ledger)

    http = settings.http
    # Idle connections of clients live longer than the usual pauses between requests.
    options: dict[str, Any] = {"ws": "none", "proxy_headers": False, "timeout_keep_alive": 75}
    public = PublicApp(_hot(parts), reads, settings.kyara_hosts, telemetry.tracing)
    service.add(HttpServer(public, http.host, http.port, share_port=http.share_port, **options))
    return service


def _hot(parts: ChatParts) -> dict[str, Hot]:
    """The paths that bypass FastAPI."""
    messages = Dialect("messages", "anthropic_messages", anthropic_messages.FORMAT, needs_tool_calls=True)
    return {
        "/v1/chat/completions": ChatEndpoint(Dialect("chat", "openai_chat", openai_chat.FORMAT), parts),
        "/v1/messages": ChatEndpoint(messages, parts),
        "/v1/messages/count_tokens": CountTokens(parts.callers, parts.live, parts.bodies),
        "/v1/responses": ChatEndpoint(Dialect("responses", "openai_responses", openai_responses.FORMAT), parts),
        "/kyara/v1/chat/completions": ChatEndpoint(KyaraDialect("kyara", "kyara_chat", kyara_chat.FORMAT), parts),
    }
