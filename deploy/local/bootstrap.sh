#!/bin/sh
# Finds a Python that can run the project and lets it make .venv; called by every make target that needs one.
# PYTHON=/path/to/python chooses one; further arguments go to deploy/local/install.py.
set -eu
cd "$(dirname "$0")/../.."

# The usual case costs one start of Python.
if [ -x .venv/bin/python ] && .venv/bin/python -m deploy.local.install --check "$@" 2>/dev/null; then
    exit 0
fi

usable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' >/dev/null 2>&1
}

fail() {
    echo "kenari: $1" >&2
    exit 1
}

found=
if [ -n "${PYTHON:-}" ]; then
    usable "$PYTHON" || fail "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13"
    found=$PYTHON
else
    for candidate in python3.11 python3.12 python3.13 python3 python; do
        if usable "$candidate"; then
            found=$candidate
            break
        fi
    done
    [ -n "$found" ] || fail "needs Python 3.11, 3.12 or 3.13 on the PATH (found: $(python3 -V 2>/dev/null || echo none)); install one, or name one with PYTHON=/path/to/python"
fi

"$found" -c 'import ensurepip, venv' >/dev/null 2>&1 ||
    fail "$found comes without venv and ensurepip; install them (on Debian and Ubuntu: apt-get install $("$found" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'))"

exec "$found" -m deploy.local.install "$@"
