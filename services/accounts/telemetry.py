"""The metrics of accounts, declared once. Used by service.py and watch.py; dashboards are made from ALL."""

from libs.ops.metrics import CounterSpec, GaugeSpec

CHANGES = CounterSpec(
    "kenari.accounts.changes",
    "Accepted changes, repeats included",
    labels=("change",),
    values=(
        (
            "account_created",
            "account_active",
            "account_suspended",
            "limits_set",
            "key_created",
            "key_renamed",
            "key_rotated",
            "key_disabled",
            "key_enabled",
            "key_limits_set",
            "key_caps_reset",
            "key_revoked",
            "person_created",
            "member_added",
            "member_changed",
            "member_removed",
        ),
    ),
)
RESOLVES = CounterSpec(
    "kenari.accounts.resolves", "Keys asked for by hash", labels=("outcome",), values=(("known", "unknown"),)
)
WATCHERS = GaugeSpec("kenari.accounts.watchers", "Edges that are told of changes of keys at once")
PUSHED = CounterSpec("kenari.accounts.watch.pushed", "Changes of keys told to watchers")
LISTENING = GaugeSpec("kenari.accounts.watch.listening", "1 while changes of all processes are heard")

ALL = (CHANGES, RESOLVES, WATCHERS, PUSHED, LISTENING)
