#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Offline simulation of the two caches that daser-replay exercises, one request after another.

It shares no code with the actors: it restates, in the plainest way, what docs/replay.md says of the
engine stand-in and what docs/architecture.md says of the scheduler's index. Each request is finished,
and everything it stores is visible, before the next one comes.

    simulate.py TRACE [--requests N] [--block-tokens N] [--slots N] ... > expected.jsonl

TRACE is a Mooncake trace (plain or .xz). One JSON object for each request and phase:
    phase, index, input_length, full_blocks, engine_hit_blocks, l1_hit_blocks, seen_blocks
where seen_blocks is what an infinite cache would have.

Engine: pages of --kv-blocks blocks with a prefix cache. Free blocks form a queue; a cached block that
is freed keeps its content until it is taken from the queue's head. A request frees its last block
first. Only full blocks of the prompt are cached, each when the step that completes it ended.
L1: --slots slots, one for each block. An entry has the entry of the block before it as its parent.
Touching a chain makes its deepest entry the least recently used of it and its root the most recently
used. Only an entry without children is evicted, the least recently used one first.
"""
import argparse
import json
import lzma
import sys
from collections import OrderedDict
from itertools import islice

SPAN_TOKENS = 512


def read_trace(path, requests=0):
    """[(input_length, output_length, hash_ids)]"""
    opener = lzma.open if path.endswith(".xz") else open
    items = []
    with opener(path, "rt", encoding="utf-8") as file:
        for line in file:
            if requests and len(items) == requests:
                break
            if line.strip():
                item = json.loads(line)
                items.append((item["input_length"], item["output_length"], item["hash_ids"]))
    return items


class Namer:
    """Gives every distinct prefix of blocks a number; the same for all phases."""

    def __init__(self, block_tokens, span_tokens):
        self.block_tokens, self.span_tokens = block_tokens, span_tokens
        self.numbers = {}

    def names(self, input_length, ids):
        """Numbers of the full blocks of a prompt."""
        bt, span = self.block_tokens, self.span_tokens
        names, before = [], -1
        for block in range(input_length // bt):
            start = block * bt
            if bt <= span:
                content = (ids[start // span], start % span)
            else:
                content = tuple(ids[start // span:(start + bt) // span])
            before = self.numbers.setdefault((before, content), len(self.numbers))
            names.append(before)
        return names


class Pages:
    """The engine's KV cache. A page is a list [name or None, users]."""

    def __init__(self, count):
        self.free = OrderedDict((page, None) for page in range(count))
        self.name = [None] * count
        self.users = [0] * count
        self.cached = {}

    def hits(self, names, most):
        pages = []
        for name in names[:most]:
            if name not in self.cached:
                break
            pages.append(self.cached[name])
        return pages

    def touch(self, pages):
        for page in pages:
            if self.users[page] == 0:
                del self.free[page]
            self.users[page] += 1

    def take(self, count):
        taken = []
        for _ in range(count):
            page, _ = self.free.popitem(last=False)
            if self.name[page] is not None:
                del self.cached[self.name[page]]
                self.name[page] = None
            self.users[page] = 1
            taken.append(page)
        return taken

    def put(self, pages):
        for page in reversed(pages):
            self.users[page] -= 1
            if self.users[page] == 0:
                self.free[page] = None

    def cache(self, page, name):
        if self.name[page] is None and name not in self.cached:
            self.name[page] = name
            self.cached[name] = page

    def forget(self):
        for page in self.cached.values():
            self.name[page] = None
        self.cached.clear()


class L1:
    """Entries of stored blocks, in order of use: the least recently used first."""

    def __init__(self, slots):
        self.slots = slots  # None: infinite
        self.entries = OrderedDict()  # name -> name of the parent, or None
        self.children = {}

    def hits(self, names):
        count = 0
        while count < len(names) and names[count] in self.entries:
            count += 1
        return count

    def touch(self, names, deepest):
        for i in range(deepest, -1, -1):
            self.entries.move_to_end(names[i])

    def lease(self, names, first, count):
        """How many of `count` blocks from `first` on can be pinned: at most half of L1."""
        if self.slots is not None:
            count = min(count, self.slots // 2)
        if count > 0:
            self.touch(names, first + count - 1)
        return count

    def evict(self, protected, wanted):
        """Frees up to `wanted` slots; returns how many."""
        evicted = 0
        candidates = list(islice(self.entries, wanted + len(protected)))
        for name in candidates:
            if evicted == wanted:
                break
            if name in protected or self.children.get(name, 0) > 0:
                continue
            parent = self.entries.pop(name)
            if parent is not None:
                self.children[parent] -= 1
            evicted += 1
        return evicted

    def store(self, names, first, end):
        """Blocks [first, end) of a request are handed over; their reservation decides."""
        if first > 0 and names[first - 1] not in self.entries:
            return
        protected = set(names[:end])
        absent = [i for i in range(first, end) if names[i] not in self.entries]
        room = len(absent)
        if self.slots is not None:
            room = self.slots - len(self.entries)
            if room < len(absent):
                room += self.evict(protected, len(absent) - room)
        for i in absent[:room]:
            parent = names[i - 1] if i > 0 else None
            self.entries[names[i]] = parent
            if parent is not None:
                self.children[parent] = self.children.get(parent, 0) + 1
        deepest = self.hits(names[:end]) - 1
        if deepest >= 0:
            self.touch(names, deepest)


class Simulation:
    def __init__(self, block_tokens, kv_blocks, slots, token_budget, output_tokens,
                 span_tokens=SPAN_TOKENS):
        self.block_tokens, self.token_budget = block_tokens, token_budget
        self.output_tokens = output_tokens
        self.namer = Namer(block_tokens, span_tokens)
        self.pages = Pages(kv_blocks)
        self.l1 = L1(slots)
        self.seen = set()

    def blocks_for(self, tokens):
        return -(-tokens // self.block_tokens)

    def load(self, names, table, local, external):
        table += self.pages.take(external)
        for i in range(local, local + external):
            self.pages.cache(table[i], names[i])

    def compute(self, names, table, tokens, computed, target):
        """Prefill in chunks, then one token a step."""
        generated = reserved = cached = 0
        while generated < target:
            now = min(tokens - computed, self.token_budget)
            table += self.pages.take(max(0, self.blocks_for(computed + now) - len(table)))
            computed += now
            storable = min(computed // self.block_tokens, len(names))
            if storable > reserved:
                self.l1.store(names, reserved, storable)
                reserved = storable
            while cached < storable:
                self.pages.cache(table[cached], names[cached])
                cached += 1
            if computed == tokens:
                generated += 1
                tokens += 1

    def request(self, input_length, output_length, ids):
        """Runs one request; returns full blocks, engine hits, L1 hits, blocks seen before."""
        names = self.namer.names(input_length, ids)
        target = max(1, min(output_length, self.output_tokens))
        seen = 0
        while seen < len(names) and names[seen] in self.seen:
            seen += 1
        self.seen.update(names)
        table = self.pages.hits(names, (input_length - 1) // self.block_tokens)
        local = len(table)
        external = self.l1.lease(names, local, max(0, self.l1.hits(names) - local))
        self.pages.touch(table)
        self.load(names, table, local, external)
        computed = min((local + external) * self.block_tokens, input_length - 1)
        self.compute(names, table, input_length, computed, target)
        self.pages.put(table)
        return len(names), local, external, seen


def largest(items, block_tokens, output_tokens):
    return max(-(-(i + max(1, min(o, output_tokens))) // block_tokens) for i, o, _ in items)


def simulate(items, options):
    """Yields one dict for each request of each phase."""
    kv_blocks = options.kv_blocks or 2 * largest(items, options.block_tokens, options.output_tokens)
    simulation = Simulation(options.block_tokens, kv_blocks, options.slots, options.token_budget,
                            options.output_tokens, options.span_tokens)
    for phase, name in enumerate(options.phases.split(",")):
        if name == "drain":
            continue
        simulation.pages.forget()
        for index, (input_length, output_length, ids) in enumerate(items):
            full, local, external, seen = simulation.request(input_length, output_length, ids)
            yield {"phase": phase, "index": index, "input_length": input_length,
                   "full_blocks": full, "engine_hit_blocks": local, "l1_hit_blocks": external,
                   "seen_blocks": seen}


def arguments(parser):
    """The options that describe the simulated run; defaults are daser-replay's."""
    parser.add_argument("--requests", type=int, default=0, help="first so many; 0: all")
    parser.add_argument("--block-tokens", type=int, default=16)
    parser.add_argument("--kv-blocks", type=int, default=0, help="0: twice the largest request")
    parser.add_argument("--slots", type=int, default=None, help="of L1; default: infinite")
    parser.add_argument("--token-budget", type=int, default=8192)
    parser.add_argument("--output-tokens", type=int, default=1)
    parser.add_argument("--phases", default="cold,drain,warm")
    parser.add_argument("--span-tokens", type=int, default=SPAN_TOKENS,
                        help="tokens of one hash id (of daser-replay --write-trace: its block)")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trace")
    arguments(parser)
    options = parser.parse_args()
    for line in simulate(read_trace(options.trace, options.requests), options):
        json.dump(line, sys.stdout, separators=(",", ":"))
        sys.stdout.write("\n")


if __name__ == "__main__":
    main()
