"""People and the members of accounts in the database. An account's row is locked by whoever changes its members.

Called by rpc.py. Every method raises AccountsError for what is refused and DatabaseAwayError when the database is away.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from libs.core.clock import Clock
from libs.core.ids import prefixed_id
from libs.db.database import Database
from libs.ops.telemetry import Telemetry
from services.accounts.domain.errors import (
    AlreadyExistsError,
    ForbiddenError,
    LastOwnerError,
    NotFoundError,
)
from services.accounts.domain.people import Change, CreatePerson, Member, Person, Role, normal_email
from services.accounts.rows import Telling, locked_account, revoke_of_member, unix_ms
from services.accounts.telemetry import CHANGES

log = logging.getLogger("kenari.accounts")

_PERSON = "p.person_id, p.email, p.name, p.created_at"
_MEMBERS = f"select {_PERSON}, m.account_id, m.role, m.since from member m join person p using (person_id)"


class People:
    """Who shares which account."""

    def __init__(
        self, database: Database, tell_now: Callable[[str], Awaitable[None]], clock: Clock, telemetry: Telemetry
    ) -> None:
        self._database = database
        self._tell_now = tell_now
        self._tell = Telling(clock)
        self._changes = telemetry.metrics.counter(CHANGES)

    async def create(self, wanted: CreatePerson) -> Person:
        """Make a person; the same address and name again return the one there is."""
        wanted = CreatePerson(normal_email(wanted.email), wanted.name)
        wanted.check()
        async with self._database.transaction() as conn:
            await conn.execute(
                "insert into person (person_id, email, name) values ($1, $2, $3) on conflict do nothing",
                prefixed_id("person"), wanted.email, wanted.name,
            )  # fmt: skip
            person = _person(await conn.fetchrow(f"select {_PERSON} from person p where email = $1", wanted.email))
        if person.name != wanted.name:
            raise AlreadyExistsError("this address is another person's")
        self._note("person_created", person_id=person.person_id)
        return person

    async def person(self, person_id: str) -> Person:
        """The person with this id."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"select {_PERSON} from person p where person_id = $1", person_id)
        if row is None:
            raise NotFoundError("no such person")
        return _person(row)

    async def with_email(self, email: str) -> Person:
        """The person with this address, however it is typed."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(f"select {_PERSON} from person p where email = $1", normal_email(email))
        if row is None:
            raise NotFoundError("no such person")
        return _person(row)

    async def add(self, account_id: str, person_id: str, role: Role, actor_id: str) -> Member:
        """Add a person; the same role again changes nothing, another one is AlreadyExistsError.

        An account's first member is its owner, or this is LastOwnerError.
        """
        async with self._database.transaction() as conn:
            before = await _locked_member(conn, account_id, person_id)
            await _check(conn, account_id, person_id, before.role if before else None, role, actor_id)
            if before is not None and before.role is not role:
                raise AlreadyExistsError("this person is a member already; change the role instead")
            if role is not Role.OWNER and not await _owners(conn, account_id):
                raise LastOwnerError("the first member of an account is its owner")
            if not await conn.fetchval("select true from person where person_id = $1", person_id):
                raise NotFoundError("no such person")
            await conn.execute(
                "insert into member (account_id, person_id, role) values ($1, $2, $3) on conflict do nothing",
                account_id, person_id, role,
            )  # fmt: skip
            member = await _member(conn, account_id, person_id)
        assert member is not None
        self._note("member_added", account_id=account_id, person_id=person_id)
        return member

    async def set_role(self, account_id: str, person_id: str, role: Role, actor_id: str) -> Member:
        """Change a member's role; the last owner stays one."""
        async with self._database.transaction() as conn:
            before = await _locked_member(conn, account_id, person_id)
            if before is None:
                raise NotFoundError("no such member")
            await _check(conn, account_id, person_id, before.role, role, actor_id)
            await conn.execute(
                "update member set role = $3 where account_id = $1 and person_id = $2", account_id, person_id, role
            )
            member = await _member(conn, account_id, person_id)
        assert member is not None
        self._note("member_changed", account_id=account_id, person_id=person_id)
        return member

    async def remove(self, account_id: str, person_id: str, actor_id: str) -> None:
        """Remove a member and revoke the keys that are theirs, in one step; the last owner stays."""
        async with self._database.transaction() as conn:
            before = await _locked_member(conn, account_id, person_id)
            if before is None:
                raise NotFoundError("no such member")
            await _check(conn, account_id, person_id, before.role, None, actor_id)
            await conn.execute("delete from member where account_id = $1 and person_id = $2", account_id, person_id)
            for ended in await revoke_of_member(conn, account_id, person_id):
                await self._tell.key(conn, ended)
        await self._tell_now(account_id)
        self._note("member_removed", account_id=account_id, person_id=person_id)

    async def members(self, account_id: str) -> list[Member]:
        """The members of an account, the longest first; NotFoundError when there is no such account."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(f"{_MEMBERS} where m.account_id = $1 order by m.since, m.person_id", account_id)
            if not rows and not await conn.fetchval("select true from account where account_id = $1", account_id):
                raise NotFoundError("no such account")
        return [_member_of(row) for row in rows]

    async def memberships(self, person_id: str) -> list[Member]:
        """A person's places, by account."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(f"{_MEMBERS} where m.person_id = $1 order by m.account_id", person_id)
        return [_member_of(row) for row in rows]

    def _note(self, change: str, **ids: str) -> None:
        self._changes.labels(change).inc()
        log.info(change.replace("_", " "), extra=ids)


async def _locked_member(conn: Any, account_id: str, person_id: str) -> Member | None:
    if await locked_account(conn, account_id) is None:
        raise NotFoundError("no such account")
    return await _member(conn, account_id, person_id)


async def _check(
    conn: Any, account_id: str, person_id: str, was: Role | None, becomes: Role | None, actor_id: str
) -> None:
    """Raise ForbiddenError or LastOwnerError; an empty ``actor_id`` is the operator."""
    actor = None
    if actor_id:
        acting = await _member(conn, account_id, actor_id)
        if acting is None:
            raise ForbiddenError("whoever acts is not a member of this account")
        actor = acting.role
    change = Change(was, becomes, actor, of_oneself=actor_id == person_id)
    change.check()
    if change.takes_an_owner and await _owners(conn, account_id) == 1:
        raise LastOwnerError("the last owner stays; make another one first")


async def _owners(conn: Any, account_id: str) -> int:
    count: int = await conn.fetchval(
        "select count(*) from member where account_id = $1 and role = 'owner'", account_id
    )  # fmt: skip
    return count


async def _member(conn: Any, account_id: str, person_id: str) -> Member | None:
    row = await conn.fetchrow(f"{_MEMBERS} where m.account_id = $1 and m.person_id = $2", account_id, person_id)
    return _member_of(row) if row else None


def _person(row: Any) -> Person:
    return Person(row["person_id"], row["email"], row["name"], unix_ms(row["created_at"]))


def _member_of(row: Any) -> Member:
    return Member(_person(row), row["account_id"], Role(row["role"]), unix_ms(row["since"]))
