# SPDX-License-Identifier: Apache-2.0
"""What the supervisor reads from the control segment: progress and last words. It writes nothing.

Offsets come from `daserctl layout --json`, made from include/layout.h, so nothing here repeats them.
"""
import mmap
import os
import struct
from typing import Any


class ControlView:
    """A read-only look at actor rows; every read is defensive: the writer may have died half-way."""

    def __init__(self, descriptor: int, layout: dict[str, Any]):
        self.layout = layout
        self.memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size, prot=mmap.PROT_READ)
        self.rows_at = self._section(layout["sections"]["actors"])
        self.words_at = self._section(layout["sections"]["last_words"])

    def close(self) -> None:
        self.memory.close()

    def _u64(self, offset: int) -> int:
        return int(struct.unpack_from("<Q", self.memory, offset)[0])

    def _section(self, kind: int) -> int:
        header, section = self.layout["header"], self.layout["section"]
        count = struct.unpack_from("<I", self.memory, header["section_count"])[0]
        start = self._u64(header["sections_off"])
        for index in range(min(count, 64)):
            at = start + index * section["size"]
            if struct.unpack_from("<I", self.memory, at + section["kind"])[0] == kind:
                return self._u64(at + section["off"])
        raise ValueError(f"control segment has no section {kind}")

    def row(self, index: int) -> dict[str, int]:
        fields = self.layout["actor_row"]
        at = self.rows_at + index * fields["size"]
        return {name: self._u64(at + fields[name])
                for name in ("incarnation", "progress_ns", "peer_handles")}

    def last_words(self, index: int, incarnation: int) -> str:
        fields = self.layout["last_words"]
        at = self.words_at + index * fields["size"]
        if self._u64(at + fields["incarnation"]) != incarnation:
            return ""
        text = self.memory[at + fields["text"]:at + fields["size"]]
        return text.split(b"\0", 1)[0].decode("utf-8", "replace")
