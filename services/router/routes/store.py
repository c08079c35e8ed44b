"""The tables of named routes. All SQL about them is here.

Called by service.py beside it; every method raises DatabaseAwayError (Transient).
"""

import json
from collections.abc import Iterable
from typing import Any

import asyncpg

from libs.db.database import Database
from services.router.routes.domain import (
    MOST_ROUTES,
    InvalidRouteError,
    NamedRoute,
    RouteExistsError,
    RouteNotFoundError,
    Step,
    Strategy,
)

_ROUTES = """
    select r.route_id, r.name, r.strategy,
           coalesce(json_agg(json_build_array(s.model, s.credential, s.weight) order by s.place)
                    filter (where s.place is not null), '[]') as steps
      from named_route r left join named_route_step s using (route_id)
     where r.account_id = $1{}
     group by r.route_id, r.name, r.strategy order by r.name
"""


class RouteStore:
    """Reads and writes of the routes of accounts."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, account_id: str, route: NamedRoute) -> None:
        """Keep a new route; raise RouteExistsError, or InvalidRouteError when the account has too many."""
        async with self._database.transaction() as conn:
            # Counting and adding must not be passed by another that does the same.
            await conn.execute("select pg_advisory_xact_lock(hashtextextended($1, 0))", account_id)
            if await conn.fetchval("select count(*) from named_route where account_id = $1", account_id) >= MOST_ROUTES:
                raise InvalidRouteError(f"an account has at most {MOST_ROUTES} routes")
            try:
                await conn.execute(
                    "insert into named_route (route_id, account_id, name, strategy) values ($1, $2, $3, $4)",
                    route.route_id,
                    account_id,
                    route.name,
                    route.strategy,
                )
            except asyncpg.UniqueViolationError as error:
                raise RouteExistsError(f"there is a route named {route.name!r}") from error

    async def save(self, account_id: str, route: NamedRoute) -> None:
        """Make a route what is given; raise RouteNotFoundError or RouteExistsError."""
        async with self._database.transaction() as conn:
            try:
                changed = await conn.fetchval(
                    "update named_route set name = $3, strategy = $4, changed_at = now()"
                    " where account_id = $1 and route_id = $2 returning route_id",
                    account_id,
                    route.route_id,
                    route.name,
                    route.strategy,
                )
            except asyncpg.UniqueViolationError as error:
                raise RouteExistsError(f"there is a route named {route.name!r}") from error
            if changed is None:
                raise RouteNotFoundError("the account has no such route")
            await conn.execute("delete from named_route_step where route_id = $1", route.route_id)
            await conn.executemany(
                "insert into named_route_step (route_id, place, model, credential, weight) values ($1, $2, $3, $4, $5)",
                [
                    (route.route_id, place, step.model, step.credential, step.weight)
                    for place, step in enumerate(route.steps)
                ],
            )

    async def delete(self, account_id: str, route_id: str) -> None:
        """Forget a route; raise RouteNotFoundError."""
        async with self._database.connection() as conn:
            gone = await conn.fetchval(
                "delete from named_route where account_id = $1 and route_id = $2 returning route_id",
                account_id,
                route_id,
            )
        if gone is None:
            raise RouteNotFoundError("the account has no such route")

    async def of(self, account_id: str) -> list[NamedRoute]:
        """The routes of an account, by name."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(_ROUTES.format(""), account_id)
        return [_route(row) for row in rows]

    async def named(self, account_id: str, name: str) -> NamedRoute | None:
        """The route of that name, None when the account has none."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(_ROUTES.format(" and r.name = $2"), account_id, name)
        return _route(row) if row is not None else None

    async def next_turn(self, route_id: str) -> int:
        """Count a request of a route whose steps take turns; the count before it."""
        async with self._database.connection() as conn:
            counted = await conn.fetchval(
                "update named_route set turn = turn + 1 where route_id = $1 returning turn - 1", route_id
            )
        # Deleted since it was read: any start is as good as another.
        return int(counted or 0)

    async def holders_of(self, names: Iterable[str]) -> set[tuple[str, str]]:
        """(account, name) of every route with one of these names."""
        async with self._database.connection() as conn:
            rows = await conn.fetch("select account_id, name from named_route where name = any($1)", list(names))
        return {(row["account_id"], row["name"]) for row in rows}


def _route(row: Any) -> NamedRoute:
    steps = tuple(Step(*step) for step in json.loads(row["steps"]))
    return NamedRoute(row["route_id"], row["name"], Strategy(row["strategy"]), steps)
