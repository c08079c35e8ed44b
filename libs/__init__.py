"""Code that belongs to no single service; imported by all of them."""

import sys
from pathlib import Path

# Generated protobuf modules import each other by their proto package (kenari.ledger.v1), so the folder
# that holds them joins the import path once, here, wherever the project runs from.
_GENERATED = str(Path(__file__).parent / "gen")
if _GENERATED not in sys.path:
    sys.path.append(_GENERATED)
