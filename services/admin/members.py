"""The commands about people and who shares which account. People are named by their address.

Registered in app.py.
"""

from typing import Any

import click
from kenari.accounts.v1 import accounts_pb2

from services.admin import show
from services.admin.action import action
from services.admin.peers import Peers

_ROLE = click.Choice(list(show.ROLES))


@click.group()
def people() -> None:
    """People by their email address."""


@click.group()
def members() -> None:
    """Who shares an account, in which role."""


@action(people, "create")
@click.argument("email")
@click.argument("name")
async def create_person(peers: Peers, email: str, name: str) -> dict[str, Any]:
    """Make a person; the same address and name again show the one there is."""
    request = accounts_pb2.CreatePersonRequest(email=email, name=name)
    return show.person((await peers.accounts("CreatePerson", request)).person)


@action(people, "show")
@click.argument("email")
async def show_person(peers: Peers, email: str) -> dict[str, Any]:
    """Show a person and the accounts they are a member of."""
    person = await person_of(peers, email)
    request = accounts_pb2.ListMembershipsRequest(person_id=person.person_id)
    places = (await peers.accounts("ListMemberships", request)).memberships
    return {**show.person(person), "accounts": [f"{one.account_id} ({show.member(one)['role']})" for one in places]}


@action(members, "list")
@click.argument("account_id")
async def list_members(peers: Peers, account_id: str) -> list[dict[str, Any]]:
    """List the members of an account, the longest first."""
    answer = await peers.accounts("ListMembers", accounts_pb2.ListMembersRequest(account_id=account_id))
    return [show.member(member) for member in answer.members]


@action(members, "add")
@click.argument("account_id")
@click.argument("email")
@click.option("--role", type=_ROLE, default="member", show_default=True, help="The first member is an owner.")
async def add_member(peers: Peers, account_id: str, email: str, role: str) -> dict[str, Any]:
    """Add a person to an account."""
    person = await person_of(peers, email)
    request = accounts_pb2.AddMemberRequest(account_id=account_id, person_id=person.person_id, role=show.ROLES[role])
    return show.member((await peers.accounts("AddMember", request)).member)


@action(members, "role")
@click.argument("account_id")
@click.argument("email")
@click.argument("role", type=_ROLE)
async def set_role(peers: Peers, account_id: str, email: str, role: str) -> dict[str, Any]:
    """Change a member's role; the last owner stays one."""
    person = await person_of(peers, email)
    request = accounts_pb2.SetMemberRoleRequest(
        account_id=account_id, person_id=person.person_id, role=show.ROLES[role]
    )
    return show.member((await peers.accounts("SetMemberRole", request)).member)


@action(members, "remove")
@click.argument("account_id")
@click.argument("email")
async def remove_member(peers: Peers, account_id: str, email: str) -> list[dict[str, Any]]:
    """Remove a member with the keys that are theirs, and list who is left; the last owner stays."""
    person = await person_of(peers, email)
    request = accounts_pb2.RemoveMemberRequest(account_id=account_id, person_id=person.person_id)
    await peers.accounts("RemoveMember", request, retry=False)
    answer = await peers.accounts("ListMembers", accounts_pb2.ListMembersRequest(account_id=account_id))
    return [show.member(member) for member in answer.members]


async def person_of(peers: Peers, email: str) -> accounts_pb2.Person:
    """The person with that address; raise Permanent (not_found)."""
    person: accounts_pb2.Person = (await peers.accounts("GetPerson", accounts_pb2.GetPersonRequest(email=email))).person
    return person
