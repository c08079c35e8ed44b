"""House rules that ruff and the import contracts cannot express, as small checks over the tracked files.
Run as tests by pytest and as a command by `python -m tests.lint`."""
