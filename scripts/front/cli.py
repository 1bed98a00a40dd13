# SPDX-License-Identifier: Apache-2.0
"""The front command's verbs."""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from . import demo, suite
from .actors import DEATHS_MAX, find_binaries
from .build import ROOT, BuildError, build, ensure_packages, is_clone
from .supervisor import StartError, Supervisor

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING = 0, 1, 2, 3


def default_run_dir() -> str:
    given = os.environ.get("DASER_RUN_DIR")
    if given:
        return given
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return f"{runtime}/daser" if runtime else f"/tmp/daser-{os.getuid()}"


def cache_dir() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "daser"


def ensure_built(yes: bool, quiet: bool = True) -> Path:
    """Binaries: as given or installed, else built in the clone."""
    if is_clone() and "DASER_BIN_DIR" not in os.environ:
        ensure_packages("build", yes)
        if not (ROOT / "build" / "build.ninja").exists():
            print("building in build/ ...", file=sys.stderr, flush=True)
        with_tests = "true" if shutil.which("clang-tidy") or _has_cmocka() else "false"
        return build(ROOT / "build", quiet=quiet, setup=(f"-Dtests={with_tests}",))
    return find_binaries(ROOT)


def _has_cmocka() -> bool:
    return subprocess.run(["pkg-config", "--exists", "cmocka"], check=False).returncode == 0


def read_config(path: str) -> dict[str, str]:
    """Flattens a TOML file into {"l1.size": "1GiB", ...}; values keep their text."""
    try:
        with open(path, "rb") as file:
            tree = tomllib.load(file)
    except OSError as error:
        raise StartError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StartError(f"{path}: not TOML: {error}") from error
    flat: dict[str, str] = {}

    def walk(prefix: str, value: Any) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(f"{prefix}.{key}" if prefix else key, inner)
        elif isinstance(value, bool):
            flat[prefix] = "true" if value else "false"
        elif isinstance(value, list):
            if not all(isinstance(item, str) for item in value):
                raise StartError(f"{path}: `{prefix}`: expected a list of strings, got {value}")
            flat[prefix] = ",".join(value)
        elif isinstance(value, (str, int)):
            flat[prefix] = str(value)
        else:
            raise StartError(f"{path}: `{prefix}`: expected text or an integer, got {value!r}")

    walk("", tree)
    return flat


def split_settings(arguments: list[str]) -> dict[str, str]:
    """--l1-size=1GiB and --l1-size 1GiB -> {"l1-size": "1GiB"}; names are checked by daserctl config."""
    settings: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        if not word.startswith("--"):
            raise StartError(f"unexpected argument `{word}`; a COMMAND comes after `--`")
        name, equals, value = word[2:].partition("=")
        if not equals:
            following = next(words, None)
            if following is None:
                raise StartError(f"`{word}` lacks its value")
            value = following
        settings[name] = value
    return settings


def cmd_up(arguments: list[str]) -> int:
    command: list[str] = []
    if "--" in arguments:
        at = arguments.index("--")
        arguments, command = arguments[:at], arguments[at + 1:]
        if not command:
            raise StartError("no COMMAND after `--`")
    parser = argparse.ArgumentParser(
        prog="daser up", allow_abbrev=False,
        description="Starts an instance here and, when it is ready, COMMAND; ends with COMMAND's exit status, or "
                    "runs until SIGTERM without one. Every setting of docs/interfaces.md is a flag too.")
    parser.add_argument("-c", "--config", metavar="FILE", help="TOML file with settings")
    parser.add_argument("--manual", metavar="ROLE[-DEVICE]", action="append", default=[],
                        help="do not start this actor: it is started by hand, for example under gdb")
    parser.add_argument("--threads", action="store_true", help="run daser-all: all actors as threads of one process")
    parser.add_argument("--fault", metavar="ROLE:SPEC", action="append", default=[],
                        help="arm a fault point of an actor at its first start (daserctl fault --list)")
    parser.add_argument("--deaths-max", type=int, choices=range(1000), default=DEATHS_MAX, metavar="N",
                        help="more deaths of one actor within a minute are a crash loop (%(default)s)")
    parser.add_argument("--yes", action="store_true", help="install missing packages unasked")
    known, rest = parser.parse_known_args(arguments)
    settings = read_config(known.config) if known.config else {}
    for name, value in split_settings(rest).items():
        settings = {key: kept for key, kept in settings.items() if key.replace(".", "-").replace("_", "-") != name}
        settings[name] = value
    run_dir = settings.pop("run-dir", "") or settings.pop("run_dir", "") or default_run_dir()
    settings.pop("run_dir", None)
    faults: dict[str, list[str]] = {}
    for item in known.fault:
        role, _, spec = item.partition(":")
        faults.setdefault(role, []).append(spec)
    return Supervisor(os.path.abspath(run_dir), ensure_built(known.yes), settings, command,
                      manual=frozenset(known.manual), threads=known.threads, faults=faults,
                      deaths_max=known.deaths_max).run()


def cmd_down(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="daser down", description="Stops the instance and waits for its end.")
    parser.add_argument("--run-dir", default=default_run_dir())
    run_dir = parser.parse_args(arguments).run_dir
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        connection.connect(os.path.join(run_dir, "attach.sock"))
    except OSError:
        print(f"daser: nothing runs in `{run_dir}`", file=sys.stderr)
        return EXIT_NOT_RUNNING
    hello = {"op": "hello", "role": "ctl", "device": "", "pid": os.getpid(), "start_ticks": 0, "incarnation": 0,
             "protocol": [1, 0]}
    for request in (hello, {"op": "shutdown"}):
        connection.send(json.dumps(request).encode())
        connection.recv(8192)
    connection.settimeout(60.0)
    try:
        while connection.recv(8192):
            pass
    except TimeoutError:
        print(f"daser: the instance in `{run_dir}` still runs after 60 s", file=sys.stderr)
        return EXIT_FAILED
    except ConnectionResetError:
        pass
    return EXIT_OK


def cmd_status(arguments: list[str]) -> int:
    program = find_binaries(ROOT) / "daserctl"
    try:
        return subprocess.run([program, "status", *arguments], check=False).returncode
    except OSError as error:
        raise StartError(f"{program}: {error.strerror}; build first, or set DASER_BIN_DIR") from error


def run_private(command: list[str], binaries: Path, settings: dict[str, str], **how: Any) -> int:
    """Runs COMMAND beside an instance of its own in a temporary run directory, and removes both. A word {run_dir}
    of COMMAND stands for that directory."""
    run_dir = tempfile.mkdtemp(prefix="daser-")
    try:
        settings = {"metrics-listen": "127.0.0.1:0", "log-level": "warn", **settings}
        command = [run_dir if word == "{run_dir}" else word for word in command]
        return Supervisor(run_dir, binaries, settings, command, announce=False, **how).run()
    finally:
        shutil.rmtree(run_dir, ignore_errors=True)


def cmd_replay(arguments: list[str]) -> int:
    binaries = ensure_built("--yes" in arguments)
    arguments = [word for word in arguments if word != "--yes"]
    program = str(binaries / "daser-replay")
    if any(word.split("=")[0] in ("--run-dir", "--help", "-h", "--version") for word in arguments):
        os.execv(program, [program, *arguments])
    settings: dict[str, str] = {}
    parser = argparse.ArgumentParser(prog="daser replay", add_help=False, allow_abbrev=False)
    parser.add_argument("--l1")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--fault", action="append", default=[])
    known, rest = parser.parse_known_args(arguments)
    if known.l1:
        settings["l1-size"] = known.l1
        rest += ["--l1", known.l1]
    faults: dict[str, list[str]] = {}
    for item in known.fault:
        role, _, spec = item.partition(":")
        faults.setdefault(role, []).append(spec)
    return run_private([program, "--run-dir", "{run_dir}", *rest], binaries, settings, threads=known.threads,
                       faults=faults)


def cmd_demo(arguments: list[str]) -> int:
    return demo.main(arguments, ensure_built, run_private)


def cmd_test(arguments: list[str]) -> int:
    return suite.main(arguments)


def cmd_clean(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="daser clean", description="Removes what was built in the clone.")
    parser.add_argument("--cache", action="store_true", help=f"also {cache_dir()}")
    known = parser.parse_args(arguments)
    for folder in sorted(ROOT.glob("build*")) if is_clone() else []:
        if (folder / "build.ninja").exists() or (folder / "meson-info").exists():
            shutil.rmtree(folder)
    if known.cache:
        shutil.rmtree(cache_dir(), ignore_errors=True)
    return EXIT_OK


VERBS = {
    "up": (cmd_up, "start an instance [-- COMMAND...]"),
    "down": (cmd_down, "stop it"),
    "status": (cmd_status, "what it does now"),
    "replay": (cmd_replay, "a workload against a private instance, every byte checked"),
    "demo": (cmd_demo, "build, start, run a multi-turn workload cold, drain, warm; print a table"),
    "test": (cmd_test, "every test; the last line is `N passed, N failed`"),
    "clean": (cmd_clean, "remove what was built [--cache]"),
}


def main(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("usage: daser VERB [flags]\n")
        for name, (_, text) in VERBS.items():
            print(f"  {name:8} {text}")
        print("\n`daser VERB --help` tells its flags; daserctl looks into a running instance.")
        return EXIT_OK if arguments else EXIT_USAGE
    verb = VERBS.get(arguments[0])
    if verb is None:
        print(f"daser: no verb `{arguments[0]}`, expected one of: {', '.join(VERBS)}", file=sys.stderr)
        return EXIT_USAGE
    try:
        return verb[0](arguments[1:])
    except (StartError, BuildError) as error:
        print(f"daser: {error}", file=sys.stderr)
        return EXIT_USAGE if isinstance(error, StartError) else EXIT_FAILED
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except BrokenPipeError:
        return EXIT_FAILED
