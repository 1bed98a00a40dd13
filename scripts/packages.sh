#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The distribution's packages that DaseR is built and tested with, once.
#
#   scripts/packages.sh missing [build|test]   print those that are not installed, one a line
#   scripts/packages.sh install [build|test]   install those with apt, as root or through sudo, unasked
#
# build: enough to build and run. test (the default): build, and what the tests need.
# Exit status: 0 good; 1 apt failed; 2 usage; 3 the table does not know this system.
set -euo pipefail

# need   Debian 12          Ubuntu 24.04       what for
table='
build    python3            python3            scripts, code generation, meson (3.11 or later)
build    gcc                gcc                C compiler (12 or later)
build    libc6-dev          libc6-dev          C library headers
build    meson              meson              build system (1.0 or later)
build    ninja-build        ninja-build        build system
build    pkg-config         pkg-config         finds the libraries
build    libzmq3-dev        libzmq3-dev        libzmq: messages
build    libmsgpack-dev     libmsgpack-c-dev   msgpack-c, the C library: message bodies
build    libmicrohttpd-dev  libmicrohttpd-dev  libmicrohttpd: /metrics and /health
build    libxxhash-dev      libxxhash-dev      xxhash: keys and checksums
build    libjansson-dev     libjansson-dev     jansson: JSON
test     git                git                lists the files of the style check
test     libcmocka-dev      libcmocka-dev      cmocka: unit tests
test     gdb                gdb                runs the command lines of docs/debugging.md
test     valgrind           valgrind           memory checks
test     clang              clang              second compiler, sanitizers, fuzzers
test     libclang-rt-14-dev libclang-rt-18-dev its sanitizer and fuzzer runtime
test     clang-tidy         clang-tidy         static analysis
test     clang-format-14    clang-format-14    layout of the code: this version and no other
test     cppcheck           cppcheck           static analysis
test     spin               spin               checks the models of tests/model
test     prometheus         prometheus         promtool, which checks /metrics; never started
test     xz-utils           xz-utils           unpacks tests/data
'

usage() {
	echo "usage: scripts/packages.sh missing|install [build|test]" >&2
	exit 2
}

# Prints the packages for this system; exits 3 with the names of the libraries where it is unknown.
wanted() {
	local phase=$1 system column
	# shellcheck source=/dev/null
	system=$(. /etc/os-release 2>/dev/null && echo "${ID:-} ${VERSION_ID:-}") || true
	case $system in
	'debian 12') column=2 ;;
	'ubuntu 24.04') column=3 ;;
	*)
		{
			echo "packages.sh: package names are known for Debian 12 and Ubuntu 24.04, not for" \
				"\`${system:-a system without /etc/os-release}\`. Install these by hand" \
				"(names are Debian's):"
			awk -v phase="$phase" 'NF && (phase == "test" || $1 == "build")' <<<"$table" |
				sed -E 's/^(\S+ +\S+ +)\S+ +/\1/; s/^/  /'
		} >&2
		exit 3
		;;
	esac
	awk -v phase="$phase" -v column="$column" \
		'NF && (phase == "test" || $1 == "build") { print $column }' <<<"$table"
}

missing() {
	local names installed
	names=$(wanted "$1") || exit
	# dpkg-query fails when it does not know one of them: that one is missing
	# shellcheck disable=SC2086 # one argument a name
	installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $names 2>/dev/null) || true
	awk 'NR == FNR { if ($1 == "installed") have[$2] = 1; next } !($1 in have)' \
		<(echo "$installed") <(echo "$names")
}

# The prometheus package starts a server and has it started at boot; only its promtool is wanted.
keep_prometheus_down() {
	local policy=/usr/sbin/policy-rc.d
	[[ -e $policy ]] && return
	trap 'rm -f /usr/sbin/policy-rc.d' EXIT
	# shellcheck disable=SC2016 # for the shell that runs it
	printf '#!/bin/sh\ncase $1 in prometheus*) exit 101 ;; esac\nexit 0\n' >"$policy"
	chmod 755 "$policy"
}

install() {
	local list names
	list=$(missing "$1") || exit
	[[ -n $list ]] || return 0
	if ((EUID != 0)); then
		command -v sudo >/dev/null || {
			echo "packages.sh: not root, and sudo is not installed; missing: ${list//$'\n'/ }" >&2
			exit 1
		}
		exec sudo -- "$BASH" "$0" install "$1"
	fi
	mapfile -t names <<<"$list"
	export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
	if [[ " ${names[*]} " == *' prometheus '* ]]; then
		keep_prometheus_down
	fi
	apt-get -q -o DPkg::Lock::Timeout=300 update </dev/null ||
		echo "packages.sh: apt-get update failed; going on with the lists that are there" >&2
	apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 install --no-install-recommends \
		"${names[@]}" </dev/null || {
		echo "packages.sh: apt-get could not install: ${names[*]}" >&2
		exit 1
	}
	if [[ " ${names[*]} " == *' prometheus '* ]] && command -v systemctl >/dev/null; then
		systemctl disable --now prometheus </dev/null >/dev/null 2>&1 || true
	fi
}

(($# == 1 || $# == 2)) || usage
phase=${2:-test}
[[ $phase == build || $phase == test ]] || usage
case $1 in
missing) missing "$phase" ;;
install) install "$phase" ;;
*) usage ;;
esac
