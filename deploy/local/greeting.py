"""What `make run` prints when everything is up: where it is, the key, three requests to try, where to look.
Called by the launcher.
"""

import json
from pathlib import Path

from deploy.local.addresses import Ports
from deploy.local.wiring import WITH_RPC, State

FREE_MODEL, PAID_MODEL = "sim-1:free", "sim-1"


def curl_line(base_url: str, key: str, model: str, stream: bool = False) -> str:
    """One request as a line for a shell. `-i` shows the x-request-id that `make show` takes."""
    body: dict[str, object] = {"model": model, "messages": [{"role": "user", "content": "Say hello in Indonesian"}]}
    if stream:
        body["stream"] = True
    return (
        f"curl -{'iN' if stream else 'i'} {base_url}/v1/chat/completions "
        f"-H 'Authorization: Bearer {key}' -H 'Content-Type: application/json' -d '{json.dumps(body)}'"
    )


def greeting(state: State, ports: Ports, key: str, broker: str, seconds: float) -> str:
    """The whole text. Paths are shown relative to where the user stands."""
    url = ports.base_url
    metrics = "  ".join(f"{name} http://{ports.ops(name)}" for name in ("edge", *WITH_RPC))
    return f"""
Ready after {seconds:.1f} s.

  Base URL   {url}/v1
  Key        {key}   (account acct_demo, kept in {_short(state.demo_key)})

Try it:

  A free model
    {curl_line(url, key, FREE_MODEL)}

  A paid one
    {curl_line(url, key, PAID_MODEL)}

  Streamed
    {curl_line(url, key, PAID_MODEL, stream=True)}

Look inside:

  make show ID=<x-request-id of an answer>    hold, charge, events and trace of one request
  make reconcile                              prove that the books are right
  Logs       {_short(state.logs)}/*.log
  Metrics    /metrics and /ready of  {metrics}
  Events     {broker}

Ctrl-C stops everything started here; data stay in {_short(state.directory)}.
"""


def _short(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
