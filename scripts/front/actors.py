# SPDX-License-Identifier: Apache-2.0
"""One supervised actor: start, readiness, death, backoff, obituary."""
import contextlib
import os
import signal
import subprocess
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

# A crash loop: more deaths of one actor than `deaths_max` within the window end DaseR (COMMAND goes on without
# it). With the backoff below, 8 are reached after 13 s.
DEATHS_MAX = 8
DEATHS_WINDOW_S = 60.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.1, 30.0
GOOD_LIFE_S = 10.0  # after so long a life, earlier deaths are forgotten

# Exit statuses, include/errors.h.
EXIT_USAGE, EXIT_LOCKED, EXIT_VERSION = 2, 3, 6
FATAL = {EXIT_USAGE: "bad settings", EXIT_VERSION: "layout or protocol version differs"}


@dataclass(eq=False)
class Role:
    """A row of include/actors.def, as `daserctl layout` gives it."""

    name: str
    executable: str
    per_device: bool
    ready_s: float
    stop_s: float
    restart: bool


@dataclass(eq=False)
class Actor:
    """A process to keep alive. `process` is None while it is down or started by hand."""

    role: Role
    device: str
    row: int
    argv: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    pidfd: int = -1
    started_at: float = 0.0
    ready: bool = False
    wanted: bool = True
    deaths: deque[float] = field(default_factory=deque)
    backoff_s: float = 0.0
    start_due: float = 0.0  # monotonic time of the next start, while down
    kill_due: float = 0.0   # monotonic time of SIGKILL, while stopping; 0 otherwise
    is_killed: bool = False  # by us, for lack of progress

    @property
    def name(self) -> str:
        return f"{self.role.name}-{self.device}" if self.device else self.role.name

    def start(self) -> None:
        """Starts the process with its fd 2 piped to us. OSError when it cannot be executed."""
        self.process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=self.environment, start_new_session=True)
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        try:
            self.pidfd = os.pidfd_open(self.process.pid)
        except OSError:  # without it nobody would see it die
            self.process.kill()
            self.process.wait()
            self.process.stderr.close()
            self.process = None
            raise
        self.started_at = time.monotonic()
        self.ready = False
        self.kill_due = 0.0
        self.is_killed = False

    def stop(self) -> None:
        """TERM now, KILL when the role's stop timeout has passed."""
        self.wanted = False
        if self.process and not self.kill_due:
            self.signal(signal.SIGTERM)
            self.kill_due = time.monotonic() + self.role.stop_s

    def signal(self, number: int) -> None:
        if self.pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, number)

    def reap(self) -> int:
        """Takes the exit status of the dead process: >= 0 status, < 0 minus signal."""
        assert self.process is not None
        status = self.process.wait()
        os.close(self.pidfd)
        self.pidfd, self.process, self.kill_due = -1, None, 0.0
        return status

    def plan_restart(self, deaths_max: int) -> bool:
        """Decides when to start again after a death; False: a crash loop, give up."""
        now = time.monotonic()
        if now - self.started_at >= GOOD_LIFE_S:
            self.deaths.clear()
            self.backoff_s = 0.0
        self.deaths.append(now)
        while self.deaths and self.deaths[0] < now - DEATHS_WINDOW_S:
            self.deaths.popleft()
        if len(self.deaths) > deaths_max:
            return False
        self.start_due = now + self.backoff_s
        self.backoff_s = min(BACKOFF_MAX_S, self.backoff_s * 2 or BACKOFF_FIRST_S)
        return True


def find_binaries(root: Path) -> Path:
    """The folder of the executables: $DASER_BIN_DIR, the clone's build, or beside this script."""
    given = os.environ.get("DASER_BIN_DIR")
    if given:
        return Path(given)
    if (root / "meson.build").exists():
        return root / "build" / "bin"
    return root / "bin"


def status_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"signal {signal.Signals(-status).name}"
    except ValueError:
        return f"signal {-status}"
