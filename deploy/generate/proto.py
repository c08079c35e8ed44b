"""libs/gen: the Python code of proto/kenari, with types.
Called by `python -m deploy.generate proto`; needs the tools of `make env-dev`.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from deploy.generate.files import ROOT, Generated

_SOURCES = ROOT / "proto"
_KINDS = ("python", "grpc_python", "mypy", "mypy_grpc")


class CompileFailed(Exception):
    """The compiler refused a .proto file; the message is what it said."""


def generate() -> Generated:
    """Compile all .proto files into a temporary folder and return what came out."""
    sources = sorted(str(file.relative_to(_SOURCES)) for file in _SOURCES.rglob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        outputs = [f"--{kind}_out={folder}" for kind in _KINDS]
        command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={_SOURCES}", *outputs, *sources]
        # The plug-ins that write the types are programs beside the interpreter.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command, env={**os.environ, "PATH": path}, cwd=_SOURCES, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise CompileFailed(done.stderr.strip())
        made = {file.relative_to(folder): file.read_text() for file in sorted(Path(folder).rglob("*.py*"))}
    return Generated(("libs/gen",), (".py", ".pyi"), {f"libs/gen/{path}": text for path, text in made.items()})
