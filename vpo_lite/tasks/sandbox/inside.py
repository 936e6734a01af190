"""The part of the sandbox that stands inside of it: it shuts itself in, and runs one answer.

It is started as a script, in a process of its own, and imports little: a step of training starts it
thousands of times. Standard input holds the length of a request, the request, and what the answer
itself will read.

1. It leaves the files of the machine (or a tool has done so already, see ``shut``).
2. It forks. The parent only waits, and ends the answer at its time limit. It is the first process
   of its process namespace: with its end the system ends every process that the answer started.
3. The child takes the limits on itself, gives up all rights and runs the answer.

The parent ends with one of the exit codes below. What the answer wrote is judged elsewhere: nothing
that is expected of it is known in here.
"""

import errno
import io
import marshal
import os
import sys

DONE, FAILED, LATE = 0, 10, 11  # exit codes; any other one means that the sandbox itself failed

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC = 32, 4096, 16384
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
CAPABILITY_VERSION = 0x20080522
# numbers of the system call
KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219}
KEYCTL |= {"ppc64le": 271, "s390x": 280}
KEYCTL_JOIN_SESSION_KEYRING = 1

RECURSION = 50_000  # calls inside of one another
STACK = 64 * 2**20  # bytes; what so many calls may need

KNOWN = {  # names that an answer may use without importing them, as on sites with such problems
    "typing": "Any Callable DefaultDict Deque Dict Generator Iterable Iterator List Optional "
    "Sequence Set Tuple Union",
    "collections": "ChainMap Counter OrderedDict defaultdict deque namedtuple",
    "functools": "cache cmp_to_key lru_cache partial reduce",
    "heapq": "heapify heappop heappush heappushpop heapreplace nlargest nsmallest",
    "itertools": "accumulate chain combinations combinations_with_replacement cycle groupby islice "
    "pairwise permutations product repeat starmap takewhile zip_longest",
    "bisect": "bisect_left bisect_right insort insort_left insort_right",
    "math": "ceil comb factorial floor gcd inf isqrt lcm log log2 log10 perm pi sqrt",
    "string": "ascii_letters ascii_lowercase ascii_uppercase digits",
    **dict.fromkeys(("copy", "datetime", "json", "operator", "random", "re", "sys"), ""),
}


def main() -> int:
    """Serve the one request on standard input; returns the exit code."""
    request = marshal.loads(_read(int(_read(16))))
    if request["shut"] == "here":
        leave(request["stage"], request["places"])
    if request["shut"] == "no":
        limit(request)
        perform(request)
        return DONE
    return supervise(request)


def _read(size: int) -> bytes:
    """So many bytes of standard input, and not one more: the answer reads on from there."""
    parts = []
    while size > 0:
        parts.append(os.read(0, size))
        if not parts[-1]:
            raise EOFError("the request is cut off")
        size -= len(parts[-1])
    return b"".join(parts)


# --- shutting in ----------------------------------------------------------------------------------


def _system(name: str, *values) -> None:
    """Call a function of the C library. Raises OSError where it fails."""
    import ctypes

    function = getattr(ctypes.CDLL(None, use_errno=True), name)
    if function(*(ctypes.c_ulong(v) if isinstance(v, int) else v for v in values)):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None):
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    _system("mount", *texts[:3], flags, texts[3])


def leave(stage: str, places: list[str]) -> None:
    """Enter a new root that holds these folders, to be read only, and ``/dev/null``.

    - stage: a folder to build it on. Only this process sees it changed
    """
    if os.getpid() != 1:  # every mount below would be the machine's own
        raise OSError("this process has no namespaces of its own")
    os.umask(0o022)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # short of memory, the system ends this process first
    for kind, most in (("shmmni", "0"), ("msgmni", "0"), ("sem", "0 0 0 0")):
        try:  # an answer could hold System V's memory without limit: none for this IPC namespace
            with open(f"/proc/sys/kernel/{kind}", "w") as file:
                file.write(most)
        except OSError:  # older kernels let the machine's root alone do so
            pass
    _mount("none", stage, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    for place in places:
        os.makedirs(stage + place, exist_ok=True)
        _mount(place, stage + place, None, MS_BIND | MS_REC)
        for path in _mounted(stage + place):
            kept = os.statvfs(path).f_flag & MS_NOEXEC
            flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | kept
            _mount(None, path, None, flags)
    os.mkdir(f"{stage}/dev")
    open(f"{stage}/dev/null", "w").close()
    _mount("/dev/null", f"{stage}/dev/null", None, MS_BIND)
    _mount(None, stage, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV)
    os.chroot(stage)
    os.chdir("/")


def _mounted(place: str) -> list[str]:
    """A mount and all that are mounted inside of it."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        found = [line.split()[4] for line in file]
    for escaped, sign in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        found = [path.replace(escaped, sign) for path in found]
    return [path for path in found if path == place or path.startswith(f"{place}/")]


def lower(user: int | None) -> None:
    """Give up all rights for good, and become this user where root began."""
    if user is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    _leave_keys()
    version = CAPABILITY_VERSION.to_bytes(4, sys.byteorder)
    _system("capset", version + bytes(4), bytes(24))  # for this process; no capability
    _system("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def _leave_keys() -> None:
    """Leave the session's keys, of Kerberos for one, for a keyring of this process alone."""
    import ctypes
    import time

    machine = os.uname().machine
    if machine not in KEYCTL or sys.maxsize < 2**32:  # 32 bits have numbers of their own
        raise OSError(f"the number of keyctl is not known for {machine}")
    system, end = ctypes.CDLL(None, use_errno=True).syscall, time.monotonic() + 2
    while system(KEYCTL[machine], KEYCTL_JOIN_SESSION_KEYRING, None) < 0:
        failed = ctypes.get_errno()
        if failed in (errno.ENOSYS, errno.EPERM):  # no keys here, or a filter forbids the call
            return
        if failed != errno.EDQUOT:
            raise OSError(failed, f"keyctl: {os.strerror(failed)}")
        if time.monotonic() > end:
            raise OSError(failed, "no room for a keyring; raise kernel.keys.maxkeys or maxbytes")
        time.sleep(0.01)  # keys of ended answers count for a while


def limit(request: dict) -> None:
    """Take the limits on this process, as far as the system has them."""
    try:
        import resource
    except ImportError:  # Windows
        return
    limits = {
        "RLIMIT_CPU": int(request["seconds"]) + 2,
        "RLIMIT_AS": request["memory"],
        "RLIMIT_FSIZE": request["output"],
        "RLIMIT_NOFILE": request["files"],
        "RLIMIT_CORE": 0,
        "RLIMIT_STACK": STACK,
    }
    if request["shut"] != "no":  # elsewhere it would count the user's other processes, too
        limits["RLIMIT_NPROC"] = request["processes"]
    for name, value in limits.items():
        number = getattr(resource, name)
        most = resource.getrlimit(number)[1]
        value = value if most == resource.RLIM_INFINITY else min(value, most)
        try:
            resource.setrlimit(number, (value, most if name == "RLIMIT_STACK" else value))
        except (OSError, ValueError):  # macOS has not all of them
            if request["shut"] != "no":
                raise


# --- the answer -----------------------------------------------------------------------------------


def supervise(request: dict) -> int:
    """Run the answer in a child; returns how it ended, at the time limit at the latest."""
    import select

    _system("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)  # the answer cannot trace this process
    heard, ready = os.pipe()
    child = os.fork()
    if child == 0:
        limit(request)
        lower(request["user"])
        os.write(ready, b"1")
        os.close(ready)
        os.close(heard)
        perform(request)
        return DONE
    os.close(ready)
    if not os.read(heard, 1):
        sys.exit(1)  # the child has said why
    ended = select.poll()
    ended.register(os.pidfd_open(child), select.POLLIN)
    if not ended.poll(1000 * request["seconds"]):
        os._exit(LATE)
    os._exit(FAILED if os.waitpid(child, 0)[1] else DONE)


def perform(request: dict) -> None:
    """Run the answer: a program from standard input to output, or one call of a function.

    An exception ends the process with another status than 0.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 2)
    sys.setrecursionlimit(RECURSION)
    code, release = request["code"], request["harness"] == "release"
    if release:
        code = without_exits(code)
    if request["call"] is None:
        program(code, release)
        return
    import json

    result = os.dup(1)
    os.dup2(nowhere, 1)
    found = call(code, request["call"], request["arguments"])
    written = json.dumps(plain(found)).encode()
    while written:
        written = written[os.write(result, written) :]
    os._exit(0)


def program(code: str, release: bool) -> None:
    """Run a program as the main module; how it exits does not matter.

    release: as the paper's harness does, whose ``sys.stdin`` has no buffer
    """
    if release:
        sys.stdin = _WithoutBuffer(os.fdopen(0, "rb", closefd=False), encoding="utf-8")
    module = _module("__main__")
    try:
        exec(_compiled(code, module), vars(module))
    except SystemExit:
        return


def call(code: str, name: str, arguments: str):
    """What the function returns, a method of ``Solution`` where there is such a class.

    - arguments: one JSON text a line
    """
    import json

    values = [json.loads(line) for line in arguments.split("\n") if line.strip()]
    module = _module("answer")
    exec(_compiled(code, module), vars(module))
    holder = module.Solution() if hasattr(module, "Solution") else module
    return getattr(holder, name)(*values)


def plain(value):
    """The value with lists for its tuples. Raises TypeError for a key that is no text. What JSON
    cannot hold at all is left to ``json.dumps``.

    >>> plain(((1, 2), {"a": (3,)}))
    [[1, 2], {'a': [3]}]
    """
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("JSON would change the keys")
        return {key: plain(item) for key, item in value.items()}
    return value


def without_exits(code: str) -> str:
    """The program without its top-level lines that only call ``exit``.

    >>> without_exits("print(1)\\nexit()\\nprint(2)")
    'print(1)\\nprint(2)'
    """
    if "exit" not in code:
        return code
    import ast

    tree = ast.parse(code)
    kept = [x for x in tree.body if not (isinstance(x, ast.Expr) and _is_exit(x.value))]
    return code if len(kept) == len(tree.body) else ast.unparse(ast.Module(kept, []))


def _is_exit(node) -> bool:
    function = getattr(node, "func", None)  # of a call
    return getattr(function, "id", None) == "exit"


def _module(name: str):
    """A new module in which an answer runs."""
    import builtins

    builtins.exit = builtins.quit = sys.exit  # there is no module site
    module = type(sys)(name)
    sys.modules[name] = module
    return module


def _compiled(code: str, module):
    """The code, ready to run in a module that holds the known names that it uses."""
    compiled = compile(code, "<answer>", "exec", dont_inherit=True)
    used, open_codes = set(), [compiled]
    while open_codes:
        one = open_codes.pop()
        used.update(one.co_names)
        open_codes += [x for x in one.co_consts if hasattr(x, "co_names")]
    for place, names in KNOWN.items():
        wanted = used.intersection(names.split())
        if wanted or place in used:
            made = __import__(place)
            vars(module).update({name: getattr(made, name) for name in wanted}, **{place: made})
    return compiled


class _WithoutBuffer(io.TextIOWrapper):
    """Standard input in the paper's release: text only."""

    @property
    def buffer(self):
        raise AttributeError("buffer")


if __name__ == "__main__":
    sys.exit(main())
