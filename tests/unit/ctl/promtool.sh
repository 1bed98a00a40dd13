#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# promtool.sh PRINTER OPERATIONS.md: the metrics that `PRINTER --print` writes pass promtool without a
# word, the alerts in the document are rules, and both name metrics that there are.
# Exit status 77 (skipped) without promtool.
set -eu
command -v promtool >/dev/null || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$1" --print >"$work/metrics"
said=$(promtool check metrics <"$work/metrics" 2>&1) || {
	printf '%s\n' "promtool refuses the metrics:" "$said"
	exit 1
}
if [ -n "$said" ]; then
	printf '%s\n' "promtool has remarks on the metrics:" "$said"
	exit 1
fi
# it must be able to complain: a counter without _total
if printf '# HELP a b\n# TYPE a counter\na 1\n' | promtool check metrics >/dev/null 2>&1; then
	echo "promtool accepts a counter without _total"
	exit 1
fi

awk '/^```yaml$/ { f = 1; next } /^```$/ { f = 0 } f' "$2" >"$work/rules.yml"
promtool check rules "$work/rules.yml" || exit 1
names=$(grep -o 'daser_[a-z0-9_]*' "$2" | sort -u)
[ -n "$names" ]
for name in $names; do
	grep -q "^# TYPE $name " "$work/metrics" || {
		echo "$2 names a metric that there is not: $name"
		exit 1
	}
done
