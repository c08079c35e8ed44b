"""`python -m deploy.generate proto|contracts|all [--check]`: write generated files, or tell which are stale.
Called by make.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence

from deploy.generate import contracts, proto
from deploy.generate.files import Generated

GENERATORS: Mapping[str, Callable[[], Generated]] = {"proto": proto.generate, "contracts": contracts.generate}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0, or 1 when --check finds a stale file or a generator fails."""
    parser = argparse.ArgumentParser(prog="python -m deploy.generate", description=__doc__)
    parser.add_argument("what", choices=[*GENERATORS, "all"])
    parser.add_argument("--check", action="store_true", help="change nothing, fail when something is stale")
    options = parser.parse_args(arguments)
    stale = False
    for name, generator in GENERATORS.items():
        if options.what not in (name, "all"):
            continue
        try:
            generated = generator()
        except proto.CompileFailed as error:
            print(error, file=sys.stderr)
            return 1
        for path in generated.stale() if options.check else generated.write():
            stale = True
            print(f"{path}: stale; run `make {name}`" if options.check else f"{path} written")
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
