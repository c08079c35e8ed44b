"""Metrics of database connections; every service with a database has them."""

from libs.ops.metrics import CounterSpec, GaugeSpec

CONNECTIONS = GaugeSpec("kenari.db.pool.connections", "Open connections of this process's pool")
IDLE = GaugeSpec("kenari.db.pool.idle", "Open connections of the pool that nobody uses")
LOST = CounterSpec(
    "kenari.db.failures",
    "Uses of a connection that ended without a known outcome or were turned away",
    labels=("reason",),
    values=(("database_busy", "database_away"),),
)
UP = GaugeSpec("kenari.db.up", "1 while the database answers")

ALL = (CONNECTIONS, IDLE, LOST, UP)
