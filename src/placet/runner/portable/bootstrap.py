"""The first program on a machine that is not ours, in POSIX sh: finds a Python for the runner."""

from __future__ import annotations

NO_PYTHON = 97

TEXT = """\
#!/bin/sh
# usage: bootstrap.sh RUNNER FOLDER
# Looks for Python 3.8 or newer, and runs RUNNER with it for the attempt in FOLDER.
runner=$1
folder=$2
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
for name in "$PLACET_PYTHON" python3 /usr/libexec/platform-python \\
    python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python; do
    [ -n "$name" ] || continue
    command -v "$name" >/dev/null 2>&1 || continue
    "$name" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 || continue
    exec "$name" -I -S -B "$runner" "$folder"
done
echo "placet: no Python 3.8 or newer on $(uname -n)" >&2
exit 97
"""
