# SPDX-License-Identifier: Apache-2.0
"""`daser test`: style, unit tests with gcc, clang and sanitizers, then tests of real processes.

Every stage prints what failed with its output; the last line is `N passed, N failed[, N skipped]`.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import time
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .build import ROOT, BuildError, build, ensure_packages

# name, folder, meson setup flags, compiler, in every run or with --all alone
BUILDS = [
    ("gcc", "build", ("-Dtests=true",), "gcc", True),
    ("clang", "build-clang", ("-Dtests=true",), "clang", True),
    ("asan", "build-asan", ("-Dtests=true", "-Db_sanitize=address,undefined", "-Db_lundef=false"), "clang", True),
    ("tsan", "build-tsan", ("-Dtests=true", "-Db_sanitize=thread", "-Db_lundef=false"), "clang", False),
]
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"halt_on_error=1:suppressions={ROOT / 'tests' / 'tsan.supp'}",
}
UNIT_TIMEOUT_FACTOR = "4"


@dataclass
class Tally:
    """What the run comes to."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def add(self, name: str, good: bool, output: str = "") -> None:
        if good:
            self.passed += 1
            return
        self.failed.append(name)
        print(f"FAILED {name}\n{output[-20000:]}", flush=True)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="daser test", description=__doc__)
    parser.add_argument("pattern", nargs="?", default="", help="run only tests whose name contains this")
    parser.add_argument("--all", action="store_true", help="also the long ones")
    parser.add_argument("--stage", choices=["style", "model", "unit", "proc"], action="append",
                        help="run only this stage (may be repeated)")
    parser.add_argument("--yes", action="store_true", help="install missing packages unasked")
    known = parser.parse_args(arguments)
    ensure_packages("test", known.yes)
    stages = known.stage or ["style", "model", "unit", "proc"]
    tally = Tally()
    started = time.monotonic()
    if "style" in stages and not known.pattern:
        style(tally)
    if "model" in stages and known.pattern in "model":
        model(tally, known.all)
    if not {"unit", "proc"} & set(stages):
        return close(tally, started)
    for name, folder, flags, compiler, always in BUILDS:
        if (not always and not known.all) or ("unit" not in stages and name != "gcc"):
            continue
        print(f"building with {name} ...", flush=True)
        try:
            build(ROOT / folder, quiet=True, setup=flags, environment={"CC": compiler})
        except BuildError as error:
            tally.add(f"{name}: build", False, str(error))
            continue
        if "unit" in stages:
            unit(tally, name, ROOT / folder, known.pattern)
    if "proc" in stages:
        proc(tally, known.pattern, known.all)
    return close(tally, started)


def close(tally: Tally, started: float) -> int:
    """The closing lines, and the exit status."""
    print(f"finished in {time.monotonic() - started:.0f} s")
    for name in tally.skipped:
        print(f"skipped: {name}")
    for name in tally.failed:
        print(f"failed: {name}")
    tail = f", {len(tally.skipped)} skipped" if tally.skipped else ""
    print(f"{tally.passed} passed, {len(tally.failed)} failed{tail}", flush=True)
    return 1 if tally.failed or not tally.passed else 0


def style(tally: Tally) -> None:
    for extra in ([], ["--self-test"]):
        done = subprocess.run([ROOT / "scripts" / "check_style.sh", *extra], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)
        tally.add(" ".join(["check_style", *extra]), done.returncode == 0, done.stdout)


def model(tally: Tally, everything: bool) -> None:
    """The proofs and mutants of tests/model; each line of theirs is one test."""
    print("models of the protocol ...", flush=True)
    done = subprocess.run([ROOT / "tests" / "model" / "run.sh", *(["--large"] if everything else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    lines = done.stdout.splitlines()
    for line in lines[:-1]:
        if line.startswith("ok "):
            tally.add(f"model: {line}", True)
    if done.returncode != 0 or not lines:
        tally.add("model", False, done.stdout)


def unit(tally: Tally, build_name: str, folder: Path, pattern: str) -> None:
    """Runs meson's tests; each TAP line of a cmocka program counts as one test."""
    print(f"unit tests, {build_name} ...", flush=True)
    log = folder / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    subprocess.run(["meson", "test", "-C", str(folder), "--no-rebuild", "--num-processes", "2",
                    "--timeout-multiplier", UNIT_TIMEOUT_FACTOR],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
                   env={**os.environ, **SANITIZER_OPTIONS})
    if not log.exists():
        tally.add(f"{build_name}: meson test", False, "no test was run")
        return
    for line in log.read_text().splitlines():
        count(tally, build_name, json.loads(line), pattern)


def count(tally: Tally, build_name: str, result: dict[str, Any], pattern: str) -> None:
    name = f"{build_name}: {result['name']}"
    output = str(result.get("stdout", "")) + str(result.get("stderr", ""))
    cases = re.findall(r"^(not ok|ok) \d+ - (.*)$", output, re.M)
    skips = re.findall(r"^(?:not )?ok \d+ # SKIP (.*)$", output, re.M)  # cmocka says `not ok` of them
    tally.skipped += [f"{name}: {case}" for case in skips if pattern in f"{name}: {case}"]
    if result["result"] == "SKIP":
        tally.skipped.append(name)
    elif not cases:
        if pattern in name:
            tally.add(name, result["result"] in ("OK", "EXPECTEDFAIL"), output)
    else:
        for verdict, case in cases:
            if pattern in f"{name}: {case}":
                tally.add(f"{name}: {case}", verdict == "ok", output)
        is_good = result["result"] in ("OK", "EXPECTEDFAIL") or (result["result"] == "FAIL" and skips)
        if not is_good and all(verdict == "ok" for verdict, _ in cases):
            tally.add(name, False, f"{result['result']}: {output}")  # died after its last test


class Result(unittest.TestResult):
    """Feeds a Tally; shows each test's name, time and, when it fails, what it printed."""

    def __init__(self, tally: Tally):
        super().__init__()
        self.tally = tally

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.monotonic()
        print(f"  {test.id()} ...", end="", flush=True)

    def _end(self, word: str) -> None:
        print(f" {word} {time.monotonic() - self.began:.1f} s", flush=True)

    began = 0.0  # an error of setUpClass comes before any start

    def addSuccess(self, test: unittest.TestCase) -> None:
        self._end("ok")
        self.tally.add(test.id(), True)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self._end("FAILED")
        self.tally.add(test.id(), False, self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    addError = addFailure

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        if err is not None:
            self.tally.add(subtest.id(), False, self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self._end("skipped")
        self.tally.skipped.append(f"{test.id()}: {reason}")


def proc(tally: Tally, pattern: str, everything: bool) -> None:
    print("tests of real processes ...", flush=True)
    os.environ.setdefault("DASER_BIN_DIR", str(ROOT / "build" / "bin"))
    os.environ["DASER_TEST_ALL"] = "1" if everything else ""
    sys.path.insert(0, str(ROOT / "tests"))
    suite = unittest.defaultTestLoader.discover(str(ROOT / "tests" / "proc"), pattern="test_*.py",
                                                top_level_dir=str(ROOT / "tests"))
    result = Result(tally)
    unittest.TestSuite(case for case in flatten(suite) if pattern in case.id()).run(result)


def flatten(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    cases: list[unittest.TestCase] = []
    for item in suite:
        cases += flatten(item) if isinstance(item, unittest.TestSuite) else [item]
    return cases
