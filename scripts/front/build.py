# SPDX-License-Identifier: Apache-2.0
"""Builds the clone: packages by scripts/packages.sh, then meson and ninja in build/."""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


class BuildError(Exception):
    """Something is missing or does not build; the text says what to do."""


def is_clone() -> bool:
    return (ROOT / "meson.build").exists()


def ensure_packages(group: str, yes: bool) -> None:
    """Installs the missing packages of `group` (build, test) after asking, or unasked with --yes, CI=true or
    no terminal."""
    script = str(ROOT / "scripts" / "packages.sh")
    found = subprocess.run([script, "missing", group], stdout=subprocess.PIPE, text=True, check=False)
    if found.returncode == 3:
        return  # unknown system: it said what is needed, meson says what is not there
    missing = found.stdout.split()
    if not missing:
        return
    print(f"apt will install: {' '.join(missing)}", file=sys.stderr)
    unasked = yes or os.environ.get("CI") == "true" or not sys.stdin or not sys.stdin.isatty()
    if not unasked and input("Install them now? [Y/n] ").strip().lower() not in ("", "y", "yes"):
        raise BuildError("these packages are needed")
    if subprocess.run([script, "install", group], stdout=sys.stderr, check=False).returncode != 0:
        raise BuildError("apt could not install the packages above")


def build(folder: Path, *, quiet: bool, setup: tuple[str, ...] = (),
          environment: dict[str, str] | None = None) -> Path:
    """Configures and builds `folder`; returns its bin folder of links to the executables."""
    output = subprocess.PIPE if quiet else sys.stderr
    steps = [["ninja", "-C", str(folder)]]
    if not (folder / "build.ninja").exists():
        shutil.rmtree(folder, ignore_errors=True)
        steps.insert(0, ["meson", "setup", str(folder), str(ROOT), *setup])
    elif setup:  # it may have been configured for something else: demo builds no tests
        steps.insert(0, ["meson", "configure", str(folder), *setup])
    for step in steps:
        done = subprocess.run(step, stdout=output, stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, **(environment or {})})
        if done.returncode != 0:
            raise BuildError(f"{done.stdout or ''}\n`{' '.join(step)}` failed with {done.returncode}")
    return link_binaries(folder)


def link_binaries(folder: Path) -> Path:
    binaries = folder / "bin"
    binaries.mkdir(exist_ok=True)
    targets = json.loads(subprocess.run(["meson", "introspect", "--targets", str(folder)],
                                        stdout=subprocess.PIPE, text=True, check=True).stdout)
    for target in targets:
        if target["type"] == "executable" and target["name"].startswith("daser"):
            link = binaries / target["name"]
            goal = os.path.relpath(target["filename"][0], binaries)
            if not link.is_symlink() or os.readlink(link) != goal:
                link.unlink(missing_ok=True)
                link.symlink_to(goal)
    return binaries
