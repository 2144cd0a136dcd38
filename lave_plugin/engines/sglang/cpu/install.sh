#!/usr/bin/env bash
# install.sh VENV: an environment in which the real SGLang runs on a CPU (1.6 GB), with
# this checkout of the plugin in it. Where the packages come from is pip's configuration.
set -euo pipefail

venv=$1
here=$(dirname "${BASH_SOURCE[0]}")
root=$here/../../../..
export PIP_DISABLE_PIP_VERSION_CHECK=1

python=
for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        python=$candidate
        break
    fi
done
if [ -z "$python" ]; then
    echo "SGLang needs Python 3.11 or newer with pip and venv, and ${PYTHON:-python3} is not that." \
        "Name one: make env PYTHON=/path/to/python3.11" >&2
    exit 1
fi

phase() { # phase WHAT COMMAND...: quiet when all is well, the whole story when not
    local what=$1 log start=$SECONDS
    shift
    log=$(mktemp)
    printf 'env: %-46s ' "$what"
    if "$@" >"$log" 2>&1; then
        printf '%4d s\n' $((SECONDS - start))
        rm -f "$log"
    else
        printf 'failed\n'
        cat "$log" >&2
        rm -f "$log"
        exit 1
    fi
}

pip() { "$venv/bin/python" -m pip install --quiet --constraint "$here/constraints.txt" "$@"; }

# First of all, so that nothing else asks for a CUDA build (6 GB). The default build of
# the same release does as well where there is no CPU build at hand.
torch() { pip torch==2.13.0+cpu || pip torch==2.13.0; }

phase "virtual environment" "$python" -m venv "$venv"
phase "PyTorch for the CPU" torch
phase "SGLang's requirements that a CPU needs" pip -r "$here/requirements.txt"
phase "SGLang and xgrammar without their CUDA packages" pip --no-deps -r "$here/requirements-nodeps.txt"
phase "test tools" pip -r "$here/requirements-dev.txt"
phase "this plugin" pip --no-deps --editable "$root"
printf 'env: %-46s %4d s\n' "all together" $SECONDS
