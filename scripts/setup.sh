#!/usr/bin/env bash
# Prepare this checkout: system packages (only those that are missing) and .venv with mcutrain in it.
#
#   scripts/setup.sh run     what mcutrain itself needs: compilers, emulator, report; no PyTorch
#   scripts/setup.sh demo    the same and the demo's data (package names in DEMO_APT)
#   scripts/setup.sh test    everything `make test` needs, PyTorch included
#
# It can be run again at any time: what is there is left alone, and a second run takes a second.
# PYTHON=/path/to/python3 chooses the interpreter; otherwise the first Python >= 3.11 on PATH is taken.
set -euo pipefail
cd "$(dirname "$0")/.."

profile="${1:-run}"
DEMO_APT="${DEMO_APT:-dataset-fashion-mnist}"

case "$profile" in
run | demo) extras="report" ;;
test) extras="test" ;;
*)
    echo "setup: unknown profile '$profile' (use run, demo or test)" >&2
    exit 2
    ;;
esac

say() { echo "setup: $*"; }
fail() {
    echo "setup: error: $1" >&2
    shift
    for line in "$@"; do echo "       $line" >&2; done
    exit 1
}
have() { command -v "$1" >/dev/null 2>&1; }

# --- which system packages are missing ----------------------------------------------------------
# A tool counts as present however it came here, so that hand-installed ones are used.

has_c_headers() { echo '#include <string.h>' | gcc -E -x c - >/dev/null 2>&1; }
has_sanitizers() { [ -f "$(gcc -print-file-name=libasan.so)" ]; }
# gcc answers with the bare name where it does not find the file.
has_newlib() { [ -f "$(arm-none-eabi-gcc -print-file-name=nano.specs)" ]; }
has_deb() { dpkg-query -W -f '${Status}' "$1" 2>/dev/null | grep -q 'ok installed'; }

missing_packages() {
    have gcc || echo gcc
    { have gcc && has_c_headers; } || echo libc6-dev
    have make || echo make
    have arm-none-eabi-gcc || echo gcc-arm-none-eabi
    { have arm-none-eabi-gcc && has_newlib; } || echo libnewlib-arm-none-eabi
    have qemu-system-arm || echo qemu-system-arm
    if [ "$profile" = test ]; then
        have git || echo git
        { ! have gcc || has_sanitizers; } || echo "libgcc-$(gcc -dumpversion)-dev"
        # The vector kernels of another kind of PC.
        have aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        have qemu-aarch64 || echo qemu-user
    fi
    if [ "$profile" != run ] && have dpkg-query; then
        for package in $DEMO_APT; do has_deb "$package" || echo "$package"; done
    fi
}

# --- installing them ----------------------------------------------------------------------------

as_root=()
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 "$@"
}

retry() { # two more tries: mirrors and locks fail for a moment now and then
    "$@" || { sleep 5 && "$@"; } || { sleep 15 && "$@"; }
}

install_packages() {
    have apt-get || fail "this system has no apt-get, and these are missing: $*" \
        "mcutrain's set-up knows Debian 12 or newer. Elsewhere, install by hand: gcc, make," \
        "arm-none-eabi-gcc with newlib-nano, qemu-system-arm, Python >= 3.11 with venv and headers;" \
        "then run the same make target again."
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || fail "not root, and there is no sudo" "Run as root: apt-get install -y $*"
        as_root=(sudo)
    fi
    say "installing $*"
    mkdir -p build
    local log=build/setup-apt.log
    # A stale list is no reason to stop: if a package cannot be had, the next step says so.
    retry apt update >"$log" 2>&1 || say "apt-get update failed, going on with the lists there are"
    retry apt install -y --no-install-recommends "$@" >>"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        fail "apt-get could not install: $*" "The whole output is in $log."
    }
}

find_python() { # prints the first interpreter >= 3.11
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 /usr/bin/python3}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# What the interpreter lacks: the venv module (Debian splits it off) or the headers that cffi needs.
python_lacks() {
    "$1" - <<'PY'
import importlib.util, pathlib, sysconfig
if importlib.util.find_spec("venv") is None or importlib.util.find_spec("ensurepip") is None:
    print("python3-venv")
if not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists():
    print("python3-dev")
PY
}

prepare_system() {
    local wanted python
    wanted=$(missing_packages)
    python=$(find_python) || { [ -n "${PYTHON:-}" ] || wanted="$wanted python3 python3-venv python3-dev"; }
    [ -z "$python" ] || wanted="$wanted $(python_lacks "$python")"
    # shellcheck disable=SC2086  # a list of words
    set -- $wanted
    [ $# -eq 0 ] || install_packages "$@"
}

check_system() { # what must be there now, whoever installed it
    local left
    left=$(missing_packages | tr '\n' ' ')
    [ -z "$left" ] || fail "still missing after installation: $left"
    python=$(find_python) || fail "no Python >= 3.11 found${PYTHON:+ (PYTHON=$PYTHON)}" \
        "Install one (Debian 12: apt-get install python3 python3-venv python3-dev) or set PYTHON."
    left=$(python_lacks "$python" | tr '\n' ' ')
    [ -z "$left" ] || fail "$python lacks what these Debian packages give: $left" \
        "They serve Debian's own Python: set PYTHON=/usr/bin/python3, or choose a complete one."
}

# --- .venv --------------------------------------------------------------------------------------

fingerprint() {
    { "$python" -VV && cat pyproject.toml scripts/setup.sh && pwd; } | sha256sum | cut -d' ' -f1
}

prepare_venv() {
    # `test` holds all that the other profiles install, so either stamp will do for those.
    local want stamp
    want=$(fingerprint)
    for stamp in ".venv/.setup-$extras" .venv/.setup-test; do
        if [ -x .venv/bin/mcutrain ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then
            say "ready (.venv/bin/mcutrain, $profile)"
            return
        fi
    done
    rm -f .venv/.setup-*
    if ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "making .venv with $python"
        "$python" -m venv --clear .venv || fail "$python -m venv failed" "Its message is above."
    fi
    say "installing Python packages (extras: $extras)"
    mkdir -p build
    local log=build/setup-pip.log
    .venv/bin/python -m pip install --disable-pip-version-check --retries 5 -e ".[$extras]" \
        >"$log" 2>&1 || {
        tail -n 15 "$log" >&2
        fail "pip could not install mcutrain[$extras]" "The whole output is in $log."
    }
    [ -x .venv/bin/mcutrain ] || fail ".venv/bin/mcutrain was not made" "See $log."
    echo "$want" >".venv/.setup-$extras"
    say "ready (.venv/bin/mcutrain, $profile)"
}

[ -w . ] || fail "cannot write in $(pwd)" "Run as the owner of this checkout, or clone it anew."

# Two runs at once (two terminals, a parallel make) would write into one .venv.
if have flock; then
    mkdir -p build
    exec 9>build/setup.lock
    flock 9
fi

prepare_system
check_system
prepare_venv

if [ "$profile" = test ]; then
    scripts/micropython.sh || say "going on: tests of the MicroPython module will be skipped"
fi
