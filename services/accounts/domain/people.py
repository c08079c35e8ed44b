"""People and their roles in accounts as values, and who may change whose role (contract: Errors, 402).

Called by the use cases, the store and wire.py.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from services.accounts.domain.account import check_name
from services.accounts.domain.errors import ForbiddenError, InvalidError

_MAX_EMAIL = 254
_EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f.]+(\.[^@\s\x00-\x1f.]+)+")


class Role(StrEnum):
    """What a member may do with the others."""

    OWNER = "owner"
    ADMIN = "admin"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class Person:
    """A human being with an address of their own, in lower case."""

    person_id: str
    email: str
    name: str
    created_at_ms: int


@dataclass(frozen=True, slots=True)
class Member:
    """A person's place in an account."""

    person: Person
    account_id: str
    role: Role
    since_ms: int


@dataclass(frozen=True, slots=True)
class CreatePerson:
    """A person to make."""

    email: str
    name: str

    def check(self) -> None:
        """Raise InvalidError for what cannot be a person."""
        if len(self.email) > _MAX_EMAIL or not _EMAIL.fullmatch(self.email):
            raise InvalidError("an email address looks like name@example.com")
        check_name(self.name)


@dataclass(frozen=True, slots=True)
class Change:
    """What is to happen to one person's place in an account: ``was`` and ``becomes`` None are outside.

    ``actor`` is the role of whoever does it; None is the operator, who may do everything.
    """

    was: Role | None
    becomes: Role | None
    actor: Role | None
    of_oneself: bool

    def check(self) -> None:
        """Raise ForbiddenError for what the actor's role does not allow."""
        leaves = self.of_oneself and self.becomes is None
        if self.actor in (None, Role.OWNER) or leaves:
            return
        if self.actor is Role.MEMBER:
            raise ForbiddenError("a member manages nobody; ask an owner or an admin")
        if Role.OWNER in (self.was, self.becomes):
            raise ForbiddenError("only an owner makes, changes or removes owners")

    @property
    def takes_an_owner(self) -> bool:
        return self.was is Role.OWNER and self.becomes is not Role.OWNER


def normal_email(email: str) -> str:
    """The address as it is stored and looked up."""
    return email.strip().lower()
