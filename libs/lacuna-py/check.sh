#!/bin/sh
# Tests the Python package: `libs/lacuna-py/check.sh [pytest arguments]`.
#
# PYTHON chooses the interpreter (default: the system's, which has the system's PyTorch). Nothing
# is written into the tree. Says SKIPPED with the reason, and exits 0, where it cannot run.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=/usr/bin/python3
    [ -x "$python" ] || python=$(command -v python3) || python=
fi
skip() {
    echo "SKIPPED: lacuna-py: $1"
    exit 0
}
[ -n "$python" ] || skip "there is no python3"
for module in torch pytest; do
    "$python" -c "import $module" 2>/dev/null ||
        skip "$python has no $module (Debian: apt-get install python3-torch python3-pytest)"
done
"$python" -c "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())" ||
    skip "this PyTorch has no gloo"
PYTHONDONTWRITEBYTECODE=1
PYTHONPATH="$here/src${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE PYTHONPATH
"$python" -c "import sys, torch; print('lacuna-py: python', sys.version.split()[0], 'torch', torch.__version__)"
cd "$here" && exec "$python" -m pytest -q -p no:cacheprovider "$@"
