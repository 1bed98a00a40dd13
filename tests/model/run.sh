#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Checks the models of this folder with spin: each proof exhaustively, and each mutant, which lacks one
# rule, for the violation that it must have.
#
#   tests/model/run.sh            all but the large ones
#   tests/model/run.sh --large    the large ones, too: some minutes, 1.5 GiB each
#   tests/model/run.sh PATTERN    those whose `model name` matches the bash pattern *PATTERN*
#
# One line a run, then `N passed, N failed`; exit status 1 when one failed, 2 when none ran. Needs spin
# and a C compiler (CC). JOBS runs at a time (default 2, of at most 1 GiB each).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# kind   model    name                        broken flags (-O... is the compiler's)
runs='
large    store    every-one-dies              -      -DREPLICAS -DSTORE_DEATHS=1 -DSCHED_DEATHS=1 -DENGINE_DEATHS=1 -DLEASES=1 -DREPEATS=1 -DABANDONS=1
large    store    two-slots-scheduler-twice   -      -DREPLICAS -DSLOTS=2 -DBINDS=3 -DSCHED_DEATHS=2
large    store    store-and-scheduler-twice   -      -DREPLICAS -DSTORE_DEATHS=1 -DSCHED_DEATHS=2
large    staging  two-buffers                 -      -DBUFFERS=2
large    staging  two-buffers-actor-dies      -      -DBUFFERS=2 -DBATCH=2 -DACTOR_DEATHS=1
proof    store    warm-slot-scheduler-twice   -      -DREPLICAS -DSLOTS=2 -DSCHED_DEATHS=2 -DWARM
proof    store    scheduler-and-store-die     -      -DSCHED_DEATHS=1 -DSTORE_DEATHS=1
proof    store    scheduler-dies-twice        -      -DSCHED_DEATHS=2
proof    staging  two-buffers-of-two-blocks   -      -DBUFFERS=2 -DBATCH=2
mutant   store    NO_ENVELOPE_CHECK           2      -Og -DREPLICAS -DSLOTS=2 -DSCHED_DEATHS=2 -DWARM
proof    store    engine-dies                 -      -DENGINE_DEATHS=1 -DLEASES=1 -DREPEATS=1 -DABANDONS=1
proof    store    scheduler-dies              -      -DSCHED_DEATHS=1 -DLEASES=1 -DREPEATS=1
proof    store    replicas-each-dies          -      -DREPLICAS -DSTORE_DEATHS=1 -DSCHED_DEATHS=1 -DENGINE_DEATHS=1
proof    store    store-dies                  -      -DSTORE_DEATHS=1 -DREPEATS=1 -DLEASES=1
proof    store    two-slots                   -      -DSLOTS=2 -DABANDONS=1
proof    store    replicas-store-dies-twice   -      -DREPLICAS -DBINDS=3 -DSTORE_DEATHS=2 -DABANDONS=1
proof    store    lanes                       -      -DWARM -DREPEATS=1 -DABANDONS=1 -DLEASES=1
proof    load     scheduler-dies-twice        -      -DBINDS=4 -DLEASES=3 -DSCHED_DEATHS=2 -DRELINKS=1 -DMISMATCHES=1
live     staging  one-block-at-a-time         -      -DACTOR_DEATHS=1 -DHANGS=1
live     staging  two-blocks-at-a-time        -      -DBATCH=2 -DACTOR_DEATHS=1 -DHANGS=1
proof    staging  one-block-at-a-time         -      -DACTOR_DEATHS=1 -DHANGS=1
proof    staging  two-blocks-at-a-time        -      -DBATCH=2 -DACTOR_DEATHS=1 -DHANGS=1
mutant   store    VISIBLE_WITH_ONE_LANE       1
mutant   store    COMMIT_BEFORE_COPY          1
mutant   store    COMMIT_OF_ANY_BINDING       1      -DREPEATS=1
mutant   store    FREED_WITHOUT_CANCEL        2
mutant   store    CANCEL_ANSWERED_AT_ONCE     2
mutant   store    LATE_COMMIT                 2      -DWARM -DABANDONS=1 -DLEASES=1
mutant   store    STORE_UNCHECKED             2
mutant   store    LEASE_IGNORED               2      -DLEASES=1
mutant   store    UNCONFIRMED_DEATH           2      -DREPLICAS -DSTORE_DEATHS=1
mutant   store    ACCEPTS_BEFORE_HELLO_REPLY  2      -DSTORE_DEATHS=1
mutant   store    ENGINE_DEATH_FREES          2      -DENGINE_DEATHS=1
mutant   store    RESTART_FREES               2      -DSCHED_DEATHS=1
mutant   store    QUARANTINE_UNWRITTEN        2      -DSCHED_DEATHS=2
mutant   store    EVICTS_AFTER_RESTART        2      -DSCHED_DEATHS=1 -DLEASES=1
mutant   store    CANCEL_FORGOTTEN            5
mutant   store    CANCEL_NOT_REPEATED         5      -DSCHED_DEATHS=1 -DSTORE_DEATHS=1
mutant   store    HELLO_BEFORE_BURIAL         5      -DSTORE_DEATHS=1
mutant   store    REFUSED_SAVE_FORGOTTEN      5      -DSTORE_DEATHS=1
mutant   load     LEASE_IGNORED               2
mutant   load     MISMATCH_DROPS_LEASED       2      -DMISMATCHES=1
mutant   load     MISMATCH_FORGETS_OLD_LEASES 2      -DMISMATCHES=1 -DSCHED_DEATHS=1
mutant   load     QUARANTINE_IGNORES_LEASES   2      -DRELINKS=1 -DSCHED_DEATHS=1
mutant   load     EVICTS_AFTER_RESTART        2      -DSCHED_DEATHS=1
mutant   load     NO_CHECK_AFTER              3
mutant   load     WRITER_TOLD_FIRST           3
mutant   load     GENERATIONS_RESTART         3      -DSCHED_DEATHS=1
mutant   staging  REPORTS_BEFORE_LAST_SCATTER 4
mutant   staging  DEADLINE_FREES_STAGING      4
mutant   staging  LATE_SEGMENT_SCATTERED      4
mutant   staging  RELENT_BEFORE_SCATTER       4
mutant   staging  DEADLINE_OF_ENDED_LOAD      4
mutant   staging  NO_ENVELOPE_CHECK           4      -DACTOR_DEATHS=1
endless  staging  NO_DEADLINE                 4      -DHANGS=1
endless  staging  WAITS_FOR_STAGING           4      -DHANGS=1
mutant   staging  QUARANTINE_FOR_EVER         5
'

large=false
pattern=
for argument in "$@"; do
	case $argument in
	--large) large=true ;;
	-*)
		echo "usage: run.sh [--large] [PATTERN]" >&2
		exit 2
		;;
	*) pattern=$argument ;;
	esac
done
compiler=${CC:-cc}
for tool in spin "$compiler"; do
	command -v "$tool" >/dev/null || {
		echo "run.sh: $tool is not installed (scripts/packages.sh install test)" >&2
		exit 2
	}
done

scratch=$(mktemp -d "${TMPDIR:-/tmp}/daser-model.XXXXXX")
clean_up() {
	trap '' INT TERM
	local pids
	pids=$(jobs -pr)
	# shellcheck disable=SC2086 # one argument a process group
	[[ -z $pids ]] || kill -TERM -- ${pids//[0-9]*/-&} 2>/dev/null || true
	wait
	rm -rf "$scratch"
}
set -m # each run is a process group of its own
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Generates, compiles and runs one checker in the present, empty folder. Its output goes to `found`.
search() {
	local kind=$1 model=$2 optimise=-Og compile=(-DSAFETY) run=()
	shift 2
	case $kind in # a mutant ends soon
	mutant | endless) optimise=-O0 ;;
	esac
	case $kind in
	live | endless) # every load ends, whatever else happens: under weak fairness
		set -- "$@" -DLIVENESS
		compile=(-DNFAIR=3)
		run=(-a -f)
		;;
	esac
	# What is asked of the formula alone: an assertion would be found first.
	[[ $kind != endless ]] || run+=(-A)
	if [[ ${1:-} == -O* ]]; then
		optimise=$1
		shift
	fi
	[[ $kind != large ]] || compile+=(-DCOLLAPSE) # half as fast, a third of the memory
	cp "$models"/*.pml .
	spin "$@" -a "$model.pml" >spin.out 2>&1 || return
	"$compiler" "$optimise" -w "${compile[@]}" -DMEMLIM=4096 -o pan pan.c >compiler.out 2>&1 || return
	./pan -n -m100000 -w22 "${run[@]}" >found 2>&1
}

# The line of a run; status 0 when it came out as it must.
judge() {
	local kind=$1 broken=$2 states
	states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' found 2>/dev/null)
	if [[ -z $states ]] || grep -qE 'too small|out of memory|memory limit|^pan: error' found; then
		echo "did not finish: $(tail -n 3 spin.out compiler.out found 2>/dev/null | tr -s '\n\t ' ' ')"
		return 1
	fi
	if [[ $kind == proof || $kind == large || $kind == live ]]; then
		grep -q 'errors: 0' found && echo "$states states" && return 0
		echo "$states states: $(grep -m1 '^pan:1:' found)"
		return 1
	fi
	if grep -q 'errors: 0' found; then
		echo "no violation in $states states, expected one of property $broken"
		return 1
	elif [[ $kind == endless ]] && grep -q '^pan:1: acceptance cycle' found; then
		echo "breaks property $broken, as it must: a load never ends"
	elif [[ $kind == mutant ]] && grep -q "^pan:1: assertion violated.*($broken==0)" found; then
		echo "breaks property $broken, as it must"
	else
		echo "expected a violation of property $broken: $(grep -m1 '^pan:1:' found)"
		return 1
	fi
}

one() {
	local number=$1 kind=$2 model=$3 name=$4 broken=$5 text word=ok began=$EPOCHREALTIME ms
	shift 5
	[[ $kind != mutant && $kind != endless ]] || set -- "$@" "-DMUTANT_$name"
	mkdir "$scratch/$number"
	cd "$scratch/$number"
	search "$kind" "$model" "$@" || true
	text=$(judge "$kind" "$broken") || word=FAILED
	ms=$(((${EPOCHREALTIME/./} - ${began/./}) / 1000))
	printf '%-6s %-6s %-7s %-27s %4d.%d s  %s\n' "$word" "$kind" "$model" "$name" \
		$((ms / 1000)) $((ms % 1000 / 100)) "$text"
	cd "$scratch"
	rm -rf "${scratch:?}/$number"
	[[ $word == ok ]] && : >"$scratch/passed.$number"
}

models=$PWD
started=0
while read -r kind model name broken flags; do
	[[ -n $kind ]] || continue
	[[ "$model $name" == *$pattern* ]] || continue
	[[ $kind != large ]] || $large || continue
	while (($(jobs -pr | wc -l) >= ${JOBS:-2})); do
		wait -n || true
	done
	started=$((started + 1))
	# shellcheck disable=SC2086 # one argument a flag
	one "$started" "$kind" "$model" "$name" "$broken" $flags </dev/null &
done <<<"$runs"
wait
passed=$(find "$scratch" -name 'passed.*' | wc -l)
echo "$passed passed, $((started - passed)) failed"
((started > 0)) || exit 2
((passed == started))
