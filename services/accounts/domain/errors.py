"""What accounts refuses, each with the stable reason that callers branch on.

Raised by the domain, the use cases and the stores; rpc.py lets them travel as statuses.
"""

from libs.core.errors import Permanent


class AccountsError(Permanent):
    """Base of what this service refuses."""


class NotFoundError(AccountsError):
    """No such account, key or person."""

    reason = "not_found"


class InvalidError(AccountsError):
    """The request itself is wrong."""

    reason = "invalid"


class AlreadyExistsError(AccountsError):
    """The id or address is taken by something else."""

    reason = "already_exists"


class NotActiveError(AccountsError):
    """The key has been revoked or has expired: nothing can be changed about it any more."""

    reason = "failed_precondition"


class FixedLimitsError(AccountsError):
    """The limits of this key were fixed when it was made."""

    reason = "failed_precondition"


class KeyLimitError(AccountsError):
    """The account has as many keys as it may."""

    reason = "key_limit"


class ChildKeyCapError(AccountsError):
    """The login key has as many per-tool keys as it may."""

    reason = "child_key_cap"


class KeyCreationRateError(AccountsError):
    """The login key asked for too many per-tool keys within a minute."""

    reason = "key_creation_rate"


class ForbiddenError(AccountsError):
    """The person who acts has no role that allows it."""

    reason = "forbidden"


class LastOwnerError(AccountsError):
    """An account with members would be left without an owner."""

    reason = "last_owner"
