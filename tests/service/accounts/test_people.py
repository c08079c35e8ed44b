"""People and the members of accounts on a real PostgreSQL: who may change whom, and that an owner always stays."""

import asyncio

import pytest

from services.accounts.domain.account import Account
from services.accounts.domain.errors import (
    AlreadyExistsError,
    ForbiddenError,
    InvalidError,
    LastOwnerError,
    NotFoundError,
)
from services.accounts.domain.people import CreatePerson, Person, Role
from tests.service.accounts.bench import Bench

OWNER, ADMIN, MEMBER = Role.OWNER, Role.ADMIN, Role.MEMBER


async def team(bench: Bench, *roles: Role) -> tuple[Account, list[Person]]:
    """An account with a member for each role."""
    account = await bench.account()
    people = [await bench.person() for _ in roles]
    for person, role in zip(people, roles, strict=True):
        await bench.people.add(account.account_id, person.person_id, role, "")
    return account, people


async def roles(bench: Bench, account: Account) -> list[Role]:
    return [member.role for member in await bench.people.members(account.account_id)]


async def test_an_address_is_one_persons_however_it_is_typed(bench: Bench) -> None:
    made = await asyncio.gather(
        *(bench.people.create(CreatePerson(email, "Ann")) for email in (" Ann@Example.com", "ann@example.com "))
    )
    assert made[0] == made[1]
    assert made[0].email == "ann@example.com"
    assert await bench.people.with_email("ANN@example.com") == await bench.people.person(made[0].person_id) == made[0]
    with pytest.raises(AlreadyExistsError):
        await bench.people.create(CreatePerson("ann@example.com", "Bob"))
    for absent in (bench.people.person("person_none"), bench.people.with_email("none@example.com")):
        with pytest.raises(NotFoundError):
            await absent


@pytest.mark.parametrize("email", ["", "ann", "ann@", "@example.com", "a b@example.com", "a@b", "a@b..c", "a@b\0.c"])
async def test_what_is_no_address_is_refused(bench: Bench, email: str) -> None:
    with pytest.raises(InvalidError):
        await bench.people.create(CreatePerson(email, "Ann"))


async def test_members_share_an_account_in_roles(bench: Bench) -> None:
    account, people = await team(bench, OWNER, ADMIN, MEMBER)
    members = await bench.people.members(account.account_id)
    assert [(member.person, member.role) for member in members] == list(
        zip(people, (OWNER, ADMIN, MEMBER), strict=True)
    )
    other, _ = await team(bench, OWNER)
    await bench.people.add(other.account_id, people[2].person_id, ADMIN, "")
    places = await bench.people.memberships(people[2].person_id)
    assert {place.account_id: place.role for place in places} == {
        account.account_id: MEMBER,
        other.account_id: ADMIN,
    }


async def test_adding_again_changes_nothing_and_another_role_is_said_to_be_a_change(bench: Bench) -> None:
    account, (_, second) = await team(bench, OWNER, MEMBER)
    again = await bench.people.add(account.account_id, second.person_id, MEMBER, "")
    assert again.role is MEMBER
    with pytest.raises(AlreadyExistsError):
        await bench.people.add(account.account_id, second.person_id, ADMIN, "")
    assert await roles(bench, account) == [OWNER, MEMBER]


async def test_the_first_member_is_an_owner(bench: Bench) -> None:
    account, person = await bench.account(), await bench.person()
    for role in (ADMIN, MEMBER):
        with pytest.raises(LastOwnerError):
            await bench.people.add(account.account_id, person.person_id, role, "")
    assert await bench.people.members(account.account_id) == []


@pytest.mark.parametrize("by_operator", [True, False])
async def test_the_last_owner_stays(bench: Bench, by_operator: bool) -> None:
    account, (owner, second) = await team(bench, OWNER, MEMBER)
    actor = "" if by_operator else owner.person_id
    with pytest.raises(LastOwnerError):
        await bench.people.remove(account.account_id, owner.person_id, actor)
    with pytest.raises(LastOwnerError):
        await bench.people.set_role(account.account_id, owner.person_id, ADMIN, actor)
    await bench.people.set_role(account.account_id, second.person_id, OWNER, actor)
    await bench.people.remove(account.account_id, owner.person_id, actor)
    assert await roles(bench, account) == [OWNER]


async def test_two_owners_who_leave_at_once_leave_one_behind(bench: Bench) -> None:
    for _ in range(5):
        account, people = await team(bench, OWNER, OWNER)
        ends = await asyncio.gather(
            *(bench.people.remove(account.account_id, one.person_id, one.person_id) for one in people),
            return_exceptions=True,
        )
        assert sum(isinstance(end, LastOwnerError) for end in ends) == 1
        assert await roles(bench, account) == [OWNER]


async def test_an_admin_manages_everyone_but_owners(bench: Bench) -> None:
    account, (owner, admin, member) = await team(bench, OWNER, ADMIN, MEMBER)
    of, actor = account.account_id, admin.person_id
    new = await bench.person()
    await bench.people.add(of, new.person_id, MEMBER, actor)
    await bench.people.set_role(of, new.person_id, ADMIN, actor)
    await bench.people.remove(of, new.person_id, actor)
    for refused in (
        bench.people.add(of, new.person_id, OWNER, actor),
        bench.people.set_role(of, member.person_id, OWNER, actor),
        bench.people.set_role(of, admin.person_id, OWNER, actor),
        bench.people.set_role(of, owner.person_id, MEMBER, actor),
        bench.people.remove(of, owner.person_id, actor),
    ):
        with pytest.raises(ForbiddenError):
            await refused
    assert await roles(bench, account) == [OWNER, ADMIN, MEMBER]


async def test_a_member_manages_nobody_and_may_leave(bench: Bench) -> None:
    account, (_, other, member) = await team(bench, OWNER, MEMBER, MEMBER)
    of, actor = account.account_id, member.person_id
    new, stranger = await bench.person(), await bench.person()
    for refused in (
        bench.people.add(of, new.person_id, MEMBER, actor),
        bench.people.set_role(of, actor, ADMIN, actor),
        bench.people.remove(of, other.person_id, actor),
        bench.people.add(of, new.person_id, MEMBER, stranger.person_id),
    ):
        with pytest.raises(ForbiddenError):
            await refused
    await bench.people.remove(of, actor, actor)
    assert await roles(bench, account) == [OWNER, MEMBER]


async def test_who_is_not_there_is_not_found(bench: Bench) -> None:
    account, (owner,) = await team(bench, OWNER)
    for absent in (
        bench.people.members("acct_none"),
        bench.people.add("acct_none", owner.person_id, OWNER, ""),
        bench.people.add(account.account_id, "person_none", MEMBER, ""),
        bench.people.set_role(account.account_id, "person_none", MEMBER, ""),
        bench.people.remove(account.account_id, "person_none", ""),
    ):
        with pytest.raises(NotFoundError):
            await absent
