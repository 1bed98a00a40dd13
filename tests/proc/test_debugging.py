# SPDX-License-Identifier: Apache-2.0
"""docs/debugging.md's gdb command lines, run word for word; the actor under gdb then takes part in a workload."""
import os
import re
import shlex
import subprocess
import tempfile
from pathlib import Path

from .harness import ROOT, Instance, ProcTest, until

LINES = re.findall(r"^\| `daser up ([^`]*)` \| `(gdb [^`]*)` \|$", (ROOT / "docs" / "debugging.md").read_text(), re.M)


class GdbTest(ProcTest):
    def run_line(self, flags: str, line: str) -> None:
        manual = flags.split()[1]
        with tempfile.NamedTemporaryFile(prefix="daser-gdb-", suffix=".log") as log, \
                Instance(*shlex.split(flags), ready=manual in ("load", "store")) as instance:
            line = line.replace("build/bin", os.environ.get("DASER_BIN_DIR", "build/bin"))
            gdb = subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   env={**os.environ, "DASER_RUN_DIR": instance.run_dir})

            def output() -> str:
                return Path(log.name).read_text(errors="replace")

            try:
                until(f"breakpoint of {line}", lambda: "#0 " in output() or gdb.poll() is not None, 60)
                self.assertRegex(output(), r"(?s)[Bb]reakpoint 1[.,].*#0 ", output())
                name = {"load": "load-host:0", "store": "store-host:0", "daser-all": "scheduler"}.get(manual, manual)
                row = instance.actor(name)
                if manual != "daser-all":
                    self.assertTrue(row["by_hand"], row)
                report = instance.replay("--workload", "multiturn", "--users", "4", "--turns", "2", "--tp", "1",
                                         "--phases", "cold,drain,warm", "--block-bytes", "16KiB")
                self.assert_exact(report)
                self.assertGreater(self.phase(report, "warm")["hit_tokens"]["l1"], 0)
                self.assertEqual(instance.actor(name)["incarnation"], row["incarnation"])
            except AssertionError as error:
                raise AssertionError(f"{error}\n{output()}") from None
            finally:
                instance.stop()
                try:
                    gdb.wait(30)  # the actor saw the supervisor leave
                except subprocess.TimeoutExpired:
                    gdb.kill()
                    gdb.wait()
                    raise
            self.assertIn("exited", output())

    def test_the_document_has_a_line_for_each_actor(self) -> None:
        self.assertEqual([flags.split()[1] for flags, _ in LINES],
                         ["scheduler", "metrics", "load", "store", "daser-all"])

    def test_scheduler(self) -> None:
        self.run_line(*LINES[0])

    def test_metrics(self) -> None:
        self.run_line(*LINES[1])

    def test_load(self) -> None:
        self.run_line(*LINES[2])

    def test_store(self) -> None:
        self.run_line(*LINES[3])

    def test_all(self) -> None:
        self.run_line(*LINES[4])
