#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# exports.sh LIBRARY HEADER...: the library defines what the headers mark DASER_API, and no more.
set -euo pipefail
library=$1
shift
declared=$(cat "$@" | tr '\n' ' ' | grep -o 'DASER_API [^(;]*(' | grep -o 'daser_[a-z0-9_]*(' | tr -d '(' | sort -u)
# Names with two underscores are the toolchain's.
defined=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^_' | sort -u)
[[ -n $declared ]] || { echo "no declaration found in $*" >&2; exit 1; }
diff <(printf '%s\n' "$declared") <(printf '%s\n' "$defined")
