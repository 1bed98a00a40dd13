# SPDX-License-Identifier: Apache-2.0
"""The main job end to end: prefix-heavy workloads through real actors, every byte checked."""
import json
import os
import signal
import subprocess
import tempfile
from typing import Any

from .harness import Instance, ProcTest, binary, processes_of, run_daser, trace_file, until

# The stand-in's steps share two cores with the actors and take microseconds: patience makes the count of hits exact.
PATIENT = ("--lookup-wait", "500000")
SMALL = ("--block-tokens", "64", "--block-bytes", "64KiB", "--seed", "7", *PATIENT)
MULTITURN = ("--workload", "multiturn", "--users", "12", "--turns", "4", *SMALL)


def trace_flags(requests: int, tp: int) -> tuple[str, ...]:
    return ("--trace", trace_file(), "--requests", str(requests), "--tp", str(tp), "--block-tokens", "512",
            "--block-bytes", "8KiB")


class TraceTest(ProcTest):
    """The first 3,000 requests of the conversation trace, with aborts and preemptions."""

    def run_trace(self, tp: int) -> None:
        with Instance(l1="512MiB") as instance:
            report = instance.replay(*trace_flags(3000, tp), "--concurrency", "8", "--abort-rate", "0.05",
                                     "--preempt-rate", "0.01", "--kv-blocks", "600", "--seed", "3",
                                     "--phases", "cold")
            self.assert_exact(report)
            phase = self.phase(report, "cold")
            self.assertEqual(phase["requests"], 3000)
            self.assertGreater(phase["aborted"], 50)
            self.assertGreater(phase["hit_tokens"]["l1"], 0)
            self.assertGreater(phase["drops"].get("preempted", 0) + phase.get("preemptions", 0), 0)

    def test_tp1_with_aborts_and_preemptions(self) -> None:
        self.run_trace(1)

    def test_tp2_with_aborts_and_preemptions(self) -> None:
        self.run_trace(2)


class WarmTest(ProcTest):
    def check_warm(self, report: dict[str, Any]) -> None:
        """In the warm phase every full block seen before is served: by the engine's own cache or by L1."""
        self.assert_exact(report)
        warm = self.phase(report, "warm")
        self.assertGreater(warm["seen_blocks"], 0)
        self.assertEqual(warm["seen_hit_blocks"], warm["seen_blocks"], warm)
        self.assertEqual(warm["l1_misses"], 0)

    def test_every_full_block_is_served_warm_at_tp2(self) -> None:
        with Instance(l1="512MiB") as instance:
            self.check_warm(instance.replay(*MULTITURN, "--tp", "2", "--phases", "cold,drain,warm"))

    def test_layers_with_strides(self) -> None:
        with Instance(l1="512MiB") as instance:
            self.check_warm(instance.replay(*MULTITURN, "--tp", "2", "--phases", "cold,drain,warm", "--layout", "layer",
                                            "--layers", "16"))

    def test_replicated_ranks_share_one_lane(self) -> None:
        with Instance(l1="512MiB") as instance:
            report = instance.replay(*MULTITURN, "--tp", "4", "--replicated", "--phases", "cold,drain,warm")
            self.check_warm(report)
            self.assertEqual(instance.ctl("status", expect=(0, 4))["pool"]["lanes"], 1)
            cold, warm = self.phase(report, "cold"), self.phase(report, "warm")
            # one rank writes, all four load
            self.assertEqual(warm["bytes_loaded"] % 4, 0)
            self.assertGreater(warm["bytes_loaded"], cold["bytes_stored"])

    def test_tp8(self) -> None:
        with Instance(l1="1GiB") as instance:
            report = instance.replay(*MULTITURN, "--tp", "8", "--phases", "cold,drain,warm")
            self.check_warm(report)
            self.assertEqual(instance.ctl("status", expect=(0, 4))["pool"]["lanes"], 8)
            self.assertEqual(sum(1 for name in instance.actors() if name.startswith("load-")), 8)

    def test_all_actors_as_threads(self) -> None:
        with Instance("--threads", l1="512MiB") as instance:
            self.check_warm(instance.replay(*MULTITURN, "--tp", "2", "--phases", "cold,drain,warm"))

    def test_classic_staging(self) -> None:
        with Instance(l1="512MiB") as instance:
            self.check_warm(instance.replay(*MULTITURN, "--tp", "1", "--phases", "cold,drain,warm", "--staging-mode",
                                            "classic", "--staging-ceiling", "256MiB"))

    def test_warm_hits_survive_the_restart_of_every_actor_and_of_the_engine(self) -> None:
        with Instance(l1="512MiB") as instance:
            instance.replay(*MULTITURN, "--tp", "2", "--phases", "cold,drain")
            for name in ("scheduler", "load-host:0", "load-host:1", "store-host:0", "store-host:1", "metrics"):
                if name in instance.actors():
                    row = instance.actors()[name]
                    if row["state"] == "ready":
                        instance.recovered(name, instance.signal(name))
            self.check_warm(instance.replay(*MULTITURN, "--tp", "2", "--phases", "warm"))


class IndependenceTest(ProcTest):
    """Stores never starve loads: their staging pools are apart."""

    STORE_BUFFERS = 4  # of `lean` staging

    def test_loads_are_served_while_stores_saturate_their_pool(self) -> None:
        with Instance("--fault", "store:store_before_copy:delay=20", l1="256MiB") as instance:
            report = instance.replay(
                "--workload", "prefix", "--prefixes", "6", "--prefix-tokens", "2048", "--suffix-tokens", "1024",
                "--requests", "60", "--tp", "1", "--block-tokens", "64", "--block-bytes", "256KiB", "--kv-blocks",
                "300", "--concurrency", "6", "--phases", "cold", "--seed", "3", *PATIENT)
            self.assert_exact(report)
            self.assertGreater(self.phase(report, "cold")["l1_hits"], 0)
            records = instance.ctl("requests", "--limit", "4096")["requests"]
            buffers = [(r["end_ns"] - r["total_ns"] + r["open_ns"], r["end_ns"]) for r in records
                       if r["op"] == "store" and r["status"] == "ok"]
            lent = [sum(start < load["end_ns"] < end for start, end in buffers) for load in records
                    if load["op"] == "load" and load["status"] == "ok"]
            self.assertEqual(max(lent), self.STORE_BUFFERS, lent)


class DeathTest(ProcTest):
    """SIGKILL under load: recomputation, nothing wrong, nothing hung."""

    def kill_under_load(self, *names: str, number: int = signal.SIGKILL) -> None:
        with Instance(l1="256MiB") as instance:
            flags = (*MULTITURN, "--users", "40", "--turns", "6", "--tp", "2", "--phases", "cold,drain,warm,warm")
            with instance.replaying(*flags) as replay:
                until("stores run", lambda: self.progress(instance) > 0 or replay.process.poll() is not None)
                for name in names:
                    self.assertIsNone(replay.process.poll(), "the replay ended before the kill")
                    old = instance.signal(name, number)
                    instance.recovered(name, old)
                report = replay.result()
            self.assert_exact(report)
            status = instance.ctl("status", expect=(0, 4))
            for what in ("leases", "reservations", "slots_quarantined"):
                self.assertEqual(status["scheduler"][what], 0, status["scheduler"])

    @staticmethod
    def progress(instance: Instance) -> int:
        status = instance.ctl("status", expect=(0, 4))
        return int(status["scheduler"]["entries_visible"])

    def test_scheduler(self) -> None:
        self.kill_under_load("scheduler")

    def test_load(self) -> None:
        self.kill_under_load("load-host:0")

    def test_store(self) -> None:
        self.kill_under_load("store-host:1")

    def test_metrics(self) -> None:
        self.kill_under_load("metrics")

    def test_all_one_after_the_other(self) -> None:
        self.kill_under_load("scheduler", "store-host:0", "load-host:1", "scheduler")


class SharingTest(ProcTest):
    """Several engines at one instance."""

    def test_engine_b_hits_what_a_stored(self) -> None:
        with Instance(l1="512MiB") as instance:
            instance.replay(*MULTITURN, "--tp", "2", "--engine", "a", "--phases", "cold,drain")
            report = instance.replay(*MULTITURN, "--tp", "2", "--engine", "b", "--device-base", "2", "--phases", "warm")
            self.assert_exact(report)
            warm = self.phase(report, "warm")
            self.assertGreater(warm["hit_tokens"]["l1"], 0)
            self.assertEqual(warm["missed_blocks"]["first_use"], 0, warm)

    def test_killing_a_leaves_b_alone(self) -> None:
        with Instance(l1="512MiB") as instance:
            many = (*MULTITURN, "--users", "60", "--turns", "6", "--tp", "2")
            with instance.replaying(*many, "--engine", "a", "--phases", "cold,warm") as a, \
                    instance.replaying(*many, "--engine", "b", "--device-base", "2", "--phases", "cold,warm,warm") as b:
                until("both run", lambda: instance.ctl("status", expect=(0, 4))["scheduler"]["engines"] == 2
                      and DeathTest.progress(instance) > 0)
                a.process.kill()
                a.process.wait()
                self.assert_exact(b.result())
            left = ("leases", "reservations", "engines", "slots_quarantined")
            until("nothing of either is left",
                  lambda: not any(instance.ctl("status", expect=(0, 4))["scheduler"][what] for what in left))

    def test_other_geometry_is_refused_and_told_why(self) -> None:
        with Instance(l1="256MiB") as instance:
            with instance.replaying(*MULTITURN, "--users", "60", "--tp", "1", "--engine", "a", "--phases",
                                    "cold,warm") as a:
                until("a is attached", lambda: instance.ctl("status", expect=(0, 4))["scheduler"]["engines"] == 1
                      and DeathTest.progress(instance) > 0)
                with instance.replaying("--workload", "multiturn", "--users", "4", "--turns", "2", "--tp", "1",
                                        "--block-tokens", "64", "--block-bytes", "32KiB", "--engine", "c",
                                        "--device-base", "4") as c:
                    report = c.result()
                    self.assert_exact(report)
                    self.assertEqual(self.phase(report, "warm")["hit_tokens"]["l1"], 0)
                    self.assertRegex(c.error_text(), r"(?s)slot_bytes.*32768.*65536|fingerprint")
                self.assert_exact(a.result())


class DemoTest(ProcTest):
    def test_the_demo_serves_every_block_seen_before_and_leaves_nothing(self) -> None:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            shm = set(os.listdir("/dev/shm"))
            done = run_daser("demo", "--json", environment={"TMPDIR": folder})
            self.assertEqual(done.returncode, 0, done.stderr)
            report = json.loads(done.stdout.strip().splitlines()[-1])
            self.assert_exact(report)
            warm = self.phase(report, "warm")
            self.assertGreater(warm["seen_blocks"], 0)
            self.assertEqual(warm["seen_hit_blocks"], warm["seen_blocks"])
            self.assertEqual(processes_of(folder), [])
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(set(os.listdir("/dev/shm")) - shm, set())


class ReplayTest(ProcTest):
    def test_daser_replay_starts_and_stops_a_private_instance(self) -> None:
        done = run_daser("replay", "--workload", "prefix", "--tp", "1", "--block-tokens", "64", "--block-bytes",
                         "16KiB", "--requests", "40", "--l1", "64MiB", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([name for name in os.listdir("/dev/shm") if "daser" in name], [])

    def test_without_a_service_the_engine_runs_on(self) -> None:
        done = subprocess.run([binary("daser-replay"), "--run-dir", "/nonexistent", "--workload", "prefix",
                               "--requests", "20", "--tp", "1", "--phases", "cold", "--json", *SMALL[:4]],
                              capture_output=True, text=True, timeout=120, check=False)
        report = json.loads(done.stdout.strip().splitlines()[-1])
        self.assertEqual(report["phases"][0]["mismatched_bytes"], 0)
        self.assertEqual(report["phases"][0]["hit_tokens"]["l1"], 0)
        self.assertEqual(report["phases"][0]["hung"], 0)

