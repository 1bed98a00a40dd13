# SPDX-License-Identifier: Apache-2.0
"""Hits of the real system against an offline simulation that shares no code with it (tests/sim)."""
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from .harness import ROOT, Instance, ProcTest, trace_file

COMPARE = str(ROOT / "tests" / "sim" / "compare.py")
# The caches hold a part of the trace's prefixes, so that eviction order matters in both.
TRACE = ("--requests", "3000", "--block-tokens", "512", "--block-bytes", "8KiB", "--kv-blocks", "600", "--phases",
         "cold", "--seed", "11")
L1 = "48MiB"


class SimulationTest(ProcTest):
    def check(self, mode: str, tp: int, *flags: str) -> None:
        with Instance(l1=L1) as instance, tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            log, result = f"{folder}/requests.jsonl", Path(folder) / "result.json"
            report = instance.replay("--trace", trace_file(), *TRACE, "--tp", str(tp), "--requests-log", log, *flags)
            self.assert_exact(report)
            self.assertEqual(report["phases"][0]["requests"], 3000)
            result.write_text(json.dumps(report))
            status = instance.ctl("status", expect=(0, 4))
            self.assertGreater(status["blocks"]["evicted"], 0)
            self.assertGreater(report["phases"][0]["hit_tokens"]["l1"], 0)
            done = subprocess.run([sys.executable, COMPARE, mode, "--result", str(result), "--log", log, "--slots",
                                   str(status["pool"]["slots"]), "--trace", trace_file()],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout[-4000:] + done.stderr[-2000:])

    def test_serial_and_settled_equals_the_simulation_request_by_request_tp1(self) -> None:
        self.check("serial", 1, "--concurrency", "1", "--settle")

    def test_serial_and_settled_equals_the_simulation_request_by_request_tp2(self) -> None:
        self.check("serial", 2, "--concurrency", "1", "--settle")

    def test_lost_hits_are_explained_without_a_remainder_tp1(self) -> None:
        self.check("concurrent", 1, "--concurrency", "8", "--lookup-wait", "500000")

    def test_lost_hits_are_explained_without_a_remainder_tp2_with_aborts_and_preemptions(self) -> None:
        self.check("concurrent", 2, "--concurrency", "8", "--lookup-wait", "500000", "--abort-rate", "0.05",
                   "--preempt-rate", "0.01")
