"""The one command that starts services: ``python -m services ledger``, ``all``, or ``ledger --check``.

Called by people, by deploy/local (make run) and by the container image.
"""

import argparse
import asyncio
import contextlib
import gc
import importlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from libs.core.errors import ConfigError, KenariError
from libs.ops import logging as ops_logging
from libs.service.service import Service

# In the order in which they are started: askers after those they ask.
NAMES = ("accounts", "router", "limiter", "ledger", "edge")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the named services until a signal; return the exit code."""
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
        _run(run_services([partial(_module(name).build, settings[name]) for name in names]))
    except ConfigError as error:
        print(f"kenari: {error}", file=sys.stderr)
        return 2
    except KenariError as error:
        print(f"kenari: cannot start: {error}", file=sys.stderr)
        return 1
    return 0


async def run_services(builders: Sequence[Callable[[], Service]]) -> None:
    """Build and start the services in order, wait for SIGTERM or SIGINT, stop them in reverse.

    They are built here, inside the loop, since gRPC binds its servers and channels to the loop it finds.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    started: list[Service] = []
    try:
        for service in [build() for build in builders]:
            await service.start()
            started.append(service)
        # What start-up made lives as long as the process: no collection needs to look at it again.
        gc.collect()
        gc.freeze()
        await stop.wait()
    finally:
        for service in reversed(started):
            await service.stop()


def _run(main_task: Any) -> None:
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.run(main_task)
        return
    asyncio.run(main_task)


def _module(name: str) -> Any:
    return importlib.import_module(f"services.{name}.app")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m services", description=__doc__)
    parser.add_argument("service", choices=[*NAMES, "all"])
    parser.add_argument("--check", action="store_true", help="print the settings, secrets masked, and exit")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
