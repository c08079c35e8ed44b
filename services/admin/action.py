"""Turns an async function of the services into a command with ``--json``.

Used by the command modules beside it.
"""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import click

from libs.core.money import PER_RUPIAH
from services.admin import show
from services.admin.peers import connected
from services.admin.settings import AdminSettings
from services.admin.show import Found

Action = Callable[..., Awaitable[Found]]


def action(group: click.Group | None, name: str) -> Callable[[Action], click.Command]:
    """Make a function of Peers and its parameters a command, of the group if any; what it returns is printed."""
    command = click.command if group is None else group.command

    def make(function: Action) -> click.Command:
        @command(name)
        @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
        @functools.wraps(function)
        def run(as_json: bool, **arguments: Any) -> None:
            found = asyncio.run(_run(function, arguments))
            click.echo(show.text(found, as_json))

        return run

    return make


async def _run(function: Action, arguments: dict[str, Any]) -> Found:
    async with connected(AdminSettings.read()) as peers:
        return await function(peers, **arguments)


class Rupiah(click.ParamType[int]):
    """An amount such as 50000 or 12.5, as micro-Rupiah: at most six digits behind the point, never a float.

    ``zero`` lets it be nothing.
    """

    name = "rupiah"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        whole, point, part = str(value).partition(".")
        digits = whole + part
        if not (digits.isascii() and digits.isdigit() and whole and len(whole) <= 12 and len(part) <= 6):
            self.fail(f"{value!r} is no amount; write Rupiah as 50000 or 12.5", param, ctx)
        if point and not part:
            self.fail(f"{value!r} ends with a point", param, ctx)
        micros = int(whole) * PER_RUPIAH + int(part.ljust(6, "0"))
        if not micros and not self._zero:
            self.fail("an amount is more than nothing", param, ctx)
        return micros


class OrNone(click.ParamType[int]):
    """What another type takes, or the word none, which becomes NONE: no such value takes part in any sum."""

    NONE = -1

    def __init__(self, inner: click.ParamType[int]) -> None:
        self._inner = inner
        self.name = f"{inner.name}|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        return self.NONE if value == "none" else self._inner.convert(value, param, ctx)


class Moment(click.ParamType[int]):
    """A UTC day or moment such as 2027-01-31 or 2027-01-31T12:00:00Z, as milliseconds since 1970."""

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no moment; write 2027-01-31 or 2027-01-31T12:00:00Z", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
