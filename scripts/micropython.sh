#!/usr/bin/env bash
# Fetch MicroPython's sources into build/micropython, for the native module and its tests: Debian's
# source package, by apt, from the mirror that this system uses. Nothing is installed, and apt's own
# lists stay as they are. A second run does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=trixie # the oldest one with a MicroPython that has all that is needed
target=build/micropython
fail() {
    echo "micropython: $1" >&2
    echo "             or set MCUTRAIN_MICROPYTHON (MPY_DIR for make) to a checkout of it" >&2
    exit 1
}

for found in "$target"/micropython-*/py/dynruntime.mk; do
    [ ! -f "$found" ] || exit 0
done
command -v apt-get >/dev/null 2>&1 || fail "no apt-get here: get the sources by hand"

# The archive of this system's own packages.
uri=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' |
    grep -v security | head -n 1 || true)
[ -n "$uri" ] || fail "apt knows no archive of Debian: get the sources by hand"
keys=$(ls /usr/share/keyrings/debian-archive-keyring.[gp]* 2>/dev/null | head -n 1 || true)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work" # apt downloads as another user
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$work/parts" "$target"
echo "deb-src ${keys:+[signed-by=$keys]} $uri $suite main" >"$work/sources.list"
apt() {
    apt-get -q -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts="$work/parts" \
        -o Dir::State::Lists="$work/lists" -o Dir::Cache="$work/cache" \
        -o Debug::NoLocking=1 -o Acquire::Retries=3 "$@"
}
{ apt update && cd "$work" && apt source --download-only micropython; } >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    fail "apt could not fetch the sources"
}
cd "$OLDPWD"

# Unpacked beside its place first: what is there is complete.
python3 -m tarfile -e "$work"/micropython_*.orig.tar.xz "$work/unpacked"
mv "$work"/unpacked/micropython-* "$target/"
echo "micropython: sources in $(echo "$target"/micropython-*)"
