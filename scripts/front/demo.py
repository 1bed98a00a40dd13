# SPDX-License-Identifier: Apache-2.0
"""`daser demo`: a multi-turn workload, cold, drained, warm, at TP2, in a minute, with a table for people."""
import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

WORKLOAD = ["--workload", "multiturn", "--users", "24", "--turns", "5", "--turn-tokens", "768", "--tp", "2",
            "--block-tokens", "64", "--block-bytes", "256KiB", "--concurrency", "8", "--phases", "cold,drain,warm",
            "--seed", "1",
            # the stand-in computes on the actors' cores: an engine with GPUs leaves them idle and answers in time
            "--lookup-wait", "500000"]
L1_SIZE = "1GiB"


def main(arguments: list[str], ensure_built: Callable[[bool], Path], run_private: Callable[..., int]) -> int:
    parser = argparse.ArgumentParser(prog="daser demo", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print replay's JSON instead of the table")
    parser.add_argument("--yes", action="store_true", help="install missing packages unasked")
    parser.add_argument("--inside", metavar="BIN", help=argparse.SUPPRESS)
    known = parser.parse_args(arguments)
    if known.inside:
        return inside(Path(known.inside), known.json)
    binaries = ensure_built(known.yes)
    command = [sys.executable, str(Path(sys.argv[0]).resolve()), "demo", "--inside", str(binaries)]
    return run_private(command + (["--json"] if known.json else []), binaries, {"l1-size": L1_SIZE})


def inside(binaries: Path, as_json: bool) -> int:
    """Runs as the instance's COMMAND: DASER_RUN_DIR is set."""
    run_dir = os.environ["DASER_RUN_DIR"]
    done = subprocess.run([binaries / "daser-replay", "--run-dir", run_dir, "--json", "--l1", L1_SIZE, *WORKLOAD],
                          stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    report = json.loads(lines[-1]) if lines else {"phases": []}
    unserved = sum(phase["seen_blocks"] - phase["seen_hit_blocks"] for phase in report["phases"]
                   if phase["name"] == "warm")
    if unserved:
        print(f"daser demo: {unserved} full blocks that were seen before were computed again", file=sys.stderr)
    if as_json:
        if lines:
            print(lines[-1])
        return done.returncode or bool(unserved)
    if report["phases"]:
        print_table(report)
    print(flush=True)
    subprocess.run([binaries / "daserctl", "status"], check=False)  # the engine has left: it may say so
    return done.returncode or bool(unserved)


def print_table(report: dict[str, Any]) -> None:
    row = "{:<6} {:>8} {:>10} {:>11} {:>11} {:>11} {:>9} {:>10} {:>10} {:>10} {:>10} {:>5} {:>7}".format
    print(row("phase", "requests", "prompt tok", "engine hits", "daser hits", "seen served", "load GB/s", "store GB/s",
              "lookup p50", "load p50", "mismatched", "hung", "seconds"))
    for phase in report["phases"]:
        tokens, hits = phase["prompt_tokens"], phase["hit_tokens"]
        if phase["name"] == "drain":
            continue
        print(row(phase["name"], phase["requests"], tokens, share(hits["engine"], tokens),
                  share(hits["l1"] + hits["l2"], tokens), share(phase["seen_hit_blocks"], phase["seen_blocks"]),
                  f"{phase['load_GBps']:.2f}", f"{phase['store_GBps']:.2f}", f"{phase['lookup_us']['p50']:.0f} us",
                  f"{phase['load_us']['p50']:.0f} us", phase["mismatched_bytes"], phase["hung"],
                  f"{phase['seconds']:.1f}"))


def share(count: int, total: int) -> str:
    return f"{count} {100 * count // total}%" if total else "-"
