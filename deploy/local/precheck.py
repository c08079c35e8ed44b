"""Whether the services will take their settings and their catalogue, asked before anything is started for them.
Called by the launcher.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from libs.core.errors import ConfigError
from services.accounts.settings import AccountsSettings
from services.edge.settings import EdgeSettings
from services.ledger.settings import LedgerSettings
from services.limiter.settings import LimiterSettings
from services.router.catalog.load import load
from services.router.settings import RouterSettings


def check(environment: Mapping[str, str]) -> None:
    """Read what the services will read in `environment`, all of it.

    Raises ConfigError with one line per wrong setting, or CatalogError with one `file:line: reason` per mistake.
    Call it before there are threads: settings come from this process's environment, which is exchanged meanwhile.
    """
    with _environment(environment):
        wrong: list[str] = []
        for settings in (AccountsSettings, RouterSettings, LimiterSettings, LedgerSettings, EdgeSettings):
            try:
                settings.read()
            except ConfigError as error:
                # A shared setting is told by every service that reads it.
                wrong += [line for line in str(error).splitlines() if line not in wrong]
        if wrong:
            raise ConfigError("\n".join(wrong))
        load(RouterSettings.read().catalog_file, environment)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
