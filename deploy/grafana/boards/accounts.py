"""Accounts' board: changes of accounts and keys, and whether edges hear of them.
Read by deploy.grafana.build.
"""

from deploy.grafana.layout import Board, Panel, Row
from deploy.grafana.queries import Query, lowest, of, rate, summed
from deploy.grafana.top_row import Uses, called, top
from services.accounts.telemetry import CHANGES, LISTENING, PUSHED, RESOLVES, WATCHERS

USES = Uses(outbox=True, database=True)

_OWN = of("accounts")

_KEYS = Row(
    "Keys",
    (
        Panel("Changes", (Query(rate(CHANGES, _OWN, by=("change",)), "{{change}}"),), "ops"),
        Panel(
            "Keys asked for by hash",
            (Query(rate(RESOLVES, _OWN, by=("outcome",)), "{{outcome}}"),),
            "reqps",
            about="Edges ask when their table does not know a key or has not heard from accounts for a minute.",
        ),
        Panel(
            "Edges that watch", (Query(summed(WATCHERS, _OWN), "edges"), Query(rate(PUSHED, _OWN), "changes told / s"))
        ),
        Panel("Changes are heard", (Query(lowest(LISTENING, _OWN), "1: yes"),)),
    ),
)

BOARD = Board(
    "accounts",
    "kenari: accounts",
    "People's accounts and their API keys.",
    (*top("accounts", called("accounts"), USES), _KEYS),
)
