# SPDX-License-Identifier: Apache-2.0
"""The attach socket: holds every memfd by name and hands it to processes of the same user.

The protocol is described in actors/rt/broker.h; docs/protocol.md has it for readers.
"""
import contextlib
import errno
import json
import os
import selectors
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

MAX_DATAGRAM = 8192
MAX_CONNECTIONS = 512
MAX_OBJECTS = 1024
PROTOCOL_MAJOR = 1
# Objects that live no longer than the connection that put them.
EPHEMERAL = "staging/"


class Refused(Exception):
    """A request that is answered with an errno and one sentence."""

    def __init__(self, number: int, text: str):
        super().__init__(text)
        self.number = number


@dataclass(eq=False)
class Connection:
    """One client, from connect to end of file. `role` is "" until it said hello."""

    sock: socket.socket
    pid: int
    role: str = ""
    device: str = ""
    incarnation: int = 0
    row: int = -1
    ready: bool = False
    objects: set[str] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.role}-{self.device}" if self.device else self.role


class Broker:
    """Serves attach.sock from the supervisor's selector; never blocks on a client.

    `on` is the supervisor: its methods actor_hello, actor_ready, actor_gone, spawn_pair, retire_pair,
    kill_actor and shutdown are called.
    """

    def __init__(self, path: str, selector: selectors.BaseSelector, on: Any, options: dict[str, str]):
        self.path = path
        self.selector = selector
        self.on = on
        self.options = options
        self.objects: dict[str, int] = {}  # name -> descriptor, owned
        self.connections: set[Connection] = set()
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.setblocking(False)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen(128)
        selector.register(self.listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Closes connections and objects; what nobody else has mapped is gone then."""
        for connection in list(self.connections):
            self._drop(connection)
        self.selector.unregister(self.listener)
        self.listener.close()
        for descriptor in self.objects.values():
            os.close(descriptor)
        self.objects.clear()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)

    def event(self, connection: Connection, **message: Any) -> None:
        """Sends an event; a client whose buffer is full is dropped, it would miss events otherwise."""
        self._send(connection, message, None)

    def actor(self, name: str) -> Connection | None:
        return next((c for c in self.connections if c.name == name and c.row >= 0), None)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:  # it went away, or we have no descriptor left: never a reason to die
            return
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        if uid not in (os.getuid(), 0) or len(self.connections) >= MAX_CONNECTIONS:
            sock.close()
            return
        sock.setblocking(False)
        connection = Connection(sock, pid)
        self.connections.add(connection)
        self.selector.register(sock, selectors.EVENT_READ, lambda: self._receive(connection))

    def _drop(self, connection: Connection) -> None:
        if connection not in self.connections:
            return
        self.connections.discard(connection)
        self.selector.unregister(connection.sock)
        connection.sock.close()
        for name in connection.objects:
            os.close(self.objects.pop(name))
        if connection.row >= 0:
            self.on.actor_gone(connection)

    def _send(self, connection: Connection, message: dict[str, Any], descriptor: int | None) -> None:
        data = json.dumps(message, separators=(",", ":")).encode()
        try:
            if descriptor is None:
                connection.sock.send(data)
            else:
                socket.send_fds(connection.sock, [data], [descriptor])
        except OSError:
            self._drop(connection)

    def _receive(self, connection: Connection) -> None:
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                connection.sock, MAX_DATAGRAM, 4, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            return
        except OSError:
            data, descriptors, flags = b"", [], 0
        try:
            if not data:
                self._drop(connection)
                return
            descriptor = None
            try:
                if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                    raise Refused(errno.EMSGSIZE, f"a request is at most {MAX_DATAGRAM} bytes")
                answer, descriptor = self._serve(connection, data, descriptors)
                answer = {"ok": True, **answer}
            except Refused as refused:
                answer = {"ok": False, "errno": refused.number, "error": str(refused)}
            self._send(connection, answer, descriptor)
        finally:
            for left in descriptors:
                os.close(left)

    def _serve(self, connection: Connection, data: bytes,
               descriptors: list[int]) -> tuple[dict[str, Any], int | None]:
        try:
            request = json.loads(data)
            operation = request["op"]
            serve: Callable[..., tuple[dict[str, Any], int | None]] = getattr(self, f"_op_{operation}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            raise Refused(errno.EINVAL, f"not a request: {data[:80]!r}") from None
        if not connection.role and operation != "hello":
            raise Refused(errno.EPROTO, f"`{operation}` before `hello`")
        try:
            return serve(connection, request, descriptors)
        except (LookupError, TypeError, ValueError, ArithmeticError) as error:
            raise Refused(errno.EINVAL, f"`{operation}`: {error.__class__.__name__} {error}") from None

    def _op_hello(self, connection: Connection, request: dict[str, Any],
                  _: list[int]) -> tuple[dict[str, Any], int | None]:
        major = int(request["protocol"][0])
        if major != PROTOCOL_MAJOR:
            raise Refused(errno.EPROTONOSUPPORT,
                          f"protocol major {major} of {request['role']}, served is {PROTOCOL_MAJOR}")
        if connection.role:
            raise Refused(errno.EALREADY, f"hello was said as `{connection.name}`")
        role, device = str(request["role"]), str(request["device"])
        row, by_hand = self.on.actor_hello(connection, role, device)
        connection.role, connection.device, connection.row = role, device, row
        connection.incarnation = int(request["incarnation"])
        return {"row": row, "by_hand": by_hand, "options": self.options}, None

    def _op_get(self, _: Connection, request: dict[str, Any],
                __: list[int]) -> tuple[dict[str, Any], int | None]:
        name = str(request["name"])
        if name not in self.objects:
            raise Refused(errno.ENOENT, f"no object `{name}`")
        return {}, self.objects[name]

    def _op_put(self, connection: Connection, request: dict[str, Any],
                descriptors: list[int]) -> tuple[dict[str, Any], int | None]:
        name = str(request["name"])
        if len(descriptors) != 1:
            raise Refused(errno.EINVAL, f"`put` of `{name}` with {len(descriptors)} descriptors, not 1")
        if name in self.objects:
            raise Refused(errno.EEXIST, f"object `{name}` exists")
        if len(self.objects) >= MAX_OBJECTS:
            raise Refused(errno.ENOSPC, f"{MAX_OBJECTS} objects are held")
        self.objects[name] = descriptors.pop()
        if name.startswith(EPHEMERAL):
            connection.objects.add(name)
        return {}, None

    def _op_drop(self, connection: Connection, request: dict[str, Any],
                 _: list[int]) -> tuple[dict[str, Any], int | None]:
        name = str(request["name"])
        if name.startswith(EPHEMERAL) and name not in connection.objects:
            raise Refused(errno.EPERM, f"object `{name}` belongs to another connection")
        if name not in self.objects:
            raise Refused(errno.ENOENT, f"no object `{name}`")
        os.close(self.objects.pop(name))
        connection.objects.discard(name)
        return {}, None

    def _op_ready(self, connection: Connection, _: dict[str, Any],
                  __: list[int]) -> tuple[dict[str, Any], int | None]:
        connection.ready = True
        self.on.actor_ready(connection)
        return {}, None

    def _op_spawn(self, _: Connection, request: dict[str, Any],
                  __: list[int]) -> tuple[dict[str, Any], int | None]:
        self.on.spawn_pair(str(request["device"]))
        return {}, None

    def _op_retire(self, _: Connection, request: dict[str, Any],
                   __: list[int]) -> tuple[dict[str, Any], int | None]:
        self.on.retire_pair(str(request["device"]))
        return {}, None

    def _op_kill(self, _: Connection, request: dict[str, Any],
                 __: list[int]) -> tuple[dict[str, Any], int | None]:
        self.on.kill_actor(str(request["role"]), str(request["device"]), int(request["incarnation"]),
                           str(request["why"]))
        return {}, None

    def _op_shutdown(self, _: Connection, __: dict[str, Any],
                     ___: list[int]) -> tuple[dict[str, Any], int | None]:
        self.on.shutdown()
        return {}, None
