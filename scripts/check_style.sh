#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The style guide's executable half: reads every file that git tracks or would track, prints
# `file:line: rule: text` for each hit and exits 1 if there is one (2: it could not run).
#
#   scripts/check_style.sh              check the checkout
#   scripts/check_style.sh --self-test  feed each rule bad samples and prove that it fires
#   scripts/check_style.sh --rules      list the rules
#
# A rule may be broken beside a comment that says why, on the same line or up to two lines above:
#   /* style-ok: RULE: reason */
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
command -v python3 >/dev/null || { echo "check_style.sh: python3 is not installed" >&2; exit 2; }
exec python3 - "$@" <<'PY'
import ast
import io
import re
import shutil
import subprocess
import sys
import tempfile
import tokenize
from pathlib import Path

SELF = "scripts/check_style.sh"  # names what it forbids
MAX_FILE, MAX_FUNCTION = 600, 80
C_SUFFIXES = (".c", ".h", ".cu", ".def")
CODE_SUFFIXES = C_SUFFIXES + (".py", ".sh")
BUILD_FILES = ("meson.build", "meson_options.txt", "meson.options")
SPDX = re.compile(r"SPDX-License-Identifier: Apache-2\.0\b")
STYLE_OK = re.compile(r"style-ok: ([\w-]+): \S.{7,}")
GENERATED = re.compile(r"\bgenerated (?:by|from)\b", re.I)

# Who may include whom: directory prefix -> prefixes. The longest prefix counts; a role (any other
# folder of actors/) may include itself and ROLE_MAY. Folders not named here may include anything.
LAYERS = {
    "include/": ("include/",),
    "shm/": ("shm/", "include/"),
    "actors/rt/": ("actors/rt/", "shm/", "include/"),
    "actors/tier/": ("actors/tier/", "actors/rt/", "shm/", "include/"),
    "actors/mover/": ("actors/mover/", "actors/rt/", "shm/", "include/"),
    "actors/load/": ("actors/load/", "actors/mover/", "actors/tier/", "actors/rt/", "shm/", "include/"),
    "actors/store/": ("actors/store/", "actors/mover/", "actors/tier/", "actors/rt/", "shm/", "include/"),
    "actors/all/": ("actors/", "shm/", "include/"),  # every role as a thread of one process
    "connector/native/": ("connector/native/", "actors/rt/", "shm/", "include/"),
    "connector/scheduler/": ("connector/scheduler/", "connector/native/", "include/"),
    "connector/worker/": ("connector/worker/", "connector/native/", "include/"),
    "connector/replay/": ("connector/replay/", "connector/native/", "actors/rt/", "shm/", "include/"),
}
ROLE_MAY = ("actors/tier/", "actors/rt/", "shm/", "include/")
INCLUDE_DIRS = ("", "include/", "shm/", "actors/", "actors/rt/", "actors/mover/", "connector/", "connector/native/")

SERVICE = r"(?:actors|shm|include|connector/native)/"  # what runs in an actor or in the engine
TEXT_OUT = r"(?:daserctl|ctl|replay|sim|tools|fsck)"   # programs whose output is stdout


def call(*names):
    return r"\b(?:" + "|".join(names) + r")\s*\("


# rule, meaning, pattern, files, files excepted. Searched in code: comments and strings are blanked.
CODE_RULES = [
    ("forbidden-call", "unbounded, locale-bound or shell-starting libc call",
     call("strcpy", "stpcpy", "strcat", "v?sprintf", "gets", "ato(?:i|l|ll|f)", "strtok", "usleep", "system"),
     r"\.(?:c|h|cu)$", None),
    ("fork", "CUDA and ZeroMQ do not survive fork: posix_spawn or fork in the supervisor",
     call("v?fork"), rf"^{SERVICE}.*\.[ch]$", None),
    ("sleep", "wait for an event with a deadline",
     call("sleep", "nanosleep", "clock_nanosleep"), r"\.(?:c|h|cu)$", None),
    ("sleep", "wait for an event with a deadline",
     r"\btime\.sleep\s*\(|(?<![\w.])sleep\s*\(", r"^tests/.*\.py$", None),
    ("sleep", "wait for an event with a deadline",
     r"(?:^|[;&|({]|\b(?:do|then|else))\s*sleep\s", r"^tests/.*\.sh$", None),
    ("cuda-driver-call", "CUDA driver calls stand in shm/device_cuda.c alone",
     r"\bcu[A-Z]\w*\s*\(", r"\.[ch]$", r"^shm/device_cuda\.c$"),
    ("zmq", "ZeroMQ stands in actors/rt and its tests alone",
     r"\bzmq_\w+|<zmq\.h>", r"\.[ch]$", r"^(?:actors|tests/unit)/rt/"),
    ("device-wide-sync", "wait for one stream or event, never for a device",
     r"\bcuCtxSynchronize\b|\bcudaDeviceSynchronize\b|\btorch\.(?:cuda|accelerator)\.synchronize\b",
     r"\.(?:c|h|cu|def|py|sh)$", None),
    ("stdout", "processes write to fd 2 only, through dsr_log",
     call("v?printf", "puts", "putchar") + r"|\bstdout\b|\bSTDOUT_FILENO\b|\bdprintf\s*\(\s*1\b",
     rf"^{SERVICE}.*\.[ch]$", rf"(?:^|/)(?:[\w-]*_)?{TEXT_OUT}(?:[/_.]|$)"),
    ("struct-typedef", "struct tags, no typedefs of structs",
     r"\btypedef\s+(?:struct|union)\b", r"\.(?:c|h|cu)$", None),
    ("role-import", "connector/scheduler and connector/worker never import each other",
     r"^\s*(?:from|import)\s+(?:\.\.|(?:daser\.)?connector\.)worker\b"
     r"|^\s*from\s+(?:\.\.|(?:daser\.)?connector)\s+import\b.*\bworker\b", r"^connector/scheduler/.*\.py$", None),
    ("role-import", "connector/scheduler and connector/worker never import each other",
     r"^\s*(?:from|import)\s+(?:\.\.|(?:daser\.)?connector\.)scheduler\b"
     r"|^\s*from\s+(?:\.\.|(?:daser\.)?connector)\s+import\b.*\bscheduler\b", r"^connector/worker/.*\.py$", None),
]
# The same, searched in the text as it stands. Character classes: this file is searched by others.
TEXT_RULES = [
    ("todo", "an unfinished place needs an issue number (#N)",
     r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b(?!.*#\d)", r"\.(?:c|h|cu|def|py|sh)$|(?:^|/)meson", None),
    ("machine-path", "a path of one machine, or outside the repository",
     r"(?<![\w.~-])/(?:wor[k]|roo[t]|far[m])/|\.\./share[d]\b", r"", None),
    ("trailing-whitespace", "white space at the end of a line", r"[ \t\r]+$", r"", r"^tests/golden/|^LICENSE$"),
]
OTHER_RULES = {
    "comment": "/* */ comments only in C",
    "include-direction": "role -> actors/tier, actors/mover -> actors/rt -> shm -> include; native -> rt, shm, include",
    "spdx": "the SPDX line comes first (after #!)",
    "file-length": f"at most {MAX_FILE} lines, unless generated",
    "function-length": f"at most {MAX_FUNCTION} lines, unless generated",
    "format": "clang-format 14 with the repository's .clang-format",
}
TOKEN = re.compile(
    r'/\*.*?(?:\*/|\Z)|//(?:\\\n|[^\n])*|"(?:\\.|[^"\\\n])*"?|\'(?:\\.|[^\'\\\n])*\'?', re.S)
COMPILED = [(n, re.compile(p), re.compile(f), re.compile(x) if x else None, raw)
            for rules, raw in ((CODE_RULES, False), (TEXT_RULES, True)) for n, _, p, f, x in rules]


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def c_code(text):
    """C without comments and the insides of strings; also the lines of // comments."""
    slashes = []

    def replace(match):
        token = match.group()
        if token.startswith("//"):
            slashes.append(text.count("\n", 0, match.start()) + 1)
        return token[0] + blank(token[1:-1]) + token[-1] if token[0] in "\"'" else blank(token)

    return TOKEN.sub(replace, text), slashes


def python_code(text):
    """Python without comments and strings; the text itself where it cannot be read."""
    lines = text.splitlines(keepends=True)
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.COMMENT, tokenize.STRING):
                (first, start), (last, end) = token.start, token.end
                for n in range(first - 1, last):
                    a, b = start if n == first - 1 else 0, end if n == last - 1 else len(lines[n])
                    lines[n] = lines[n][:a] + blank(lines[n][a:b]) + lines[n][b:]
    except (tokenize.TokenError, SyntaxError):
        return text
    return "".join(lines)


def shell_code(text):
    return re.sub(r"(?m)(^|\s)#.*$", r"\1", text)


def layer(path):
    """The prefix of `path` and what it may include; None where that is not limited."""
    for prefix in sorted(LAYERS, key=len, reverse=True):
        if path.startswith(prefix):
            return LAYERS[prefix]
    role = re.match(r"actors/[^/]+/", path)
    return (role.group(),) + ROLE_MAY if role else None


def include_hits(path, text, code, paths):
    may = layer(path)
    if may is None:
        return
    folder = path.rpartition("/")[0] + "/"
    for n, (raw, bare) in enumerate(zip(text.split("\n"), code.split("\n")), 1):
        match = re.match(r'\s*#\s*include\s*"([^"]+)"', raw)
        if not match or "#" not in bare:
            continue
        for base in (folder,) + INCLUDE_DIRS:
            target = re.sub(r"[^/]+/\.\./", "", base + match.group(1))
            if target in paths:
                if not target.startswith(may):
                    yield n, "include-direction", raw.strip()
                break


def function_hits(path, text, code):
    if path.endswith(".py"):
        try:
            tree = ast.parse(text)
        except SyntaxError as err:
            yield err.lineno or 1, "function-length", f"cannot be parsed: {err.msg}"
            return
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION:
                    yield node.lineno, "function-length", f"{node.name} has {length} lines"
        return
    start = None
    for n, line in enumerate(code.split("\n"), 1):
        if line.startswith("{"):  # clang-format: only a function's brace stands in column 0
            start = n
        elif line.startswith("}") and start:
            if n - start - 1 > MAX_FUNCTION:
                yield start, "function-length", f"{n - start - 1} lines between the braces"
            start = None


def file_hits(path, text, paths):
    """Every hit in one file, exemptions not yet applied: (line, rule, text)."""
    is_c = path.endswith(C_SUFFIXES)
    raw_lines = text.split("\n")
    shebang = text.startswith("#!")
    kind = path  # as if it had the suffix of its language
    if shebang and not path.endswith(CODE_SUFFIXES):
        kind += ".py" if "python" in raw_lines[0] else ".sh"
    code, slashes = text, []
    if is_c:
        code, slashes = c_code(text)
    elif kind.endswith(".py"):
        code = python_code(text)
    elif kind.endswith(".sh"):
        code = shell_code(text)
    code_lines = code.split("\n")
    for rule, pattern, files, excepted, raw in COMPILED:
        if path == SELF or not files.search(kind) or excepted and excepted.search(path):
            continue
        for n, line in enumerate(raw_lines if raw else code_lines, 1):
            if pattern.search(line):
                yield n, rule, raw_lines[n - 1].strip()
    for n in slashes:
        yield n, "comment", raw_lines[n - 1].strip()
    if is_c:
        yield from include_hits(path, text, code, paths)
    if not (kind.endswith(CODE_SUFFIXES) or path.rpartition("/")[2] in BUILD_FILES):
        return
    head = raw_lines[:2] if shebang else raw_lines[:1]
    if text and not any(SPDX.search(line) for line in head):
        yield 1, "spdx", raw_lines[0].strip()
    if path.endswith(".def") or any(GENERATED.search(line) for line in raw_lines[:5]):
        return
    if text.count("\n") > MAX_FILE:
        yield MAX_FILE + 1, "file-length", f"{text.count(chr(10))} lines"
    if is_c or kind.endswith(".py"):
        yield from function_hits(kind, text, code)


def is_exempt(lines, n, rule):
    near = lines[max(0, n - 3):n]
    return any(m.group(1) == rule for line in near for m in STYLE_OK.finditer(line))


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        tool = shutil.which(name)
        if tool and " version 14." in subprocess.run([tool, "--version"], capture_output=True, text=True).stdout:
            return tool
    return None


def format_hits(tool, root, paths):
    names = [p for p in sorted(paths) if p.endswith((".c", ".h"))]
    if not names:
        return
    run = subprocess.run([tool, "--dry-run", "--style=file", *names], cwd=root, capture_output=True, text=True)
    places = {}
    for line in run.stderr.splitlines():
        match = re.match(r"([^:\s]+):(\d+):\d+: \w+: ", line)
        if match:
            places.setdefault(match.group(1), []).append(int(match.group(2)))
    for path, lines in places.items():
        yield path, lines[0], "format", f"{len(lines)} places are not as `clang-format -i` writes them"
    if run.returncode:
        raise SystemExit(f"check_style.sh: {tool} failed: {run.stderr.strip()[:500]}")


def check(files, root, tool):
    """All hits in files (path -> text) below root, and the number of exempted ones."""
    hits, exempted = set(), 0
    for path, text in files.items():
        lines = text.split("\n")
        for n, rule, what in file_hits(path, text, files):
            if is_exempt(lines, n, rule):
                exempted += 1
            else:
                hits.add((path, n, rule, what))
    if tool:
        hits.update(format_hits(tool, root, files))
    return sorted(hits), exempted


def repository_files():
    run = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                         capture_output=True, check=False)
    if run.returncode:
        raise SystemExit("check_style.sh: this is no git checkout: " + run.stderr.decode().strip())
    files = {}
    for name in filter(None, run.stdout.decode().split("\0")):
        path = Path(name)
        if path.is_symlink() or not path.is_file():
            continue
        data = path.read_bytes()
        if b"\0" in data[:8192]:
            continue
        try:
            files[name] = data.decode()
        except UnicodeDecodeError:
            continue
    return files


# ---- self test ----
C = "/* SPDX-License-Identifier: Apache-2.0 */\n"
P = "# SPDX-License-Identifier: Apache-2.0\n"
WORK, SHARED = "/wor" + "k/x", "../share" + "d/x"
LONG_C = C + "int f(void)\n{\n" + "\tg();\n" * (MAX_FUNCTION + 1) + "}\n"
BAD = [
    *(("forbidden-call", "shm/a.c", C + f"int x = {name}(p, q);\n") for name in
      ("strcpy", "strcat", "sprintf", "vsprintf", "atoi", "strtok", "usleep", "system")),
    ("fork", "actors/load/a.c", C + "int x = fork();\n"),
    ("fork", "connector/native/a.c", C + "int x = vfork();\n"),
    ("sleep", "actors/load/a.c", C + "int x = sleep(1);\n"),
    ("sleep", "tests/unit/test_a.c", C + "int x = nanosleep(&t, NULL);\n"),
    ("sleep", "tests/proc/test_a.py", P + "time.sleep(0.1)\n"),
    ("sleep", "tests/proc/a.sh", P + "while x; do sleep 1; done\n"),
    ("cuda-driver-call", "actors/load/a.c", C + "int x = cuMemAlloc(&p, 1);\n"),
    ("cuda-driver-call", "shm/device_host.c", C + "int x = cuInit (0);\n"),
    ("zmq", "actors/load/a.c", C + "void *x = zmq_ctx_new();\n"),
    ("zmq", "connector/native/a.c", C + "#include <zmq.h>\n"),
    ("device-wide-sync", "shm/device_cuda.c", C + "int x = cuCtxSynchronize();\n"),
    ("device-wide-sync", "connector/native/kernels.cu", C + "int x = cudaDeviceSynchronize();\n"),
    ("device-wide-sync", "connector/worker/a.py", P + "torch.cuda.synchronize()\n"),
    ("stdout", "actors/load/a.c", C + 'int x = printf("a");\n'),
    ("stdout", "actors/rt/log.c", C + 'int x = fprintf(stdout, "a");\n'),
    ("stdout", "shm/a.c", C + 'int x = puts("a");\n'),
    ("struct-typedef", "shm/a.h", C + "typedef struct a a_t;\n"),
    ("role-import", "connector/scheduler/a.py", P + "from ..worker import runtime\n"),
    ("role-import", "connector/scheduler/a.py", P + "import daser.connector.worker.runtime\n"),
    ("role-import", "connector/worker/a.py", P + "from daser.connector import scheduler\n"),
    ("comment", "shm/a.c", C + "int x; // why\n"),
    ("comment", "include/a.def", C + "A(1) // why\n"),
    ("include-direction", "shm/a.c", C + '#include "rt/loop.h"\n'),
    ("include-direction", "include/a.h", C + '#include "shm/pool.h"\n'),
    ("include-direction", "actors/rt/a.c", C + '#include "actors/load/load.h"\n'),
    ("include-direction", "actors/tier/a.c", C + '#include "actors/load/load.h"\n'),
    ("include-direction", "actors/store/a.c", C + '#include "actors/load/load.h"\n'),
    ("include-direction", "actors/store/a.c", C + '#include "../load/load.h"\n'),
    ("include-direction", "actors/mover/a.c", C + '#include "actors/load/load.h"\n'),
    ("include-direction", "actors/scheduler/a.c", C + '#include "mover.h"\n'),
    ("include-direction", "connector/native/a.c", C + '#include "actors/tier/tier.h"\n'),
    ("include-direction", "connector/scheduler/a.c", C + '#include "connector/worker/w.h"\n'),
    ("spdx", "shm/a.c", "int x;\n"),
    ("spdx", "scripts/a", "#!/bin/sh\n\n" + P),
    ("spdx", "meson.build", "project('x')\n"),
    ("todo", "shm/a.c", C + "/* TOD" + "O: later */\n"),
    ("todo", "scripts/a", "#!/usr/bin/env python3\n" + P + "# TOD" + "O\n"),
    ("todo", "scripts/a.py", P + "# FIXM" + "E\n"),
    ("machine-path", "docs/a.md", f"see {WORK}\n"),
    ("machine-path", "tests/a.py", P + f'T = "{SHARED}"\n'),
    ("machine-path", "scripts/a.sh", P + "cd /roo" + "t/x\n"),
    ("trailing-whitespace", "docs/a.md", "a \n"),
    ("trailing-whitespace", "shm/a.c", C + "int x;\t\n"),
    ("file-length", "shm/a.c", C + "int x;\n" * MAX_FILE),
    ("file-length", "scripts/a", "#!/bin/sh\n" + P + ":\n" * MAX_FILE),
    ("function-length", "shm/a.c", LONG_C),
    ("function-length", "scripts/a.py", P + "def f():\n" + "    g()\n" * MAX_FUNCTION),
    ("fork", "actors/load/a.c", C + "/* style-ok: zmq: another rule than this */\nint x = fork();\n"),
    ("fork", "actors/load/a.c", C + "/* style-ok: fork: */\nint x = fork();\n"),
    ("format", "shm/a.c", C + "int  x ;\n"),
]
GOOD = [
    ("shm/a.c", C + 'int x = snprintf(b, 4, "system(1) // %s", strtok_r(a, b, c));\n'),
    ("shm/a.c", C + "/* strcpy(a, b); // fork()\n * sleep(1) */\nchar c = '\"'; /* atoi(x) */\n"),
    ("shm/a.c", C + 'char *t = "a-XXXXXX";\nchar *u = "http://127.0.0.1";\n'),
    ("shm/a.c", C + "/* TOD" + "O(#12): later */\n"),
    ("shm/device_cuda.c", C + "int x = cuInit(0);\n"),
    ("connector/native/kernels.cu", C + "int x = cuInit(0);\n"),
    ("actors/rt/link.c", C + "#include <zmq.h>\nvoid *x = zmq_ctx_new();\n"),
    ("actors/store/a.c", C + '#include "actors/tier/tier.h"\n#include "rt/loop.h"\n#include "a.def"\n'),
    ("actors/load/a.c", C + '#include "mover.h"\n'),
    ("actors/all/all.c", C + '#include "actors/load/load.h"\n'),
    ("tests/unit/a.c", C + '#include "actors/load/load.h"\nint x = printf("a");\n'),
    ("actors/ctl/daserctl.c", C + 'int x = printf("a");\n'),
    ("shm/a.h", C + "int f(int, ...) __attribute__((format(printf, 1, 2)));\n"),
    ("shm/table.c", C + "/* generated by gen.py */\n" + "int x;\n" * MAX_FILE),
    ("connector/worker/a.py", P + '"""Never torch.cuda.synchronize()."""\nfrom vllm.v1 import scheduler\n'),
    ("actors/load/a.c", C + "/* style-ok: fork: followed by exec at once */\nint x = fork();\n"),
    ("shm/a.c", C + "int f(void)\n{\n" + "\tg();\n" * MAX_FUNCTION + "}\n"),
]
TREE = {p: C for p in ("actors/rt/loop.h", "actors/load/load.h", "actors/mover/mover.h", "actors/tier/tier.h", "shm/pool.h",
                       "connector/worker/w.h", "include/a.def")}


def self_test():
    tool, failures, fired = clang_format(), [], set()
    for expected, path, text in BAD + [(None, *good) for good in GOOD]:
        if expected == "format":
            if not tool:
                continue
            with tempfile.TemporaryDirectory() as root:
                shutil.copy(".clang-format", root)
                (Path(root) / "shm").mkdir()
                (Path(root) / path).write_text(text)
                hits, _ = check({path: text}, root, tool)
        else:
            hits, _ = check({**TREE, path: text}, ".", None)
        got = {rule for where, _, rule, _ in hits if where == path}
        fired |= got & {expected}
        if got != ({expected} if expected else set()):
            failures.append(f"{path}: expected {expected or 'no hit'}, got {sorted(got) or 'no hit'}: {text[-70:]!r}")
    silent = set(rules()) - fired - (set() if tool else {"format"})
    failures += [f"no bad sample makes {rule} fire" for rule in sorted(silent)]
    print("\n".join(failures), end="\n" if failures else "")
    print(f"check_style.sh: self test: {len(BAD) + len(GOOD)} samples, {len(fired)} rules fired, "
          f"{len(failures)} failures" + ("" if tool else "; clang-format 14 is not installed: format not tried"))
    return 1 if failures else 0


def rules():
    return {**{n: m for n, m, *_ in CODE_RULES + TEXT_RULES}, **OTHER_RULES}


def main(args):
    if args == ["--self-test"]:
        return self_test()
    if args == ["--rules"]:
        print("\n".join(f"{name:20} {meaning}" for name, meaning in rules().items()))
        return 0
    if args:
        print(f"check_style.sh: unknown argument `{args[0]}`: expected --self-test, --rules or nothing",
              file=sys.stderr)
        return 2
    tool, files = clang_format(), repository_files()
    hits, exempted = check(files, ".", tool)
    for path, n, rule, what in hits:
        print(f"{path}:{n}: {rule}: {what[:120]}")
    print(f"check_style.sh: {len(files)} files, {len(hits)} hits, {exempted} exempted"
          + ("" if tool else "; clang-format 14 is not installed: format not checked"))
    return 1 if hits else 0


try:
    sys.exit(main(sys.argv[1:]))
except SystemExit as err:
    if isinstance(err.code, str):
        print(err.code, file=sys.stderr)
        sys.exit(2)
    raise
PY
