# SPDX-License-Identifier: Apache-2.0
"""The supervisor: holds the memfds, starts, watches and restarts the actors, runs COMMAND beside them.

One thread, one selector. It takes no lock shared with an actor, holds no device context and never
waits for an actor but by deadline.
"""
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import re
import resource
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from .actors import DEATHS_MAX, EXIT_LOCKED, FATAL, Actor, Role, status_text
from .broker import Broker, Connection, Refused
from .shared import ControlView

ROWS = 64
TICK_S = 0.2
PROGRESS_MAX_S = 10.0  # an actor without progress for so long is killed
COMMAND_STOP_S = 30.0
ACTOR_ROLES = ("scheduler", "metrics", "load", "store")
OURS = (".sock", ".lock", ".port")  # what a run directory may hold of us
TRANSIENT = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)  # of starting a process
DEVICE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._-]{0,62}")
_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


class StartError(Exception):
    """The instance cannot be started; the text says why and what was expected."""


class Supervisor:
    """One instance in one run directory. run() returns the exit status of `daser up`."""

    def __init__(self, run_dir: str, binaries: Path, settings: dict[str, str], command: list[str], *,
                 manual: frozenset[str] = frozenset(), threads: bool = False,
                 faults: dict[str, list[str]] | None = None, announce: bool = True,
                 deaths_max: int = DEATHS_MAX):
        self.run_dir = run_dir
        self.binaries = binaries
        self.command = command
        self.manual = manual
        self.threads = threads
        self.faults = faults or {}
        self.announce = announce
        self.deaths_max = deaths_max
        self.settings = settings
        self.options: dict[str, str] = {}
        self.json_log = False
        self.layout: dict[str, Any] = {}
        self.roles: dict[str, Role] = {}
        self.selector = selectors.DefaultSelector()
        self.broker: Broker | None = None
        self.view: ControlView | None = None
        self.actors: list[Actor] = []
        self.devices: list[str] = []  # index = pair number, stable for the instance's life
        self.lock = -1
        self.child: subprocess.Popen[bytes] | None = None
        self.child_pidfd = -1
        self.child_status: int | None = None
        self.child_kill_due = 0.0
        self.stopping = False
        self.given_up = ""
        self.status = 0
        self.partial: dict[int, bytes] = {}  # fd -> unfinished line of an actor's log

    # ---- life -------------------------------------------------------------------------------

    def run(self) -> int:
        self._check_settings()
        self._take_run_dir()
        try:
            self._catch_signals()
            self.broker = Broker(os.path.join(self.run_dir, "attach.sock"), self.selector, self, self.options)
            self._make_actors()
            while not self._is_over():
                self._turn()
            return self.status if self.child_status is None else self.child_status
        finally:
            self._close()

    def _is_over(self) -> bool:
        return (self.stopping or bool(self.given_up)) and self.child is None and \
            all(actor.process is None for actor in self.actors)

    def _turn(self) -> None:
        now = time.monotonic()
        due = [actor.start_due for actor in self.actors
               if actor.wanted and not actor.process and not self._is_manual(actor)]
        wait = max(0.0, min([TICK_S] + [at - now for at in due]))
        for key, _ in self.selector.select(wait):
            if key.fileobj in self.selector.get_map():  # an earlier callback may have closed it
                key.data()
        self._start_due()
        self._watch()

    def _check_settings(self) -> None:
        """Lets the one parser there is check every value; it also resolves defaults."""
        flags = [f"--{key.replace('.', '-').replace('_', '-')}={value}"
                 for key, value in self.settings.items()]
        self.options = self._ctl("config", *flags)["options"]
        self.options["run_dir"] = self.run_dir
        self.json_log = self.options["log.format"] == "json"
        self.layout = self._ctl("layout")
        for row in self.layout["actors"]:
            self.roles[row["role"]] = Role(row["role"], row["executable"], bool(row["per_device"]),
                                           row["ready_ms"] / 1e3, row["stop_ms"] / 1e3,
                                           bool(row["restart"]))
        names = "|".join(ACTOR_ROLES)
        for name in sorted(self.manual):
            if not re.fullmatch(rf"daser-all|(?:{names})(?:-.+)?", name):
                raise StartError(f"--manual `{name}`, expected daser-all or {names}, with -DEVICE or without")
        for role in self.faults:
            if role not in (*ACTOR_ROLES, "daser-all"):
                raise StartError(f"--fault of `{role}`, expected one of {names}")
        if self.options["l2.dirs"]:
            self.log("warn", f"l2.dirs is `{self.options['l2.dirs']}`, but this release has no L2: ignoring it")

    def _ctl(self, *arguments: str) -> dict[str, Any]:
        program = self.binaries / "daserctl"
        try:
            done = subprocess.run([program, arguments[0], "--json", *arguments[1:]],
                                  capture_output=True, text=True, check=False)
        except OSError as error:
            raise StartError(f"{program}: {error.strerror}; build first, or set DASER_BIN_DIR") from error
        except ValueError as error:
            raise StartError(f"a setting that cannot be passed on, {error}: {list(arguments)}") from error
        if done.returncode != 0:
            raise StartError(done.stderr.strip() or f"{program} {arguments[0]}: exit status {done.returncode}")
        return dict(json.loads(done.stdout))

    def _take_run_dir(self) -> None:
        """Creates or adopts the run directory, alone, and removes what a dead instance left in it."""
        try:
            os.mkdir(self.run_dir, 0o700)
        except FileExistsError:
            pass
        except OSError as error:
            raise StartError(f"run_dir `{self.run_dir}`: {error.strerror}") from error
        found = os.lstat(self.run_dir)
        if not os.path.isdir(self.run_dir) or os.path.islink(self.run_dir):
            raise StartError(f"run_dir `{self.run_dir}` is not a directory")
        if found.st_uid != os.getuid() or found.st_mode & 0o077:
            raise StartError(f"run_dir `{self.run_dir}` has owner {found.st_uid} and mode "
                             f"{found.st_mode & 0o777:o}, expected owner {os.getuid()} and mode 700")
        longest = os.path.join(self.run_dir, "tap-store-host:00.sock")
        if len(longest) > 107:
            raise StartError(f"run_dir `{self.run_dir}` is too long for sockets: {len(longest)} "
                             "characters with the longest name, at most 107")
        self.descriptor_limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        hard = self.descriptor_limits[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # connections and memfds
        self._take_lock(os.path.join(self.run_dir, "supervisor.lock"))
        self._sweep()

    def _take_lock(self, path: str) -> None:
        """Locks the file that has the name at that moment: a supervisor that ends removes its own."""
        while self.lock < 0:
            self.lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_named = os.path.samestat(os.fstat(self.lock), os.stat(path))
            except BlockingIOError:
                os.close(self.lock)
                self.lock = -1
                raise StartError(f"run_dir `{self.run_dir}` is served by another supervisor") from None
            except FileNotFoundError:
                is_named = False
            if not is_named:
                os.close(self.lock)
                self.lock = -1

    def _sweep(self) -> None:
        for entry in os.scandir(self.run_dir):
            if entry.name.endswith(OURS) and entry.name != "supervisor.lock":
                os.unlink(entry.path)

    def _close(self) -> None:
        if self.child:  # we are leaving by an exception
            self.child.kill()
            self.child.wait()
        for actor in self.actors:
            if actor.process:
                actor.signal(signal.SIGKILL)
                actor.reap()
        if self.view:
            self.view.close()
        if self.broker:
            self.broker.close()
        if self.lock >= 0:
            with contextlib.suppress(FileNotFoundError):  # somebody removed the directory under us
                self._sweep()
                os.unlink(os.path.join(self.run_dir, "supervisor.lock"))
            os.close(self.lock)
        self.selector.close()

    # ---- signals ----------------------------------------------------------------------------

    def _catch_signals(self) -> None:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        self.signal_sockets = (ours, theirs)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda *_: None)
        self.selector.register(ours, selectors.EVENT_READ, lambda: self._on_signals(ours.recv(64)))

    def _on_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if self.child:
                self.child.send_signal(number)
                if number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                    self.child_kill_due = self.child_kill_due or time.monotonic() + COMMAND_STOP_S
            elif number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                self.shutdown()

    # ---- actors -----------------------------------------------------------------------------

    def _make_actors(self) -> None:
        if self.threads:
            role = Role("daser-all", "daser-all", False, 30.0, 10.0, True)
            self._add(role, "", -1)
            return
        for name in ("scheduler", "metrics"):
            self._add(self.roles[name], "", self._row(name, ""))

    def _row(self, role: str, device: str) -> int:
        if role in ("scheduler", "metrics"):
            return ("scheduler", "metrics").index(role)
        if device not in self.devices:
            if 2 + 2 * len(self.devices) >= ROWS:
                raise Refused(errno.ENOSPC, f"{len(self.devices)} devices are served, no more rows")
            self.devices.append(device)
        return 2 + 2 * self.devices.index(device) + (role == "store")

    def _add(self, role: Role, device: str, row: int) -> None:
        argv = [str(self.binaries / role.executable), f"--run-dir={self.run_dir}"]
        if device:
            argv.append(f"--device={device}")
        argv += [f"--fault={spec}" for spec in self.faults.pop(role.name, [])]
        environment = dict(os.environ, DASER_RUN_DIR=self.run_dir)
        actor = Actor(role, device, row, argv, environment)
        self.actors.append(actor)

    def _is_manual(self, actor: Actor) -> bool:
        return actor.role.name in self.manual or actor.name in self.manual

    def _start_due(self) -> None:
        now = time.monotonic()
        for actor in self.actors:
            if actor.wanted and not actor.process and not self._is_manual(actor) and now >= actor.start_due:
                try:
                    actor.start()
                except OSError as error:
                    actor.started_at = now
                    if error.errno not in TRANSIENT or not actor.plan_restart(self.deaths_max):
                        self._give_up(f"{actor.argv[0]}: {error.strerror}")
                        return
                    self.log("warn", f"starting `{actor.name}`: {error.strerror}; trying again")
                    continue
                self.selector.register(actor.pidfd, selectors.EVENT_READ,
                                       lambda actor=actor: self._on_death(actor))
                assert actor.process and actor.process.stderr
                self._follow(actor.process.stderr, actor.name, actor.process.pid)

    def _follow(self, pipe: Any, name: str, pid: int) -> None:
        """Passes an actor's log on, a line at a time, with time, role and pid before it."""
        descriptor = pipe.fileno()
        self.partial[descriptor] = b""

        def on_readable() -> None:
            try:
                data = os.read(descriptor, 65536)
            except BlockingIOError:
                return
            lines = (self.partial[descriptor] + data).split(b"\n")
            if not data:  # end of file: the last piece may lack its newline
                self.selector.unregister(pipe)
                pipe.close()
                del self.partial[descriptor]
                lines = [line for line in lines if line] + [b""]
            else:
                self.partial[descriptor] = lines[-1][-8192:]
            for line in lines[:-1]:
                self._line(name, pid, line.decode("utf-8", "replace"))

        self.selector.register(pipe, selectors.EVENT_READ, on_readable)

    def _line(self, name: str, pid: int, text: str) -> None:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + f".{time.time_ns() // 1000000 % 1000:03d}Z"
        if self.json_log:
            try:
                record = json.loads(text)
                assert isinstance(record, dict)
            except (ValueError, AssertionError):
                record = {"level": "info", "message": text}
            text = json.dumps({"time": stamp, "actor": name, "pid": pid, **record})
        else:
            text = f"{stamp} {name}[{pid}] {text}"
        with contextlib.suppress(OSError):  # nobody reads our log: not a reason to die
            print(text, file=sys.stderr, flush=True)

    def log(self, level: str, text: str) -> None:
        message = json.dumps({"level": level, "message": text}) if self.json_log else f"{level}: {text}"
        self._line("supervisor", os.getpid(), message)

    def _on_death(self, actor: Actor) -> None:
        self.selector.unregister(actor.pidfd)
        pid = actor.process.pid if actor.process else 0
        was_wanted = actor.wanted and not self.stopping
        was_asked = actor.kill_due > 0  # to stop: its pair was retired, and is wanted again meanwhile
        status = actor.reap()
        words = ""
        if self.view and actor.row >= 0:
            words = self.view.last_words(actor.row, self.view.row(actor.row)["incarnation"])
        told = f"`{actor.name}` pid {pid} died: {status_text(status)}" + (f", last words: {words}" if words else "")
        if not was_wanted:
            if status != 0:
                self.log("warn", told)
            return
        if was_asked:
            actor.start_due = time.monotonic()
        elif status in FATAL:
            self._give_up(f"{told} ({FATAL[status]})")
        elif status == EXIT_LOCKED and self._by_hand(actor):
            actor.start_due = time.monotonic() + 1.0
        elif not actor.plan_restart(self.deaths_max):
            self._give_up(f"{told}; {len(actor.deaths)} deaths within a minute: crash loop")
        else:
            self.log("warn", f"{told}; starting it again in {actor.start_due - time.monotonic():.1f} s"
                     if actor.start_due > time.monotonic() else f"{told}; starting it again")

    def _by_hand(self, actor: Actor) -> bool:
        assert self.broker
        return self.broker.actor(actor.name) is not None

    def _give_up(self, why: str) -> None:
        """Ends DaseR for good; COMMAND goes on without it."""
        if self.given_up:
            return
        self.given_up = why
        self.status = 1
        self.log("error", f"giving up: {why}" + ("; the command goes on without DaseR" if self.child else ""))
        self._stop_actors()

    def _stop_actors(self) -> None:
        """Reverse start order falls out of the stages in _watch: pairs first, then the rest."""
        self.stopping_at = time.monotonic()
        for actor in self.actors:
            if actor.role.per_device:
                actor.stop()

    def _watch(self) -> None:
        """Deadlines: readiness, stopping, progress, COMMAND."""
        now = time.monotonic()
        for actor in self.actors:
            if actor.process and actor.kill_due and now >= actor.kill_due:
                self.log("warn", f"`{actor.name}` pid {actor.process.pid} did not stop in "
                         f"{actor.role.stop_s:.0f} s: killed")
                actor.signal(signal.SIGKILL)
                actor.kill_due = now + 60.0
            elif actor.process and not actor.ready and not actor.kill_due and \
                    now > actor.started_at + actor.role.ready_s:
                self.log("warn", f"`{actor.name}` pid {actor.process.pid} was not ready in "
                         f"{actor.role.ready_s:.0f} s: killed")
                actor.signal(signal.SIGKILL)
                actor.started_at = now
        if self.stopping or self.given_up:
            if not any(a.process for a in self.actors if a.role.per_device):
                for actor in self.actors:
                    actor.stop()
        else:
            self._watch_progress()
            self._start_command()
        if self.child and self.child_kill_due and now >= self.child_kill_due:
            self.log("warn", f"the command did not stop in {COMMAND_STOP_S:.0f} s: killed")
            self.child.kill()
            self.child_kill_due = now + 60.0

    def _watch_progress(self) -> None:
        assert self.broker
        if self.view is None:
            if "control" not in self.broker.objects:
                return
            self.view = ControlView(self.broker.objects["control"], self.layout)
        for actor in self.actors:
            if not actor.process or not actor.ready or actor.row < 0:
                continue
            age = (time.monotonic_ns() - self.view.row(actor.row)["progress_ns"]) / 1e9
            if age > PROGRESS_MAX_S and time.monotonic() - actor.started_at > PROGRESS_MAX_S:
                self._kill(actor, f"no progress for {age:.0f} s")

    def _kill(self, actor: Actor, why: str) -> None:
        assert actor.process
        if actor.is_killed:
            return
        actor.is_killed = True
        self.log("warn", f"killing `{actor.name}` pid {actor.process.pid}: {why}")
        actor.signal(signal.SIGKILL)

    # ---- COMMAND ----------------------------------------------------------------------------

    def _is_ready(self) -> bool:
        assert self.broker
        return all(self.broker.actor(name) and self.broker.actor(name).ready  # type: ignore[union-attr]
                   for name in ("scheduler", "metrics"))

    def _start_command(self) -> None:
        if not self._is_ready():
            return
        if self.announce:
            self.announce = False
            self.log("info", f"ready in `{self.run_dir}`, l1 {int(self.options['l1.size']) / 2**20:.0f} MiB")
        if not self.command or self.child or self.child_status is not None:
            return
        environment = dict(os.environ, DASER_RUN_DIR=self.run_dir)
        parent = os.getpid()

        def tie_to_us() -> None:
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            resource.setrlimit(resource.RLIMIT_NOFILE, self.descriptor_limits)
            if os.getppid() != parent:
                os._exit(1)

        try:
            self.child = subprocess.Popen(self.command, env=environment, preexec_fn=tie_to_us)
        except OSError as error:
            self.child_status = 127 if isinstance(error, FileNotFoundError) else 126
            self.log("error", f"command `{self.command[0]}`: {error.strerror}")
            self.shutdown()
            return
        self.child_pidfd = os.pidfd_open(self.child.pid)
        self.selector.register(self.child_pidfd, selectors.EVENT_READ, self._on_command_end)

    def _on_command_end(self) -> None:
        assert self.child
        self.selector.unregister(self.child_pidfd)
        os.close(self.child_pidfd)
        status = self.child.wait()
        self.child_status = status if status >= 0 else 128 - status
        self.child = None
        self.shutdown()

    # ---- called by the broker ---------------------------------------------------------------

    def actor_hello(self, connection: Connection, role: str, device: str) -> tuple[int, bool]:
        """Row of an actor and whether we did not start it; row -1 for everybody else."""
        ours = any(a.process and a.process.pid == connection.pid for a in self.actors)
        if role not in ACTOR_ROLES:
            if role == "ctl" and device == "daser-all":
                self._all_connection = connection
            return -1, not ours
        assert self.broker
        if self.roles[role].per_device != bool(device) or (device and not DEVICE_NAME.fullmatch(device)):
            raise Refused(errno.EINVAL, f"role `{role}` with device `{device[:64]}`")
        name = f"{role}-{device}" if device else role
        other = self.broker.actor(name)
        if other:
            raise Refused(errno.EEXIST, f"`{name}` lives: pid {other.pid}")
        return self._row(role, device), not ours

    def actor_ready(self, connection: Connection) -> None:
        for actor in self.actors:
            if actor.process and actor.process.pid == connection.pid:
                actor.ready = True

    def actor_gone(self, connection: Connection) -> None:
        """Deaths are seen by pidfd; of an actor started by hand this is all that we see."""
        if not self.stopping and not any(a.process and a.process.pid == connection.pid for a in self.actors):
            self.log("info", f"`{connection.name}` pid {connection.pid} left")

    _all_connection: Connection | None = None

    def spawn_pair(self, device: str) -> None:
        if self.stopping or self.given_up:
            raise Refused(errno.ECANCELED, "stopping")
        if not DEVICE_NAME.fullmatch(device):
            raise Refused(errno.EINVAL, f"device `{device[:64]}`")
        self._row("load", device)
        if self.threads:
            assert self.broker
            if self._all_connection is None:
                raise Refused(errno.ENOTCONN, "daser-all has no connection for events")
            self.broker.event(self._all_connection, event="spawn", device=device)
            return
        for name in ("load", "store"):
            actor = next((a for a in self.actors if a.role.name == name and a.device == device), None)
            if actor:
                actor.wanted = True
            else:
                self._add(self.roles[name], device, self._row(name, device))

    def retire_pair(self, device: str) -> None:
        if self.threads:
            if self.broker and self._all_connection:
                self.broker.event(self._all_connection, event="retire", device=device)
            return
        for actor in self.actors:
            if actor.device == device:
                actor.stop()
        self.actors = [a for a in self.actors if a.device != device or a.process]

    def kill_actor(self, role: str, device: str, incarnation: int, why: str) -> None:
        assert self.broker
        connection = self.broker.actor(f"{role}-{device}" if device else role)
        for actor in self.actors:
            if connection and connection.incarnation == incarnation and actor.process and \
                    actor.process.pid == connection.pid:
                self._kill(actor, why)
                return
        raise Refused(errno.ENOENT, f"no supervised `{role}` `{device}` of incarnation {incarnation}")

    def shutdown(self) -> None:
        if not self.stopping:
            self.stopping = True
            if self.child:
                self.child.send_signal(signal.SIGTERM)
                self.child_kill_due = time.monotonic() + COMMAND_STOP_S
            self._stop_actors()
