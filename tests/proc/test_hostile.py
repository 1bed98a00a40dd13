# SPDX-License-Identifier: Apache-2.0
"""What a hostile tester broke, one class for each bug."""
import json
import mmap
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import time

from .harness import Instance, ProcTest, binary, run_daser, until


class Attached:
    """A raw client of attach.sock."""

    def __init__(self, instance: Instance):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(10)
        self.socket.connect(os.path.join(instance.run_dir, "attach.sock"))

    def ask(self, data: bytes) -> dict[str, object]:
        self.socket.send(data)
        return dict(json.loads(self.socket.recv(8192) or b"{}"))

    def map(self, name: str) -> mmap.mmap:
        self.ask(b'{"op":"hello","role":"ctl","device":"","incarnation":1,"protocol":[1,0]}')
        self.socket.send(json.dumps({"op": "get", "name": name}).encode())
        _, descriptors, _, _ = socket.recv_fds(self.socket, 8192, 1)
        memory = mmap.mmap(descriptors[0], os.fstat(descriptors[0]).st_size)
        os.close(descriptors[0])
        return memory


def msgpack(value: object) -> bytes:
    if isinstance(value, int):
        return b"\xcf" + value.to_bytes(8, "big")
    if isinstance(value, str):
        return b"\xda" + len(value).to_bytes(2, "big") + value.encode()
    assert isinstance(value, list)
    return b"\xdd" + len(value).to_bytes(4, "big") + b"".join(map(msgpack, value))


class Stranger:
    """A raw ZMTP 3.0 DEALER of this process that says HELLO as whom it likes."""

    def __init__(self, path: str):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(10)
        self.socket.connect(path)
        self.socket.sendall(b"\xff" + bytes(8) + b"\x7f\x03\x00NULL" + bytes(48))
        self._take(64)
        ready = b"\x05READY\x0bSocket-Type\x00\x00\x00\x06DEALER\x08Identity\x00\x00\x00\x00"
        self.socket.sendall(b"\x04" + bytes([len(ready)]) + ready)
        self._take(self._take(2)[1])

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, "closed"
            data += piece
        return data

    def hello(self, role: int, device: str, incarnation: int) -> bytes:
        """The reply's frame."""
        with open("/proc/self/stat", encoding="ascii") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
        frame = msgpack([1, 1, incarnation, 0, 1, [1, 0, role, device, os.getpid(), ticks, "x"]])
        self.socket.sendall(bytes([0, len(frame)]) + frame)
        return self._take(self._take(2)[1])


LOAD = ("--workload", "prefix", "--prefixes", "6", "--prefix-tokens", "2000", "--suffix-tokens", "100",
        "--block-tokens", "64", "--block-bytes", "32KiB", "--kv-blocks", "150")


def has_blocks(instance: Instance) -> bool:
    return bool(instance.ctl("status", expect=(0, 4))["scheduler"]["entries_visible"])


class AttachSocketTest(ProcTest):
    """A datagram whose JSON raised IndexError, OverflowError or RecursionError ended the supervisor."""

    def test_no_datagram_ends_the_supervisor(self) -> None:
        with Instance(l1="16MiB") as instance:
            for data in (b"[" * 8000,
                         b'{"op":"hello","role":"ctl","device":"","incarnation":0,"protocol":[]}',
                         b'{"op":"hello","role":"ctl","device":"","incarnation":Infinity,"protocol":[1,0]}'):
                with self.subTest(data[:80]):
                    self.assertEqual(Attached(instance).ask(data).get("errno"), 22)

    def test_running_out_of_descriptors_does_not_end_the_supervisor(self) -> None:
        with Instance(l1="16MiB") as instance:
            assert instance.process
            pid = instance.process.pid
            soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(os.listdir(f"/proc/{pid}/fd")) + 1, hard))
            first, second = Attached(instance), Attached(instance)
            self.assertEqual(first.ask(b"x").get("errno"), 22)
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))
            self.assertEqual(second.ask(b"x").get("errno"), 22)


class RemovedRunDirTest(ProcTest):
    """A run directory that was removed made the end a traceback and exit status 1."""

    def test_an_instance_without_its_directory_stops_well(self) -> None:
        with Instance(l1="16MiB") as instance:
            shutil.rmtree(instance.run_dir)
            self.assertEqual(instance.stop(), 0, instance.log())
            self.assertNotIn("Traceback", instance.log())


class NulSettingTest(ProcTest):
    """A NUL in a setting was a traceback."""

    def test_a_nul_in_a_setting_is_refused(self) -> None:
        with Instance(l1="16MiB") as instance:
            config = os.path.join(instance.run_dir, "bad.toml")
            with open(config, "w", encoding="ascii") as file:
                file.write('[l1]\nsize = "16MiB\\u0000"\n')
            done = run_daser("up", "--run-dir", instance.run_dir + "x", "-c", config)
            os.unlink(config)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertNotIn("Traceback", done.stderr)


class FalseHelloTest(ProcTest):
    """HELLO in the name of a living actor buried that actor at the scheduler: as if confirmed dead, for good."""

    def test_a_hello_in_the_name_of_a_living_actor_is_refused(self) -> None:
        with Instance(l1="32MiB") as instance:
            with instance.replaying(*LOAD, "--requests", "200000", "--phases", "cold"):
                instance.actor("store-host:0")
                until("blocks are stored", lambda: has_blocks(instance))
                Stranger(os.path.join(instance.run_dir, "scheduler.sock")).hello(4, "host:0", 2 ** 63)
            report = instance.replay(*LOAD, "--requests", "50", "--phases", "cold", "--engine", "next")
            self.assertEqual(self.phase(report, "cold")["drops"].get("detached", 0), 0, instance.log()[-2000:])

    def test_hellos_of_one_process_do_not_use_up_all_peers(self) -> None:
        with Instance(l1="16MiB") as instance:
            for number in range(520):
                Stranger(os.path.join(instance.run_dir, "scheduler.sock")).hello(
                    3, f"d{number}", time.clock_gettime_ns(time.CLOCK_BOOTTIME))
            instance.ctl("send", "scheduler", "ping")


class ScribbledRowTest(ProcTest):
    """One wrong bit in a row's incarnation kept its actor from ever starting again: a crash loop ended DaseR."""

    def test_an_incarnation_from_the_future_does_not_stop_an_actor(self) -> None:
        with Instance(l1="16MiB") as instance:
            control = Attached(instance).map("control")
            layout = json.loads(subprocess.run([binary("daserctl"), "layout", "--json"], capture_output=True,
                                               check=True).stdout)
            row = layout["actor_row"]
            at = self.section(control, layout, layout["sections"]["actors"]) + row["size"] + row["incarnation"]
            old = instance.actor("metrics")
            struct.pack_into("<Q", control, at, 2 ** 63)
            os.kill(old["pid"], signal.SIGKILL)

            def is_up() -> bool:
                row = instance.actors()["metrics"]
                return bool(row["pid"] != old["pid"] and row["state"] == "ready")

            until("metrics is up again", is_up, 10)

    @staticmethod
    def section(memory: mmap.mmap, layout: dict[str, dict[str, int]], kind: int) -> int:
        head, part = layout["header"], layout["section"]
        start = struct.unpack_from("<Q", memory, head["sections_off"])[0]
        for index in range(struct.unpack_from("<I", memory, head["section_count"])[0]):
            at = start + index * part["size"]
            if struct.unpack_from("<I", memory, at + part["kind"])[0] == kind:
                return int(struct.unpack_from("<Q", memory, at + part["off"])[0])
        raise AssertionError(kind)


class StalledSchedulerTest(ProcTest):
    """An engine kept asking a scheduler that lives and does not progress; each request then held its blocks for the
    save deadline."""

    def test_a_stopped_scheduler_counts_as_down_after_two_seconds(self) -> None:
        log = ""
        with Instance(l1="32MiB") as instance:
            with instance.replaying(*LOAD, "--requests", "200000", "--phases", "cold") as replay:
                until("blocks are stored", lambda: has_blocks(instance))
                row = instance.signal("scheduler", signal.SIGSTOP)
                try:
                    def said() -> bool:
                        nonlocal log
                        log = replay.error_text()
                        return "engine detached" in log
                    until("the engine goes on without the scheduler", said, 6)  # killed by the supervisor after 10 s
                finally:
                    os.kill(row["pid"], signal.SIGCONT)
