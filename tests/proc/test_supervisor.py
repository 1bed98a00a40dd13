# SPDX-License-Identifier: Apache-2.0
"""The supervisor's contract: COMMAND, signals, deaths, refusals, nothing left."""
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from .harness import DASER, Instance, ProcTest, binary, is_alive, processes_of, run_daser, until


class CommandTest(ProcTest):
    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            done = run_daser("up", "--run-dir", f"{folder}/run", "--l1-size", "16MiB", "--metrics-listen",
                             "127.0.0.1:0", *arguments)
            self.assertEqual(processes_of(folder), [])
            self.assertEqual(os.listdir(f"{folder}/run") if os.path.isdir(f"{folder}/run") else [], [])
            return done

    def test_exit_status_of_the_command_is_passed_on(self) -> None:
        self.assertEqual(self.up("--", "sh", "-c", "exit 42").returncode, 42)

    def test_death_by_signal_of_the_command_is_128_plus_signal(self) -> None:
        self.assertEqual(self.up("--", "sh", "-c", "kill -TERM $$").returncode, 128 + signal.SIGTERM)

    def test_command_gets_the_run_directory(self) -> None:
        done = self.up("--", "sh", "-c", 'test -S "$DASER_RUN_DIR/attach.sock"')
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_missing_command_is_127(self) -> None:
        done = self.up("--", "/nonexistent/program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("/nonexistent/program", done.stderr)

    def test_bad_setting_names_it_its_value_and_what_is_accepted(self) -> None:
        for flag, named in (("--l1-size=many", "l1.size"), ("--log-level=loud", "log.level"),
                            ("--lease-ttl-ms=1", "lease.ttl_ms"), ("--no-such=1", "no-such"),
                            ("--metrics-listen=0.0.0.0:9400", "metrics.listen")):
            with self.subTest(flag):
                done = self.up(flag)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(named, done.stderr)
                self.assertIn(flag.split("=")[1], done.stderr)

    def test_l1_that_does_not_fit_is_refused_with_the_numbers(self) -> None:
        done = self.up("--l1-size=60TiB")
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"l1\.size.*60.*TiB")

    def test_config_file_is_read_and_its_errors_name_the_file(self) -> None:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            path = Path(folder) / "daser.toml"
            path.write_text('[l1]\nsize = "32MiB"\n[log]\nlevel = "debug"\n')
            done = self.up("-c", str(path), "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            path.write_text("l1 = [broken\n")
            done = self.up("-c", str(path))
            self.assertEqual(done.returncode, 2)
            self.assertIn(str(path), done.stderr)


class LifeTest(ProcTest):
    def test_second_supervisor_of_a_run_directory_is_refused(self) -> None:
        with Instance() as instance:
            done = run_daser("up", "--run-dir", instance.run_dir)
            self.assertEqual(done.returncode, 2)
            self.assertIn(instance.run_dir, done.stderr)
            instance.actor("scheduler")

    def test_run_directory_open_to_others_is_refused(self) -> None:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            os.chmod(folder, 0o755)
            done = run_daser("up", "--run-dir", folder)
            self.assertEqual(done.returncode, 2)
            self.assertIn("755", done.stderr)

    def test_down_stops_it_and_leaves_nothing(self) -> None:
        with Instance() as instance:
            self.assertEqual(run_daser("down", "--run-dir", instance.run_dir).returncode, 0)
            assert instance.process
            self.assertEqual(instance.process.wait(30), 0)
        self.assertEqual(run_daser("down", "--run-dir", instance.run_dir).returncode, 3)

    def test_killed_actor_is_restarted_with_an_obituary(self) -> None:
        with Instance() as instance:
            for name in ("metrics", "scheduler"):
                old = instance.signal(name)
                new = instance.recovered(name, old)
                self.assertGreater(new["incarnation"], old["incarnation"])
                self.assertRegex(instance.log(), rf"`{name}` pid {old['pid']} died: signal SIGKILL")

    def test_crash_loop_ends_daser_with_a_message(self) -> None:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            # metrics cannot serve: its port is taken each time it starts
            with socket.socket() as taken:
                taken.bind(("127.0.0.1", 0))
                taken.listen()
                port = taken.getsockname()[1]
                process = subprocess.Popen(
                    [sys.executable, DASER, "up", "--run-dir", f"{folder}/run", "--l1-size", "16MiB",
                     "--metrics-listen", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True)
                _, errors = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn("crash loop", errors)
            self.assertEqual(processes_of(folder), [])

    def test_death_of_the_supervisor_stops_actors_and_tells_the_command(self) -> None:
        with tempfile.TemporaryDirectory(prefix="daser-test-") as folder:
            pidfile = f"{folder}/pid"
            script = (f"trap 'echo termed >>{pidfile}; exit 0' TERM; echo $$ >{pidfile}; "
                      f"while :; do read x <{folder}/fifo; done")
            os.mkfifo(f"{folder}/fifo")
            run_dir = f"{folder}/run"
            process = subprocess.Popen(
                [sys.executable, DASER, "up", "--run-dir", run_dir, "--l1-size", "16MiB", "--metrics-listen",
                 "127.0.0.1:0", "--", "bash", "-c", script], stderr=subprocess.DEVNULL)
            try:
                until("the command runs", lambda: os.path.exists(pidfile) and Path(pidfile).read_text().strip())
                command = int(Path(pidfile).read_text())
                process.kill()
                process.wait()
                until("the command got SIGTERM", lambda: not is_alive(command))
                self.assertIn("termed", Path(pidfile).read_text())
                until("the actors stopped", lambda: not processes_of(run_dir))
            finally:
                if process.poll() is None:
                    process.kill()
            # the next instance sweeps what the dead one left
            done = run_daser("up", "--run-dir", run_dir, "--l1-size", "16MiB", "--metrics-listen", "127.0.0.1:0",
                             "--", "true")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(os.listdir(run_dir), [])

    def test_second_actor_of_a_role_is_refused(self) -> None:
        with Instance() as instance:
            before = instance.actor("scheduler")
            done = subprocess.run([binary("daser-scheduler"), "--run-dir", instance.run_dir], capture_output=True,
                                  text=True, timeout=30, check=False)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertEqual(instance.actor("scheduler")["incarnation"], before["incarnation"])
