#!/bin/sh
# Tests the Python package: `libs/lacuna-py/check.sh [pytest arguments]`.
#
# PYTHON chooses the interpreter (default: the system's, which has the system's PyTorch). Nothing
# is written into the tree. Where it cannot run, it says SKIPPED with the reason and exits 0; with 1
# if LACUNA_REQUIRE names torch.
set -u
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-}
if [ -z "$python" ]; then
    python=/usr/bin/python3
    [ -x "$python" ] || python=$(command -v python3) || python=
fi
skip() {
    case ",$(printf %s "${LACUNA_REQUIRE:-}" | tr -d ' ')," in
    *,torch,* | *,all,*)
        echo "lacuna-py: $1; LACUNA_REQUIRE=$LACUNA_REQUIRE" >&2
        exit 1
        ;;
    esac
    echo "SKIPPED: lacuna-py: $1"
    # A line as libs/skip writes it.
    [ -z "${LACUNA_SKIPPED:-}" ] ||
        printf 'test\ttorch\tlibs/lacuna-py/check.sh\tlacuna-py\t%s\t%s\n' "$1" \
            "apt-get install python3-torch python3-pytest" >>"$LACUNA_SKIPPED"
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
