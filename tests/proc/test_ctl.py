# SPDX-License-Identifier: Apache-2.0
"""daserctl and the metrics endpoint over a running instance."""
import json
import shutil
import subprocess
import unittest
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from .harness import Instance, ProcTest, binary, until

WORKLOAD = ("--workload", "multiturn", "--users", "6", "--turns", "3", "--tp", "2", "--block-tokens", "64",
            "--block-bytes", "32KiB", "--seed", "5", "--phases", "cold,drain,warm")


class CtlTest(ProcTest):
    instance: Instance
    report: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        cls.instance = Instance(l1="128MiB")
        cls.instance.__enter__()
        try:
            cls.report = cls.instance.replay(*WORKLOAD)
        except BaseException:
            cls.instance.stop()
            raise

    @classmethod
    def tearDownClass(cls) -> None:
        cls.instance.__exit__(None)

    def url(self, path: str) -> str:
        port = Path(self.instance.run_dir, "metrics.port").read_text().strip().rsplit(":", 1)[-1]
        return f"http://127.0.0.1:{port}{path}"

    def metrics(self) -> dict[str, float]:
        text = urllib.request.urlopen(self.url("/metrics"), timeout=10).read().decode()
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                if line and not line.startswith("#")}

    def test_tier_counters_count_logical_blocks_once(self) -> None:
        warm, cold = self.phase(self.report, "warm"), self.phase(self.report, "cold")
        metrics = self.metrics()
        blocks = (warm["hit_tokens"]["l1"] + cold["hit_tokens"]["l1"]) // 64
        self.assertEqual(metrics["daser_l1_hits_total"], blocks)
        self.assertEqual(metrics["daser_l1_misses_total"], metrics["daser_l2_reads_total"])
        self.assertEqual(metrics['daser_transfer_bytes_total{op="load"}'], blocks * 2 * 32768)
        self.assertEqual(metrics['daser_transfer_bytes_total{op="store"}'],
                         sum(phase["bytes_stored"] for phase in self.report["phases"]))

    def test_frozen_metric_names_are_there(self) -> None:
        names = {name.split("{")[0] for name in self.metrics()}
        for name in ("daser_l1_hits_total", "daser_l1_misses_total", "daser_l2_reads_total",
                     "daser_transfer_bytes_total", "daser_transfer_operations_total", "daser_load_failures_total",
                     "daser_drops_total", "daser_actor_restarts_total", "daser_actor_progress_age_seconds"):
            self.assertIn(name, names)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_promtool_accepts_the_metrics(self) -> None:
        text = urllib.request.urlopen(self.url("/metrics"), timeout=10).read()
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_health_is_ok(self) -> None:
        health = json.load(urllib.request.urlopen(self.url("/health"), timeout=10))
        self.assertEqual(health["status"], "ok")
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(self.url("/nothing"), timeout=10)
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()

    def test_status_tells_actors_pool_and_scheduler(self) -> None:
        status = self.instance.ctl("status", expect=(0, 4))
        self.assertEqual(status["schema"], 1)
        self.assertEqual(next(iter(status)), "schema")
        self.assertEqual(status["scheduler"]["leases"], 0)
        self.assertGreater(status["scheduler"]["entries_visible"], 0)

    def test_requests_parts_add_up_to_the_total(self) -> None:
        records = self.instance.ctl("requests", "--limit", "500")["requests"]
        self.assertGreater(len(records), 10)
        for record in records:
            parts = sum(record[f"{part}_ns"] for part in ("open", "wait", "ipc", "copy", "kv", "sync"))
            self.assertEqual(parts, record["total_ns"], record)

    def test_entries_are_listed(self) -> None:
        entries = self.instance.ctl("entries", "--limit", "10")["entries"]
        self.assertEqual(len(entries), 10)
        self.assertTrue(all(entry["state"] == "visible" for entry in entries), entries)

    def test_send_gets_the_reply(self) -> None:
        reply = self.instance.ctl("send", "scheduler", "ping", "token=7")
        self.assertEqual(reply["reply"]["token"], 7)

    def test_tap_shows_messages(self) -> None:
        tap = subprocess.Popen([binary("daserctl"), "--run-dir", self.instance.run_dir, "tap", "scheduler", "--count",
                                "1", "--timeout", "20000", "--json"], stdout=subprocess.PIPE, text=True)
        try:
            until("tap saw a message", lambda: self.instance.ctl("send", "scheduler", "ping", "token=9") and
                  tap.poll() is not None)
            assert tap.stdout
            line = json.loads(tap.stdout.readline())
            self.assertIn("message", line)
        finally:
            if tap.poll() is None:
                tap.kill()
            tap.wait()
            if tap.stdout:
                tap.stdout.close()

    def test_usage_errors_are_2_and_absence_is_3(self) -> None:
        for words, status in ((["nonsense"], 2), (["status", "--nonsense"], 2), (["send", "scheduler", "nonsense"], 2)):
            done = subprocess.run([binary("daserctl"), "--run-dir", self.instance.run_dir, *words], capture_output=True,
                                  text=True, check=False)
            self.assertEqual(done.returncode, status, (words, done.stderr))
            self.assertIn("nonsense", done.stderr)
        done = subprocess.run([binary("daserctl"), "--run-dir", "/nonexistent", "status"], capture_output=True,
                              text=True, check=False)
        self.assertEqual(done.returncode, 3)

    def test_drain_is_answered(self) -> None:
        self.assertEqual(self.instance.ctl("drain")["left"], 0)


class ResetTest(ProcTest):
    def test_reset_forgets_blocks_and_geometry(self) -> None:
        with Instance(l1="128MiB") as instance:
            instance.replay(*WORKLOAD)
            until("the engine left", lambda: instance.ctl("status", expect=(0, 4))["scheduler"]["engines"] == 0)
            answer = until("reset", lambda: (a := instance.ctl("reset", expect=(0, 1))) and a["err"] == 0 and a)
            self.assertGreater(answer["entries"], 0)
            self.assertEqual(instance.ctl("status", expect=(0, 4))["scheduler"]["entries_visible"], 0)
            report = instance.replay(*WORKLOAD[:-4], "--block-bytes", "8KiB", "--phases", "cold,drain,warm")
            self.assert_exact(report)
            self.assertGreater(self.phase(report, "warm")["hit_tokens"]["l1"], 0)
