# SPDX-License-Identifier: Apache-2.0
"""The simulation against cases that were worked out by hand, and the comparison's verdicts."""
import contextlib
import io
import json
import os
import tempfile
import unittest
from types import SimpleNamespace

import compare
import simulate


def run(prompts, slots=None, kv_blocks=1000, budget=100, phases="cold", output=1):
    """prompts: [(blocks, ids)] of 1-token spans and blocks; [(engine hits, L1 hits)]"""
    items = [(tokens, output, list(ids)) for tokens, ids in prompts]
    options = SimpleNamespace(block_tokens=1, kv_blocks=kv_blocks, slots=slots, token_budget=budget,
                              output_tokens=output, phases=phases, span_tokens=1)
    return [(line["engine_hit_blocks"], line["l1_hit_blocks"])
            for line in simulate.simulate(items, options)]


class Names(unittest.TestCase):
    def test_blocks_agree_as_far_as_their_ids(self):
        namer = simulate.Namer(16, 512)
        a, b = namer.names(600, [1, 2]), namer.names(1024, [1, 3])
        self.assertEqual((len(a), len(b)), (37, 64))
        self.assertEqual(a[:32], b[:32])
        self.assertFalse(set(a[32:]) & set(b[32:]))
        self.assertEqual(a, namer.names(1024, [1, 2])[:37])

    def test_a_large_block_takes_all_its_ids(self):
        namer = simulate.Namer(1024, 512)
        self.assertEqual(namer.names(2047, [1, 2, 3, 4]), namer.names(1024, [1, 2]))
        self.assertNotEqual(namer.names(1024, [1, 2]), namer.names(1024, [1, 9]))
        self.assertNotEqual(namer.names(2048, [1, 9, 3, 4])[1], namer.names(2048, [1, 2, 3, 4])[1])


class Engine(unittest.TestCase):
    def test_the_last_token_is_always_computed(self):
        # all 4 blocks are here, but one token must be left: the last block comes from L1
        self.assertEqual(run([(4, "abcd")] * 2), [(0, 0), (3, 1)])

    def test_a_small_cache_keeps_the_first_blocks_longest(self):
        # one generated token needs no page: 6 pages. abcd frees d first; xy takes 2 unused, then
        # uvw takes d, c, b: a is left
        prompts = [(4, "abcd"), (2, "xy"), (3, "uvw"), (4, "abcd")]
        self.assertEqual(run(prompts, kv_blocks=6)[3], (1, 3))

    def test_a_restart_empties_the_engine_alone(self):
        self.assertEqual(run([(3, "abc")], phases="cold,drain,warm"), [(0, 0), (0, 3)])

    def test_generated_tokens_take_pages(self):
        # 4 prompt tokens and 3 more of 4 generated ones: 7 pages of 7; d and c fall out first
        self.assertEqual(run([(4, "abcd"), (2, "xy")], kv_blocks=7, output=4)[0], (0, 0))
        with self.assertRaises(KeyError):
            run([(4, "abcd")], kv_blocks=6, output=4)


class Index(unittest.TestCase):
    def test_the_oldest_leaf_goes_first(self):
        # engine without room to remember: L1 of 4 slots
        prompts = [(2, "ab"), (2, "cd"), (1, "e"), (3, "abz")]
        # e evicts b, the leaf of the oldest chain; a stays
        self.assertEqual(run(prompts, slots=4, kv_blocks=3)[3][1], 1)

    def test_a_lease_pins_half_of_the_slots_at_most(self):
        self.assertEqual(run([(6, "abcdef"), (6, "abcdef")], slots=6, kv_blocks=6, phases="cold,cold"),
                         [(0, 0), (5, 1), (0, 3), (5, 1)])

    def test_a_chain_longer_than_l1_is_stored_as_far_as_it_fits(self):
        self.assertEqual(run([(6, "abcdef")], slots=4, phases="cold,cold"), [(0, 0), (0, 2)])
        # the rest of a prompt whose middle was refused is refused as well
        l1 = simulate.L1(4)
        l1.store([1, 2, 3, 4, 5, 6], 0, 5)
        l1.store([1, 2, 3, 4, 5, 6], 5, 6)
        self.assertEqual(sorted(l1.entries), [1, 2, 3, 4])

    def test_own_blocks_are_never_evicted(self):
        l1 = simulate.L1(3)
        l1.store([1, 2], 0, 2)
        l1.store([7], 0, 1)
        l1.store([1, 2, 3, 4], 0, 4)
        self.assertEqual(sorted(l1.entries), [1, 2, 3])

    def test_a_parent_is_used_later_than_its_children(self):
        l1 = simulate.L1(4)
        l1.store([1, 2, 3], 0, 3)
        self.assertEqual(list(l1.entries), [3, 2, 1])
        l1.store([1, 8], 0, 2)
        self.assertEqual(list(l1.entries), [3, 2, 8, 1])
        l1.lease([1, 2, 3], 1, 1)
        self.assertEqual(list(l1.entries), [3, 8, 2, 1])
        l1.store([9], 0, 1)
        self.assertEqual(list(l1.entries), [8, 2, 1, 9])


def line(index, engine, l1, cause="first_use", **more):
    return {"phase": 0, "index": index, "full_blocks": 10, "engine_hit_blocks": engine,
            "l1_hit_blocks": l1, "seen_blocks": engine + l1, "aborted": False, "computed": True,
            "preempted": 0, "cause": cause, **more}


def result(lines, concurrency=4, **phase):
    hits = {s: sum(entry[f"{s}_hit_blocks"] for entry in lines) for s in ("engine", "l1")}
    missed = dict.fromkeys((*compare.CAUSES, "first_use"), 0)
    for entry in lines:
        missed[entry["cause"]] += 10 - compare.hits(entry)
    return {"config": {"block-tokens": 1, "concurrency": concurrency},
            "phases": [{"name": "cold", "hit_tokens": {**hits, "l2": 0}, "drops": {}, "aborted": 0,
                        "preemptions": 0, "missed_blocks": missed, **phase}]}


class Verdict(unittest.TestCase):
    def concurrent(self, lines, simulated, allow_other=False, **phase):
        log = {(0, entry["index"]): entry for entry in lines}
        sim = {(0, entry["index"]): entry for entry in simulated}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            problems = compare.compare_concurrent(result(lines, **phase), log, sim, allow_other)
        return problems, out.getvalue()

    def test_losses_and_gains_add_up(self):
        problems, out = self.concurrent(
            [line(0, 0, 2, "in_flight_duplicate"), line(1, 0, 7, "first_use"), line(2, 1, 1, "aborted")],
            [line(0, 1, 4), line(1, 0, 5), line(2, 0, 5)], aborted=1)
        self.assertEqual(problems, [])
        self.assertIn("lost 4 = 3 in_flight_duplicate + 3 aborted + -2 eviction_order + remainder 0",
                      out)

    def test_a_loss_without_a_cause_is_a_remainder(self):
        problems, _ = self.concurrent([line(0, 0, 2)], [line(0, 0, 5)])
        self.assertIn("3 lost blocks have no cause", problems[0])

    def test_a_cause_must_show_in_a_counter(self):
        lines, simulated = [line(0, 0, 2, "refused_store")], [line(0, 0, 5)]
        self.assertIn("no counter", self.concurrent(lines, simulated)[0][0])
        self.assertEqual(self.concurrent(lines, simulated, drops={"no_slot": 1})[0], [])

    def test_other_causes_fail_unless_allowed(self):
        lines, simulated = [line(0, 0, 2, "other")], [line(0, 0, 5)]
        self.assertIn("other causes", self.concurrent(lines, simulated)[0][0])
        self.assertEqual(self.concurrent(lines, simulated, allow_other=True)[0], [])

    def test_more_than_an_infinite_cache_is_impossible(self):
        problems, _ = self.concurrent([line(0, 0, 6)], [line(0, 0, 5)])
        self.assertIn("an infinite cache has 5", problems[0])

    def test_the_log_must_agree_with_the_result(self):
        lines = [line(0, 1, 2, "in_flight_duplicate")]
        self.assertIn("hit tokens", self.concurrent(lines, [line(0, 1, 4)],
                                                    hit_tokens={"engine": 9, "l1": 2})[0][0])

    def test_a_serial_run_must_be_equal_by_source(self):
        with contextlib.redirect_stdout(io.StringIO()):
            log, same = {(0, 0): line(0, 1, 4)}, {(0, 0): line(0, 1, 4)}
            self.assertEqual(compare.compare_serial(log, same), [])
            self.assertEqual(len(compare.compare_serial(log, {(0, 0): line(0, 2, 3)})), 2)

    def test_files_are_read_as_they_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            trace, log = os.path.join(folder, "t"), os.path.join(folder, "l")
            with open(trace, "w", encoding="utf-8") as file:
                file.write('{"timestamp": 0, "input_length": 600, "output_length": 1, '
                           '"hash_ids": [1, 2]}\n\n')
            self.assertEqual(simulate.read_trace(trace), [(600, 1, [1, 2])])
            with open(log, "w", encoding="utf-8") as file:
                file.write(json.dumps(line(0, 0, 0)) + "\n")
            self.assertEqual(list(compare.read_log(log)), [(0, 0)])


if __name__ == "__main__":
    unittest.main()
