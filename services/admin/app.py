"""The operator's command line as a whole: its groups, and how a failure ends it.

Called by services/__main__.py as ``python -m services admin ...``.
"""

import sys
from collections.abc import Sequence

import click

from libs.core.errors import ConfigError, KenariError, Transient
from services.admin.accounts import accounts, credit, limits
from services.admin.funding import funding, refund
from services.admin.keys import keys
from services.admin.members import members, people
from services.admin.plans import coupons, plans, tokens
from services.admin.routes import routes

REFUSED, WRONG_USAGE, NO_ANSWER = 1, 2, 3


@click.group(
    commands=[accounts, keys, limits, credit, people, members, plans, coupons, tokens, funding, refund, routes]
)
def cli() -> None:
    """Accounts, keys, limits, people, plans, money and routes of a running kenari.

    Exit codes: 1 refused, 2 wrong usage or settings, 3 a service does not answer.
    """


def main(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code. What failed is one line on standard error."""
    try:
        ended = cli.main(list(arguments), prog_name="python -m services admin", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return WRONG_USAGE
    except click.ClickException as error:
        return _fail(error.format_message(), WRONG_USAGE)
    except click.Abort:
        return _fail("stopped", REFUSED)
    except ConfigError as error:
        return _fail(str(error), WRONG_USAGE)
    except Transient as error:
        return _fail(f"no answer: {error}", NO_ANSWER)
    except KenariError as error:
        return _fail(str(error), REFUSED)
    return ended if isinstance(ended, int) else 0


def _fail(message: str, code: int) -> int:
    print(f"kenari: {' '.join(message.split())}", file=sys.stderr)
    return code
