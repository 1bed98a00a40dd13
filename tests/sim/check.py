#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs daser-replay against a fresh instance and compares it with the simulation of the same caches.

    check.py serial     [--bin DIR] [--run-dir DIR] [replay flags...]
    check.py concurrent [--bin DIR] [--run-dir DIR] [replay flags...]

serial adds --concurrency 1 --settle; concurrent gives the service time to answer (--lookup-wait,
--save-deadline), so that no loss comes from a busy machine; flags that are given win. The instance
must be empty: the simulation begins with empty caches. The number of L1 slots is asked from
daserctl. A packed trace (.xz) is unpacked first. Exit status and output: compare.py's; 2 when the
replay failed.
"""
import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile

import compare

DEFAULTS = {"serial": {"--concurrency": "1", "--settle": None, "--phases": "cold,warm"},
            "concurrent": {"--lookup-wait": "1000000", "--save-deadline": "30000"}}


def call(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        print(f"check.py: exit status {done.returncode}: {' '.join(argv)}", file=sys.stderr)
        raise SystemExit(2)
    return done.stdout


def replay_flags(mode, given):
    names = {word.split("=", 1)[0] for word in given}
    added = [word for name, value in DEFAULTS[mode].items() if name not in names
             for word in ((name,) if value is None else (name, value))]
    return [*given, *added]


def unpacked(flags, folder):
    """The flags with a packed trace replaced by an unpacked copy."""
    flags = [part for word in flags
             for part in (word.split("=", 1) if word.startswith("--trace=") else [word])]
    if "--trace" in flags:
        at = flags.index("--trace") + 1
        if flags[at].endswith(".xz"):
            path = os.path.join(folder, "trace.jsonl")
            with lzma.open(flags[at]) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)
            flags[at] = path
    return flags


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0], allow_abbrev=False)
    parser.add_argument("mode", choices=("serial", "concurrent"))
    parser.add_argument("--bin", default="", help="where the programs are; default: PATH")
    parser.add_argument("--run-dir", default=os.environ.get("DASER_RUN_DIR", ""))
    options, given = parser.parse_known_args()
    replay, ctl = (os.path.join(options.bin, name) for name in ("daser-replay", "daserctl"))
    with tempfile.TemporaryDirectory(prefix="daser-check-") as folder:
        result, log, trace = (os.path.join(folder, name) for name in ("result", "log", "made"))
        flags = unpacked(replay_flags(options.mode, given), folder)
        more = []
        if "--trace" not in flags:
            call([replay, *flags, "--write-trace", trace])
            more = ["--trace", trace]
        out = call([replay, "--run-dir", options.run_dir, "--json", "--requests-log", log, *flags])
        with open(result, "w", encoding="utf-8") as file:
            file.write(out)
        status = json.loads(call([ctl, "--run-dir", options.run_dir, "status", "--json"]))
        return compare.main([options.mode, "--result", result, "--log", log, "--slots",
                             str(status["pool"]["slots"]), *more])


if __name__ == "__main__":
    sys.exit(main())
