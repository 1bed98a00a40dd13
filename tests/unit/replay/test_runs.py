# SPDX-License-Identifier: Apache-2.0
"""Runs of daser-replay over the stand-in for libdaser: test_runs.py DASER_REPLAY_FAKE SIM_DIR."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

REPLAY, SIM = sys.argv[1], sys.argv[2]
TIMEOUT = 120
BLOCK_BYTES = 1024


def run(flags, words="", check=None):
    """(exit status, the JSON or None, standard error)"""
    done = subprocess.run([REPLAY, "--json", "--block-bytes", str(BLOCK_BYTES), *flags.split()],
                          capture_output=True, text=True, timeout=TIMEOUT, check=False,
                          env={**os.environ, "FAKE_DASER": words})
    result = json.loads(done.stdout.splitlines()[-1]) if done.stdout else None
    if check is not None and done.returncode != check:
        raise AssertionError(f"{flags} [{words}]: exit status {done.returncode}\n{done.stderr}")
    return done.returncode, result, done.stderr


class Good(unittest.TestCase):
    def phases(self, flags, words=""):
        _, result, errors = run(flags, words, check=0)
        self.assertEqual(errors, "")
        self.assertIsNone(result["error"])
        for phase in result["phases"]:
            self.assertEqual((phase["mismatched_bytes"], phase["hung"], phase["failed"]), (0, 0, 0))
        return result["phases"]

    def test_warm_serves_every_block_seen_before(self):
        for layout in ("block", "layer"):
            for tp in (1, 2, 3):
                cold, drain, warm = self.phases(f"--tp {tp} --layout {layout} --turn-tokens 300")
                self.assertEqual(drain["name"], "drain")
                self.assertEqual(warm["seen_hit_blocks"], warm["seen_blocks"])
                self.assertEqual(warm["seen_blocks"], 8 * sum(300 * n // 16 for n in (1, 2, 3, 4)))
                self.assertEqual(warm["bytes_loaded"], warm["l1_hits"] * BLOCK_BYTES * tp)
                self.assertEqual(cold["prompt_tokens"], 8 * 3000)
                self.assertEqual(warm["full_block_tokens"], warm["seen_blocks"] * 16)

    def test_replicated_ranks_have_one_writer(self):
        cold, _, warm = self.phases("--tp 2 --replicated --users 3 --turns 1 --turn-tokens 320")
        self.assertEqual(cold["bytes_stored"], 3 * 20 * BLOCK_BYTES)
        self.assertEqual(warm["bytes_loaded"], 3 * 20 * BLOCK_BYTES * 2)

    def test_sixty_four_ranks(self):
        _, _, warm = self.phases("--tp 64 --users 2 --turns 2 --turn-tokens 160")
        self.assertEqual(warm["seen_hit_blocks"], warm["seen_blocks"])

    def test_a_full_hit_computes_one_token(self):
        # 1600 tokens are 100 blocks of 16: all of them come from L1, none from the engine
        _, _, warm = self.phases("--users 2 --turns 1 --turn-tokens 1600")
        self.assertEqual(warm["hit_tokens"], {"engine": 0, "l1": 3200, "l2": 0})

    def test_small_caches_preempt_and_still_end(self):
        phases = self.phases("--tp 2 --users 6 --turns 1 --turn-tokens 400 --output-tokens 200 "
                             "--kv-blocks 60 --concurrency 6")
        self.assertGreater(phases[0]["preemptions"], 0)

    def test_long_outputs_grow_and_survive_preemption(self):
        phases = self.phases("--users 6 --turns 2 --turn-tokens 200 --output-tokens 150 "
                             "--kv-blocks 80 --preempt-rate 0.05 --seed 3")
        self.assertGreater(phases[0]["preemptions"], 0)

    def test_aborts_come_in_every_state(self):
        phases = self.phases("--tp 2 --users 40 --turns 4 --turn-tokens 500 --abort-rate 0.5 "
                             "--token-budget 700 --preempt-rate 0.02 --seed 5")
        self.assertGreater(phases[0]["aborted"], 40)

    def test_the_same_seed_gives_the_same_run(self):
        flags = ("--concurrency 1 --settle --abort-rate 0.4 --preempt-rate 0.1 --seed {} --users 5 "
                 "--token-budget 256")
        keys = ("aborted", "preemptions", "hit_tokens", "steps")
        one, two, three = ([{key: phase[key] for key in keys} for phase in
                            self.phases(flags.format(seed))] for seed in (1, 1, 2))
        # idle steps depend on time, everything else on the seed
        for phases in (one, two, three):
            for phase in phases:
                del phase["steps"]
        self.assertEqual(one, two)
        self.assertNotEqual(one, three)

    def test_arrivals_follow_the_timestamps(self):
        (phase,) = self.phases("--workload prefix --requests 20 --speed 0.2 --phases cold")
        self.assertGreaterEqual(phase["seconds"], 0.095)  # the last one comes after 19 ms / 0.2

    def test_failed_blocks_are_computed_instead(self):
        for word in ("fail_first", "fail_middle"):
            _, _, warm = self.phases("--tp 2", word)
            self.assertGreater(warm["load_failed_blocks"], 0)
            self.assertGreater(warm["missed_blocks"]["other"], 0)
            self.assertEqual(warm["l1_misses"], warm["load_failed_blocks"])

    def test_a_match_may_ask_for_patience(self):
        _, _, warm = self.phases("--tp 2", "again")
        self.assertEqual(warm["seen_hit_blocks"], warm["seen_blocks"])


class Bad(unittest.TestCase):
    def refused(self, flags, words, text, status=1):
        code, result, errors = run(flags, words)
        self.assertEqual(code, status, errors)
        self.assertIn(text, errors)
        return result

    def test_every_wrong_byte_is_counted(self):
        for word, least in (("corrupt", 1), ("skip_copy", BLOCK_BYTES - 100)):
            result = self.refused("--tp 2 --users 1 --turns 2", word, "after its load")
            wrong = sum(phase["mismatched_bytes"] for phase in result["phases"])
            self.assertGreaterEqual(wrong, least)

    def test_a_breach_of_the_contract_ends_the_run(self):
        for word, text in (
                ("recving_twice", "finished_recving of"),
                ("sending_unknown", "finished_sending of unknown request `p9.9`"),
                ("sending_running", "nobody delayed it"),
                ("failed_foreign", "no load in flight there writes to it"),
                ("promise_too_much", "promises"),
                ("again_forever", "more than 3 times"),
                ("start_load_fails", "daser_worker_start_load"),
                ("null_block", "the null block was written to")):
            result = self.refused("--tp 2 --token-budget 500", word, text)
            self.assertIn(text, result["error"])

    def test_a_delayed_free_while_loading_is_a_breach(self):
        self.refused("--users 30 --abort-rate 0.9", "delay_loading", "whose load is in flight")

    def test_a_lost_completion_is_a_hang(self):
        result = self.refused("--hang-timeout 300", "never_load", "no progress")
        self.assertGreater(result["phases"][-1]["hung"], 0)

    def test_a_worker_that_does_not_answer_is_a_hang(self):
        result = self.refused("--hang-timeout 300 --tp 2", "stuck", "gave no answer in 300 ms")
        self.assertGreater(result["phases"][-1]["hung"], 0)

    def test_a_dead_worker_is_named(self):
        self.refused("--tp 2", "die", "the worker of rank 1")

    def test_a_failed_drain_ends_the_run(self):
        result = self.refused("", "drain_fails", "drain failed")
        self.assertEqual([phase["name"] for phase in result["phases"]], ["cold", "drain"])

    def test_a_service_that_says_no_is_quoted(self):
        self.refused("--tp 2", "refused", "refuses this engine, running without: rank 0: "
                     "block_tokens 16 is not 32", status=0)

    def test_an_absent_service_is_not_waited_for_without_end(self):
        self.refused("--attach-timeout 50", "absent", "no service, running without", status=0)

    def test_a_worker_that_cannot_open_is_quoted(self):
        self.refused("--tp 2", "open_fails", "daser_worker_open: No such device")

    def test_wrong_flags_are_refused(self):
        self.refused("--kv-blocks 3", "", "--kv-blocks 3: request", status=2)
        self.refused("--trace /nonexistent", "", "/nonexistent", status=2)
        self.refused("--requests-log /nonexistent/x", "", "--requests-log", status=2)


class Simulated(unittest.TestCase):
    """The comparison scripts hold for a cache that is infinite."""

    def compare(self, mode, flags, words="", status=0, more=()):
        with tempfile.TemporaryDirectory() as folder:
            trace, log = f"{folder}/trace", f"{folder}/log"
            subprocess.run([REPLAY, *flags.split(), "--write-trace", trace], check=True,
                           timeout=TIMEOUT)
            _, result, _ = run(f"{flags} --requests-log {log}", words, check=0)
            with open(f"{folder}/result", "w", encoding="utf-8") as file:
                json.dump(result, file)
            done = subprocess.run(
                [sys.executable, f"{SIM}/compare.py", mode, "--trace", trace, "--log", log,
                 "--result", f"{folder}/result", *more], capture_output=True, text=True,
                timeout=TIMEOUT, check=False)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            return done.stdout

    def test_a_serial_run_equals_the_simulation(self):
        for flags in ("--kv-blocks 300", "--token-budget 100 --turn-tokens 333",
                      "--workload prefix --output-tokens 40 --kv-blocks 300", "--block-tokens 100"):
            self.compare("serial", f"--concurrency 1 --settle {flags}")

    def test_a_difference_is_found(self):
        self.compare("serial", "--concurrency 1 --settle", "no_slot", status=1)
        # an L1 that is too small to have served what was measured
        self.compare("serial", "--concurrency 1 --settle", status=1, more=("--slots", "100"))

    def test_a_concurrent_run_loses_nothing_without_a_cause(self):
        out = self.compare("concurrent", "--workload prefix --requests 200 --token-budget 1000 "
                           "--abort-rate 0.2 --preempt-rate 0.05 --concurrency 32 --kv-blocks 2000")
        self.assertIn("in_flight_duplicate", out)
        out = self.compare("concurrent", "--workload prefix --kv-blocks 300", "no_slot")
        self.assertIn("refused_store", out)

    def test_other_causes_are_not_passed_over(self):
        self.compare("concurrent", "--kv-blocks 300", "fail_middle", status=1)
        self.compare("concurrent", "--kv-blocks 300", "fail_middle", more=("--allow-other",))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
