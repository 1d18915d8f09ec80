# Sourced by every script: where build output and tools live, so that a fresh clone finds what an older one built.

ORBIT_ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
ORBIT_CACHE="${ORBIT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/orbit}"
ORBIT_TOOLS="$ORBIT_CACHE/tools"
ORBIT_PYTHON="$ORBIT_CACHE/python"
export ORBIT_ROOT ORBIT_CACHE ORBIT_TOOLS ORBIT_PYTHON
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$ORBIT_CACHE/target}"
export PATH="$ORBIT_TOOLS/bin:$HOME/.cargo/bin:$PATH"

# Only RocksDB is worth a compiler cache, and only when it is compiled here; with a ready archive the compiler stays as it is.
if [ -z "${ROCKSDB_LIB_DIR:-}" ] && [ -z "${CC:-}${CXX:-}" ] && command -v ccache >/dev/null; then
  export CC="ccache cc" CXX="ccache c++" CCACHE_DIR="${CCACHE_DIR:-$ORBIT_CACHE/ccache}"
fi

# In CI the lock file is the truth; at the desk cargo may add what a manifest asks for.
CARGO_LOCKED=()
[ -z "${CI:-}" ] || CARGO_LOCKED=(--locked)

say() { printf '%s\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

need() { # need TOOL…: a missing one is named together with its cure
  local tool
  for tool in "$@"; do
    command -v "$tool" >/dev/null || die "'$tool' is not installed; run scripts/deps, which installs all that is needed"
  done
}

cd "$ORBIT_ROOT" || exit 1
