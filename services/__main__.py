"""The one command that starts services: ``python -m services ledger``, ``all``, or ``ledger --check``.

Called by people, by deploy/local (make run) and by the container image. ``python -m services admin ...`` is the
operator's command line for services that run.
"""

import argparse
import asyncio
import gc
import importlib
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import uvloop

from libs.core.errors import ConfigError, KenariError
from libs.core.settings import ServiceSettings
from libs.ops import logging as ops_logging
from libs.service.service import Service

# New objects between two looks for cycles: requests make thousands and hardly a cycle.
_GARBAGE = 20_000
# In the order in which they are started: askers after those they ask.
NAMES = ("accounts", "router", "limiter", "ledger", "edge")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named services until a signal, or one command of the operator's; return the exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["admin"]:
        code: int = importlib.import_module("services.admin.app").main(arguments[1:])
        return code
    options = _parse(arguments)
    names = list(NAMES) if options.service == "all" else [options.service]
    try:
        settings = {name: _module(name).read_settings() for name in names}
        if options.check:
            masked = {name: value.masked() for name, value in settings.items()}
            print(json.dumps(masked, indent=2))
            return 0
        first = next(iter(settings.values()))
        ops_logging.configure(first.telemetry.log_level, names[0] if len(names) == 1 else None)
        uvloop.run(run_services(settings))
    except ConfigError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2
    except KenariError as error:
        print(f"kenari: cannot start: {error}", file=sys.stderr)
        return 1
    return 0


async def run_services(settings: Mapping[str, ServiceSettings]) -> None:
    """Build and start the services in order, wait for SIGTERM or SIGINT, stop them in reverse.

    A signal also ends a start that waits for something, such as a database that is away.
    """
    # Built in the loop they run in: gRPC binds to it.
    services = [_module(name).build(values) for name, values in settings.items()]
    started: list[Service] = []
    starting = asyncio.create_task(_start(services, started), name="start")
    asked_to_stop = asyncio.Event()

    def stop() -> None:
        asked_to_stop.set()
        starting.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await starting
        await asked_to_stop.wait()
    except asyncio.CancelledError:
        if not asked_to_stop.is_set():
            raise
    finally:
        for service in reversed(started):
            await service.stop()


async def _start(services: list[Service], started: list[Service]) -> None:
    for service in services:
        await service.start()
        started.append(service)
    # What start-up made lives as long as the process: no collection needs to look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GARBAGE, 20, 20)


def _module(name: str) -> Any:
    return importlib.import_module(f"services.{name}.app")


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services", description=__doc__)
    parser.add_argument("service", choices=[*NAMES, "all"])
    parser.add_argument("--check", action="store_true", help="print the settings, secrets masked, and exit")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
