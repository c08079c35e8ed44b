"""The limits that are not about free models: which windows, token budgets and places a question asks for.

Called by service.py and budgets.py. Pure values in, values out (contract: Rate limits).
"""

from dataclasses import dataclass

from services.limiter.domain import MINUTE_MS, MUSIC_RETRY_S, Admit, Done, Limit, Subject

# Above this an exact log of every admission costs more memory than its last percent of exactness is worth.
EXACT_UP_TO = 1_000
PASSTHROUGH_TAG = "passthrough"


@dataclass(frozen=True, slots=True)
class Window:
    """So many requests within a minute, counted under a name of the account."""

    limit: Limit
    name: str
    most: int


@dataclass(frozen=True, slots=True)
class Budget:
    """So many tokens within a window that begins with the first, counted under a name of ``tag``."""

    limit: Limit
    tag: str
    name: str
    most: int
    window_ms: int


@dataclass(frozen=True, slots=True)
class Places:
    """So many requests at once. A place is kept by asking again, and free again when nobody does."""

    limit: Limit
    tag: str
    most: int
    lease_ms: int
    retry_after_s: int


@dataclass(frozen=True, slots=True)
class Rules:
    """The operator's limits; times in milliseconds. ``shadow`` are limits that are counted and never refuse."""

    account_rpm: int
    usage_rpm: int
    address_rpm: int
    shared_percent: int
    shared_least_rpm: int
    model_window_ms: int
    music_places: int
    passthrough_places: int
    place_ms: int
    shadow: frozenset[Limit] = frozenset()


def windows(rules: Rules, ask: Admit, account_rpm: int) -> list[Window]:
    """The windows of a question, in the order in which they refuse; ``account_rpm`` is the account's limit."""
    match ask.subject:
        case Subject.PAID_CHAT if not ask.key_shared:
            return [Window(Limit.ACCOUNT_REQUESTS, "rpm", account_rpm)]
        case Subject.USAGE_READ:
            return [Window(Limit.USAGE_READS, "usage", rules.usage_rpm)]
        case Subject.KEY_REQUEST:
            return _key_windows(rules, ask, account_rpm)
        case _:
            return []


def _key_windows(rules: Rules, ask: Admit, account_rpm: int) -> list[Window]:
    found = []
    if ask.key_shared and ask.address:
        found.append(Window(Limit.ADDRESS, f"address:{ask.key_id}:{ask.address}", rules.address_rpm))
    if ask.key_rpm:
        found.append(Window(Limit.KEY_REQUESTS, f"key:{ask.key_id}", ask.key_rpm))
    if ask.key_shared:
        share = max(rules.shared_least_rpm, account_rpm * rules.shared_percent // 100)
        found.append(Window(Limit.SHARED_KEY, f"shared:{ask.key_id}", share))
    return found


def budgets(rules: Rules, ask: Admit) -> list[Budget]:
    """The token budgets a question draws on."""
    found = []
    if ask.subject is Subject.FREE_CHAT and ask.model_token_budget is not None:
        found.append(_model_budget(rules, ask.model, ask.model_token_budget))
    if ask.key_tpm and ask.subject in (Subject.PAID_CHAT, Subject.FREE_CHAT):
        found.append(_key_budget(ask.account_id, ask.key_id, ask.key_tpm))
    return found


def drawn(rules: Rules, done: Done) -> list[Budget]:
    """The token budgets that a request that has ended had drawn on; how much they hold plays no part then."""
    found = []
    if done.model_tokens:
        found.append(_model_budget(rules, done.model, 0))
    if done.key_id:
        found.append(_key_budget(done.account_id, done.key_id, 0))
    return found


def _model_budget(rules: Rules, model: str, most: int) -> Budget:
    return Budget(Limit.MODEL_TOKENS, f"model:{model}", "tokens", most, rules.model_window_ms)


def _key_budget(account_id: str, key_id: str, most: int) -> Budget:
    return Budget(Limit.KEY_TOKENS, account_id, f"tokens:{key_id}", most, MINUTE_MS)


def places(rules: Rules, ask: Admit | Done) -> Places | None:
    """The places a question asks for or gives back, if any."""
    match ask.subject:
        case Subject.MUSIC:
            return Places(Limit.MUSIC, ask.account_id, rules.music_places, rules.place_ms, MUSIC_RETRY_S)
        case Subject.PASSTHROUGH:
            return Places(Limit.PASSTHROUGH, PASSTHROUGH_TAG, rules.passthrough_places, rules.place_ms, 0)
        case _:
            return None


def local_most(window: Window, processes: int) -> int:
    """What one of several processes grants of a window by itself while the store is away.

    Half more than the share of paid requests, since money holds guard the rest; all of an address, whose requests
    reach few processes; else the plain share.
    """
    if window.limit is Limit.ACCOUNT_REQUESTS:
        return -(-window.most * 3 // (2 * processes))
    if window.limit is Limit.ADDRESS:
        return window.most
    return max(1, window.most // processes)
