# SPDX-License-Identifier: Apache-2.0
"""Starts real instances for tests and waits for events with a deadline; never sleeps."""
import atexit
import contextlib
import json
import lzma
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
DASER = str(ROOT / "scripts" / "daser")
TRACE = ROOT / "tests" / "data" / "conversation_trace_3000.jsonl.xz"
READY_S = 30.0
RECOVERY_S = 30.0
REPLAY_S = 900.0


def binary(name: str) -> str:
    return str(Path(os.environ.get("DASER_BIN_DIR", ROOT / "build" / "bin")) / name)


def until(what: str, check: Callable[[], Any], deadline_s: float = RECOVERY_S) -> Any:
    """Asks `check` until it is true; AssertionError naming `what` after the deadline. Each check asks a process,
    so this does not spin faster than a round trip."""
    end = time.monotonic() + deadline_s
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {deadline_s:.0f} s: {what}")
        select.select([], [], [], 0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


def processes_of(run_dir: str) -> list[str]:
    """Command lines of processes that belong to a run directory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                if run_dir in line and is_alive(int(entry.name)):
                    found.append(f"{entry.name}: {line}")
    return found


class Instance:
    """`daser up` in a temporary run directory. Use as a context manager; the end checks that nothing is left."""

    def __init__(self, *flags: str, command: list[str] | None = None, l1: str = "256MiB",
                 environment: dict[str, str] | None = None, ready: bool = True):
        self.wait_ready = ready
        self.run_dir = tempfile.mkdtemp(prefix="daser-test-")
        os.rmdir(self.run_dir)  # the supervisor makes it
        self.shm_before = set(os.listdir("/dev/shm"))
        self.log_path = self.run_dir + ".log"
        self.argv = [sys.executable, DASER, "up", "--run-dir", self.run_dir, "--l1-size", l1,
                     "--metrics-listen", "127.0.0.1:0", *flags, *(["--", *command] if command else [])]
        self.environment = {**os.environ, **(environment or {})}
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Instance":
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=log, env=self.environment)
        try:
            until(f"instance ready\n{self.log()}", self._is_ready, READY_S)
        except AssertionError:
            self.stop()
            raise AssertionError(f"instance did not become ready:\n{self.log()}") from None
        return self

    def _is_ready(self) -> bool:
        assert self.process
        if self.process.poll() is not None:
            raise AssertionError(f"ended with {self.process.returncode}")
        return "ready in" in self.log() or \
            (not self.wait_ready and os.path.exists(os.path.join(self.run_dir, "attach.sock")))

    def __exit__(self, kind: Any, *_: Any) -> None:
        status = self.stop()
        log = self.log()
        left = processes_of(self.run_dir)
        entries = os.listdir(self.run_dir) if os.path.isdir(self.run_dir) else []
        shm = set(os.listdir("/dev/shm")) - self.shm_before
        shutil.rmtree(self.run_dir, ignore_errors=True)
        os.unlink(self.log_path)
        if kind is None:
            assert not left, f"processes left: {left}\n{log}"
            assert not entries, f"files left in the run directory: {entries}\n{log}"
            assert not shm, f"shared memory left: {shm}\n{log}"
            assert status == 0 or (self.process and status == -signal.SIGKILL), f"exit status {status}\n{log}"
        else:
            print(f"\nlog of the instance:\n{log[-8000:]}", flush=True)

    def stop(self) -> int | None:
        """SIGTERM and the exit status."""
        if not self.process:
            return None
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"the supervisor did not stop:\n{self.log()}") from None
        return self.process.returncode

    def log(self) -> str:
        try:
            return Path(self.log_path).read_text(errors="replace")
        except OSError:
            return ""

    # ---- looking into it ------------------------------------------------------------------

    def ctl(self, *arguments: str, expect: tuple[int, ...] = (0,)) -> Any:
        """daserctl VERB --json, parsed."""
        done = subprocess.run([binary("daserctl"), "--run-dir", self.run_dir, *arguments, "--json"],
                              capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode in expect, f"daserctl {arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout) if done.stdout.strip() else None

    def actors(self) -> dict[str, dict[str, Any]]:
        """Rows by name (role or role-device); empty while nothing answers."""
        status = self.ctl("status", expect=(0, 3, 4)) or {"actors": []}
        return {f"{a['role']}-{a['device']}" if a.get("device") else a["role"]: a for a in status["actors"]}

    def actor(self, name: str) -> dict[str, Any]:
        """The row of an actor that is up; waits for it."""
        return dict(until(f"`{name}` is up", lambda: self._up(name)))

    def _up(self, name: str) -> dict[str, Any] | None:
        row = self.actors().get(name)
        return row if row and row["state"] == "ready" and is_alive(row["pid"]) else None

    def signal(self, name: str, number: int = signal.SIGKILL) -> dict[str, Any]:
        """Signals an actor; returns its row as it was."""
        row = self.actor(name)
        os.kill(row["pid"], number)
        return row

    def recovered(self, name: str, old: dict[str, Any]) -> dict[str, Any]:
        """Waits for the next incarnation of an actor."""
        def next_one() -> dict[str, Any] | None:
            row = self._up(name)
            return row if row and row["incarnation"] != old["incarnation"] else None

        return dict(until(f"`{name}` has a new incarnation", next_one))

    def replay_argv(self, *flags: str) -> list[str]:
        return [binary("daser-replay"), "--run-dir", self.run_dir, "--json", *flags]

    def replay(self, *flags: str, expect: tuple[int, ...] = (0,)) -> dict[str, Any]:
        """Runs daser-replay against this instance; returns its JSON."""
        done = subprocess.run(self.replay_argv(*flags), capture_output=True, text=True, check=False,
                              timeout=REPLAY_S)
        assert done.returncode in expect, \
            f"daser-replay {flags}: exit {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-5000:]}"
        return dict(json.loads(done.stdout.strip().splitlines()[-1]))

    @contextlib.contextmanager
    def replaying(self, *flags: str) -> Iterator["Replay"]:
        """A replay in the background."""
        replay = Replay(self.replay_argv(*flags))
        try:
            yield replay
        finally:
            replay.end()


class Replay:
    """daser-replay in the background; result() waits for its JSON."""

    def __init__(self, argv: list[str]):
        self.output = tempfile.TemporaryFile()  # noqa: SIM115 (lives as long as the object)
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.errors)

    def result(self, expect: tuple[int, ...] = (0,)) -> dict[str, Any]:
        status = self.process.wait(REPLAY_S)
        text, errors = self._read(self.output), self._read(self.errors)
        assert status in expect, f"daser-replay: exit {status}\n{text[-3000:]}\n{errors[-5000:]}"
        return dict(json.loads(text.strip().splitlines()[-1]))

    def error_text(self) -> str:
        return self._read(self.errors)

    @staticmethod
    def _read(file: Any) -> str:
        file.seek(0)
        return str(file.read().decode("utf-8", "replace"))

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.output.close()
        self.errors.close()


class ProcTest(unittest.TestCase):
    """Assertions that most tests share."""

    def assert_exact(self, report: dict[str, Any]) -> None:
        """Nothing mismatched, hung or failed, in any phase."""
        for phase in report["phases"]:
            for what in ("mismatched_bytes", "hung", "failed"):
                self.assertEqual(phase[what], 0, f"{what} in phase {phase['name']}: {phase}")

    def phase(self, report: dict[str, Any], name: str, index: int = 0) -> dict[str, Any]:
        phases: list[dict[str, Any]] = [p for p in report["phases"] if p["name"] == name]
        return phases[index]


_trace: str | None = None


def trace_file() -> str:
    """The packed trace, unpacked once per run into a temporary file."""
    global _trace
    if _trace is None or not os.path.exists(_trace):
        with tempfile.NamedTemporaryFile(prefix="daser-trace-", suffix=".jsonl", delete=False) as file:
            file.write(lzma.decompress(TRACE.read_bytes()))
        _trace = file.name
        atexit.register(Path(file.name).unlink, missing_ok=True)
    return _trace


def run_daser(*arguments: str, timeout: float = 120, environment: dict[str, str] | None = None,
              ) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, DASER, *arguments], capture_output=True, text=True, check=False,
                          timeout=timeout, stdin=subprocess.DEVNULL, env={**os.environ, **(environment or {})})
