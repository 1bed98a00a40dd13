#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a run of daser-replay with the offline simulation of the same caches.

    compare.py serial     --result result.json --log requests.jsonl [--slots N] [--trace FILE]
    compare.py concurrent --result result.json --log requests.jsonl [--slots N] [--trace FILE]

result.json is what --json printed (the last line counts), requests.jsonl is its --requests-log. The
options of the simulation are those that the result's `config` names; --slots is the number of L1
slots (`daserctl status --json`; none: L1 never filled up). --trace names the trace where the config's
path does not hold, and is needed for generated workloads (daser-replay --write-trace).

Definitions. All numbers are full blocks of prompts.
  measured(r)  what request r did not compute in the run: engine_hit_blocks (its leading blocks in the
               engine's own prefix cache) + l1_hit_blocks (loaded after them, successfully). They are
               those of the admission after which r computed its first token: a request that is
               preempted later and loads again hits once. A request that was aborted before it
               computed anything has none.
  serial(r)    the same in the simulation: one request after another in the trace's order, none
               aborted or preempted, every store finished before the next request.
  infinite(r)  the same with caches without limits: leading blocks that an earlier request had.
  lost(r)      serial(r) - measured(r), signed.
  cause(r)     why block measured(r) of r, the first one that was no hit, was missing, as the run's
               ledger of libdaser's block events has it:
    in_flight_duplicate  another live request was computing or storing it
    refused_store        its last store found no slot, a full queue, no parent, or came too late
    preempted, aborted   its last store was dropped with a preempted or aborted request; or r itself
                         was aborted before it computed anything
    eviction_order       it had been stored and was evicted
    other                the service or a load failed, or an answer came too late
    first_use            nobody asked for it before

serial: measured(r) = serial(r) for every request, engine and L1 hits separately.
concurrent, per phase:
  1. the sum of measured(r) is at most the sum of infinite(r);
  2. the sum of lost(r) is the sum by cause without a remainder. A positive lost(r) counts for
     cause(r): the cut is where the first block was missing. A negative one (the run kept what the
     serial order evicts, or a later request came first) counts, negative, for eviction_order.
     A positive lost(r) whose cause is first_use would be a remainder: serial(r) shows that an earlier
     request had the block. It must be 0, and so must `other`, unless --allow-other.
  3. the log agrees with the result's counters: hit tokens, missed blocks by cause, and no loss by a
     cause whose counter (drops by reason, preemptions, aborts) did not move in any phase so far.
Exit status: 0 as it must be, 1 not, 2 wrong input.
"""
import argparse
import json
import sys
from types import SimpleNamespace

import simulate

CAUSES = ("in_flight_duplicate", "refused_store", "preempted", "aborted", "eviction_order", "other")
REFUSALS = ("no_slot", "queue_full", "orphan", "deadline")


def fail(text):
    print(f"compare.py: {text}", file=sys.stderr)
    raise SystemExit(2)


def read_result(path):
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    if not lines:
        fail(f"{path} is empty")
    return json.loads(lines[-1])


def read_log(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    log = {(line["phase"], line["index"]): line for line in lines}
    if len(log) != len(lines):
        fail(f"{path} has a request twice")
    return log


def expected(result, slots, trace):
    """The simulated lines by (phase, index)."""
    config = result["config"]
    is_trace = config["workload"] == "trace"
    path = trace or (config["trace"] if is_trace else None)
    if not path:
        fail(f"--trace: the workload {config['workload']} was generated (daser-replay --write-trace)")
    options = SimpleNamespace(
        block_tokens=config["block-tokens"], kv_blocks=config["kv-blocks"], slots=slots,
        token_budget=config["token-budget"], output_tokens=config["output-tokens"],
        phases=config["phases"],
        span_tokens=simulate.SPAN_TOKENS if is_trace else config["block-tokens"])
    items = simulate.read_trace(path, config["requests"])
    return {(line["phase"], line["index"]): line for line in simulate.simulate(items, options)}


def check_shape(log, simulated):
    """Problems that make a comparison pointless."""
    problems = []
    if set(log) != set(simulated):
        missing, more = len(set(simulated) - set(log)), len(set(log) - set(simulated))
        problems.append(f"the log lacks {missing} requests and has {more} that were not simulated")
    for key in set(log) & set(simulated):
        if log[key]["full_blocks"] != simulated[key]["full_blocks"]:
            problems.append(f"phase {key[0]}, request {key[1]}: {log[key]['full_blocks']} full "
                            f"blocks, simulated {simulated[key]['full_blocks']}")
    return problems[:10]


def hits(line):
    return line["engine_hit_blocks"] + line["l1_hit_blocks"]


def compare_serial(log, simulated):
    problems = []
    for key in sorted(simulated):
        got, want = log[key], simulated[key]
        if got["aborted"] or got["preempted"]:
            problems.append(f"phase {key[0]}, request {key[1]} was aborted or preempted")
        for field in ("engine_hit_blocks", "l1_hit_blocks"):
            if got[field] != want[field]:
                problems.append(f"phase {key[0]}, request {key[1]}: {field} {got[field]}, "
                                f"simulated {want[field]} (of {want['full_blocks']} blocks)")
    total = sum(hits(line) for line in simulated.values())
    print(f"{len(simulated)} requests, {total} simulated hit blocks, {len(problems)} differences")
    return problems


def split_losses(lines, simulated):
    """(sum of lost(r), blocks by cause, remainder)"""
    causes, lost_sum, remainder = dict.fromkeys(CAUSES, 0), 0, 0
    for key, line in lines.items():
        lost = hits(simulated[key]) - hits(line)
        lost_sum += lost
        if lost < 0:
            causes["eviction_order"] += lost
        elif lost > 0 and line["cause"] in causes:
            causes[line["cause"]] += lost
        else:
            remainder += lost
    return lost_sum, causes, remainder


def check_counters(phase, lines, block_tokens):
    """The log against the phase's own numbers."""
    problems = []
    for source in ("engine", "l1"):
        tokens = sum(line[f"{source}_hit_blocks"] for line in lines) * block_tokens
        if tokens != phase["hit_tokens"][source]:
            problems.append(f"{source} hit tokens {phase['hit_tokens'][source]}, by the log {tokens}")
    missed = dict.fromkeys(phase["missed_blocks"], 0)
    for line in lines:
        if line["cause"] and line["computed"]:
            missed[line["cause"]] += line["full_blocks"] - hits(line)
    if missed != phase["missed_blocks"]:
        problems.append(f"missed blocks {phase['missed_blocks']}, by the log {missed}")
    return problems


def is_possible(cause, so_far, concurrency):
    """Whether a counter of the run shows that blocks were lost like that."""
    drops = [phase["drops"] for phase in so_far]
    if cause == "in_flight_duplicate":
        return concurrency > 1
    if cause == "refused_store":
        return any(drop.get(reason, 0) for drop in drops for reason in REFUSALS)
    if cause == "preempted":
        return any(phase["preemptions"] for phase in so_far)
    if cause == "aborted":
        return any(phase["aborted"] for phase in so_far)
    return True


def compare_concurrent(result, log, simulated, allow_other):
    problems = []
    config = result["config"]
    for number, phase in enumerate(result["phases"]):
        lines = {key: line for key, line in log.items() if key[0] == number}
        if not lines:
            continue
        name = f"phase {number} ({phase['name']})"
        measured = sum(hits(line) for line in lines.values())
        serial = sum(hits(simulated[key]) for key in lines)
        infinite = sum(simulated[key]["seen_blocks"] for key in lines)
        lost, causes, remainder = split_losses(lines, simulated)
        print(f"{name}: infinite {infinite}, serial {serial}, measured {measured}, lost {lost} = "
              + " + ".join(f"{count} {cause}" for cause, count in causes.items() if count)
              + f" + remainder {remainder}")
        if measured > infinite:
            problems.append(f"{name}: {measured} hits, an infinite cache has {infinite}")
        if lost != sum(causes.values()) or remainder:
            problems.append(f"{name}: {remainder} lost blocks have no cause")
        if causes["other"] and not allow_other:
            problems.append(f"{name}: {causes['other']} blocks lost for other causes")
        for cause, count in causes.items():
            if count > 0 and not is_possible(cause, result["phases"][:number + 1],
                                             config["concurrency"]):
                problems.append(f"{name}: {count} blocks lost by {cause}, which no counter shows")
        problems += [f"{name}: {text}"
                     for text in check_counters(phase, lines.values(), config["block-tokens"])]
    return problems


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("mode", choices=("serial", "concurrent"))
    parser.add_argument("--result", required=True)
    parser.add_argument("--log", required=True)
    parser.add_argument("--slots", type=int, default=None)
    parser.add_argument("--trace", default=None)
    parser.add_argument("--allow-other", action="store_true")
    options = parser.parse_args(arguments)
    result, log = read_result(options.result), read_log(options.log)
    if result.get("error"):
        fail(f"the run failed: {result['error']}")
    simulated = expected(result, options.slots, options.trace)
    problems = check_shape(log, simulated)
    if not problems and options.mode == "serial":
        problems = compare_serial(log, simulated)
    elif not problems:
        problems = compare_concurrent(result, log, simulated, options.allow_other)
    for problem in problems[:20]:
        print(f"compare.py: {problem}", file=sys.stderr)
    if len(problems) > 20:
        print(f"compare.py: and {len(problems) - 20} more", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
