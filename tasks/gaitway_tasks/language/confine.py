"""Gives up, for good, what a program that may do anything must not have; then runs it.

Run as a script by :mod:`~gaitway_tasks.language.sandbox`, so it imports nothing of ours. Only for Linux on x86-64 and
arm64. In force afterwards:

- system calls by an allow-list (seccomp): no network, no new processes, no writing, no change to a file, no signal to
  another process. Only memory, threads, time, random numbers, reading files and the three standard streams are left.
- file access by an allow-list (Landlock, where the kernel has it): Python's own folders and the working folder.
- limits of processor time, memory and open files; and it ends with the process that started it.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import resource
import struct
import sys
import traceback

ALLOWED = {
    "x86_64": (
        "0 1 3 4 5 6 7 8 9 10 11 12 13 14 15 17 18 19 20 21 22 23 24 25 28 32 33 35 36 38 39 45 60 63 79 89 96 97 98 "
        "99 100 102 104 107 108 110 131 137 138 186 201 202 204 217 218 219 228 229 230 231 232 233 262 267 269 270 "
        "271 273 274 281 290 291 292 293 309 318 324 332 334 439"
    ),
    "aarch64": (
        "17 19 20 21 22 23 24 43 44 48 57 59 61 62 63 64 65 66 67 68 72 73 78 79 80 93 94 96 98 99 100 101 102 103 "
        "113 114 115 123 124 128 132 134 135 139 153 160 163 165 168 169 172 173 174 175 176 177 178 179 207 214 215 "
        "216 222 226 233 278 283 291 293 439"
    ),
}
"""Numbers of the calls that are harmless whatever their arguments, of each machine's table of system calls."""

CONDITIONAL = {
    # name: (x86-64, arm64)
    "open": (2, None),
    "openat": (257, 56),
    "clone": (56, 220),
    "clone3": (435, 435),
    "prlimit64": (302, 261),
    "tgkill": (234, 131),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "socketpair": (53, 199),
    "sendto": (44, 206),
}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_EPERM, _ENOSYS = 1, 38
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_LOAD, _EQUAL, _ABOVE, _ANY_OF, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_CLONE_THREAD = 0x00010000
_DUPLICATE_CLOSING = 1030
_TERMINAL_SIZE, _TERMINAL_MODE, _NON_BLOCKING = 0x5413, 0x5401, 0x5421

_libc = ctypes.CDLL(None, use_errno=True)


class Unconfined(RuntimeError):
    """The system lacks what confinement needs."""


def _writing() -> int:
    """Flags of an open call that do more than read: O_WRONLY, O_RDWR, O_CREAT, O_TRUNC, O_APPEND, O_TMPFILE."""
    return os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | (os.O_TMPFILE & ~os.O_DIRECTORY)


def _filter(machine: str) -> list[tuple[int, int, int, int]]:
    """The filter as instructions of the classic Berkeley packet filter: code, jumps if true and false, operand."""
    number, architecture = 0, 4

    def low(argument: int) -> int:
        return 16 + 8 * argument

    def allow_if(test: tuple[int, int, int, int], *loads: tuple[int, int, int, int]) -> list[tuple[int, int, int, int]]:
        """Return ALLOW if the test, whose true jump is 0, holds of what the loads leave; else EPERM."""
        return [*loads, test, (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | _EPERM)]

    def load(offset: int) -> tuple[int, int, int, int]:
        return (_LOAD, 0, 0, offset)

    def null(argument: int) -> list[tuple[int, int, int, int]]:
        """Allow if a pointer is null."""
        return [
            load(low(argument)),
            (_EQUAL, 0, 3, 0),
            *allow_if((_EQUAL, 0, 1, 0), load(low(argument) + 4)),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
        ]

    cases = {
        "open": allow_if((_ANY_OF, 1, 0, _writing()), load(low(1))),
        "openat": allow_if((_ANY_OF, 1, 0, _writing()), load(low(2))),
        "clone": allow_if((_ANY_OF, 0, 1, _CLONE_THREAD), load(low(0))),
        "clone3": [(_RETURN, 0, 0, _ERRNO | _ENOSYS)],  # its flags are out of sight; libraries fall back to clone
        "prlimit64": null(2),
        "tgkill": allow_if((_EQUAL, 0, 1, os.getpid()), load(low(0))),
        # Duplicates and flags; not the commands that let a file send signals to others.
        "fcntl": [
            load(low(1)),
            (_ABOVE, 0, 1, 4),
            (_EQUAL, 0, 1, _DUPLICATE_CLOSING),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
        ],
        "ioctl": [
            load(low(1)),
            (_EQUAL, 2, 0, _TERMINAL_SIZE),
            (_EQUAL, 1, 0, _NON_BLOCKING),
            (_EQUAL, 0, 1, _TERMINAL_MODE),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | _EPERM),
        ],
        # Two connected ends within the process, as asyncio makes; datagrams could be sent elsewhere.
        "socketpair": allow_if((_EQUAL, 0, 1, 1), load(low(1)), (_AND, 0, 0, 0xF)),
        "sendto": null(4),
    }
    found = [load(architecture), (_EQUAL, 1, 0, AUDIT[machine]), (_RETURN, 0, 0, _KILL), load(number)]
    for call in ALLOWED[machine].split():
        found += [(_EQUAL, 0, 1, int(call)), (_RETURN, 0, 0, _ALLOW)]
    for name, case in cases.items():
        call_number = CONDITIONAL[name][list(AUDIT).index(machine)]
        if call_number is not None:
            found += [(_EQUAL, 0, len(case), call_number), *case]
    return [*found, (_RETURN, 0, 0, _ERRNO | _EPERM)]


def restrict_calls() -> None:
    """Allow only the system calls above, from now on, to this process; raises :class:`Unconfined`."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in AUDIT:
        raise Unconfined(
            f"programs can be confined on Linux with x86-64 or arm64 only, not on {sys.platform} {machine}"
        )
    instructions = b"".join(struct.pack("HBBI", *line) for line in _filter(machine))
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    program = struct.pack("HxxxxxxP", len(instructions) // 8, ctypes.addressof(buffer))
    no_new_privileges, set_seccomp, mode_filter = 38, 22, 2
    if _libc.prctl(no_new_privileges, 1, 0, 0, 0) or _libc.prctl(set_seccomp, mode_filter, program, 0, 0):
        raise Unconfined(f"the kernel takes no system-call filter: {os.strerror(ctypes.get_errno())}")


def restrict_files(readable: list[str]) -> bool:
    """Allow reading beneath these paths only, from now on; False on a kernel without Landlock."""
    create, add, restrict, version = 444, 445, 446, 1
    abi = _libc.syscall(create, None, ctypes.c_size_t(0), ctypes.c_uint32(version))
    if abi < 1:
        return False
    rights = {1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)
    fields = [(1 << rights) - 1, *([3] if abi >= 4 else []), *([3] if abi >= 6 else [])]  # files, TCP, signals
    ruleset = struct.pack(f"{len(fields)}Q", *fields)
    handle = _libc.syscall(create, ruleset, ctypes.c_size_t(len(ruleset)), ctypes.c_uint32(0))
    if handle < 0:
        raise Unconfined(f"Landlock: {os.strerror(ctypes.get_errno())}")
    read_file, read_folder = 4, 8
    for path in readable:
        try:
            opened = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not every system has every one of them
        access = read_file | (read_folder if os.path.isdir(path) else 0)
        rule = struct.pack("=Qi", access, opened)
        if _libc.syscall(add, handle, ctypes.c_int(1), rule, ctypes.c_uint32(0)):
            raise Unconfined(f"Landlock: {path}: {os.strerror(ctypes.get_errno())}")
        os.close(opened)
    _libc.prctl(38, 1, 0, 0, 0)
    if _libc.syscall(restrict, handle, ctypes.c_uint32(0)):
        raise Unconfined(f"Landlock: {os.strerror(ctypes.get_errno())}")
    os.close(handle)
    return True


def end_with(parent: int) -> None:
    """Have the kernel kill this process when the one that started it dies, or now if it is dead already."""
    death_signal, kill = 1, 9
    _libc.prctl(death_signal, kill, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def main() -> None:
    """Confine this process as the first argument says, report on the file the second names, and run ``program.py``."""
    options, report = json.loads(sys.argv[1]), os.fdopen(int(sys.argv[2]), "w")
    end_with(options["parent"])
    sys.path[:] = [*[path for path in sys.path if path != os.path.dirname(__file__)], *options["packages"]]
    sys.argv = ["program.py"]
    with open("program.py", encoding="utf-8") as file:
        source = file.read()
    cpu, memory = options["cpu"], options["memory"]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        files = restrict_files([*options["readable"], os.getcwd()])
        restrict_calls()
    except Unconfined as error:
        report.write(f"error {error}")
        return
    report.write("files and calls" if files else "calls")
    report.close()
    space = {"__name__": "__main__", "__builtins__": __builtins__}
    try:
        exec(compile(source, "program.py", "exec"), space)
    except SystemExit:
        raise
    except BaseException as error:
        trace = error.__traceback__
        traceback.print_exception(type(error), error, trace.tb_next if trace else None)
        sys.exit(1)


if __name__ == "__main__":
    main()
