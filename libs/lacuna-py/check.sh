#!/bin/sh
# Tests the Python package: `libs/lacuna-py/check.sh [pytest arguments]`.
#
# PYTHON names the interpreters, separated by blanks. Default: the system's, which has the system's
# PyTorch, and that of the environment .venv beside this file, if there is one: `newer_torch.py
# .venv` makes it. Without arguments, later interpreters run the tests that meet PyTorch's own
# interfaces: these differ by version. The tests' programs begin as forks of a process that has
# imported PyTorch (tests/warm.py). Nothing else is written into the tree. Failed tests run once
# more and are listed, since they have real time limits, and a machine may be busy. Without PyTorch
# it prints SKIPPED with the reason and exits 0; with 1 if LACUNA_REQUIRE names torch. Skipped tests
# are listed too (tests/conftest.py).
set -u
here=$(cd "$(dirname "$0")" && pwd)
pythons=${PYTHON:-}
if [ -z "$pythons" ]; then
    pythons=/usr/bin/python3
    [ -x "$pythons" ] || pythons=$(command -v python3) || pythons=
    [ ! -e "$here/.venv/whole" ] || pythons="$pythons $here/.venv/bin/python"
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
[ -n "$pythons" ] || skip "there is no python3"
for python in $pythons; do
    for module in torch pytest; do
        "$python" -c "import $module" 2>/dev/null ||
            skip "$python has no $module (Debian: apt-get install python3-torch python3-pytest)"
    done
    "$python" -c "import torch.distributed as d; raise SystemExit(not d.is_gloo_available())" ||
        skip "the PyTorch of $python has no gloo"
done
PYTHONDONTWRITEBYTECODE=1
PYTHONPATH="$here/src:$here/tables/src${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONDONTWRITEBYTECODE PYTHONPATH
cd "$here" || exit 1
cache=$(mktemp -d) || exit 1
trap 'rm -rf "$cache"' EXIT

# One run of pytest: arguments are its number, the interpreter, then pytest's.
test_with() {
    kept=$cache/$1 python=$2
    shift 2
    "$python" -c "import sys, torch; print('lacuna-py: python', sys.version.split()[0], 'torch', torch.__version__)"
    code=0
    "$python" -m pytest -q -o "cache_dir=$kept" "$@" || code=$?
    echo "$code" >"$kept.code"
}

# Once more what has failed there, with the same arguments.
once_more() {
    kept=$cache/$1 python=$2
    shift 2
    code=$(cat "$kept.code") || return 1
    # Exit code 1 is a failed test; others get no second chance.
    [ "$code" -eq 1 ] || return "$code"
    "$python" -c '
import json, sys
for test in json.load(open(sys.argv[1], encoding="utf-8")): print(test)
' "$kept/v/cache/lastfailed" >"$cache/failed" || return 1
    count=$(wc -l <"$cache/failed")
    echo "lacuna-py: $count failed, and once more:"
    sed 's/^/    /' "$cache/failed"
    while IFS= read -r test; do
        [ -z "${LACUNA_SKIPPED:-}" ] ||
            printf 'again\ttorch\tlibs/lacuna-py/check.sh\t%s\tit failed\tlook at it\n' "$test" >>"$LACUNA_SKIPPED"
    done <"$cache/failed"
    "$python" -m pytest -q -o "cache_dir=$kept" --lf "$@"
}

# Half of the suite's time, so that the rest can run beside it.
long="tests/test_loop.py tests/test_loops.py tests/test_exactly_once.py tests/test_step.py"
# What meets PyTorch's own interfaces.
versions="tests/test_gradients.py tests/test_step.py tests/test_loops.py tests/test_feed.py tests/test_tree.py
    tests/test_checkpoints.py tests/test_sharded.py tests/test_torchrun.py tests/test_outside.py
    tests/test_store.py tests/test_unsaved.py tests/test_newer_torch.py"
rest=
for file in $long; do
    rest="$rest --ignore=$file"
done

# Calls a function for each run of pytest, with its number, interpreter and arguments.
each() {
    what=$1 number=1
    shift
    for python in $pythons; do
        # shellcheck disable=SC2086 # words are arguments
        if [ $# -gt 0 ]; then
            "$what" "$number" "$python" "$@"
        elif [ "$number" -eq 1 ]; then
            "$what" 1 "$python" $rest
            number=2
            "$what" 2 "$python" $long
        else
            "$what" "$number" "$python" $versions
        fi
        number=$((number + 1))
    done
}

# All at once, since tests mostly wait. What failed comes again when all are done.
others=
beside() {
    [ "$1" -gt 1 ] || return 0
    test_with "$@" >"$cache/$1.said" 2>&1 &
    others="$others $cache/$1.said"
}
first() {
    [ "$1" -gt 1 ] || test_with "$@"
}
worst=0
again() {
    once_more "$@" || worst=$?
}
each beside "$@"
each first "$@"
wait
# shellcheck disable=SC2086 # words are files
[ -z "$others" ] || cat $others
each again "$@"
exit "$worst"
