"""Runs a program under the system-call filter and memory rules of a unit, as systemd would.

    python confined.py UNIT PROGRAM ARGUMENT...

The lists of system calls are those of the installed systemd (`systemd-analyze syscall-filter`), the
filter is made with libseccomp, and memory that is both written and executed is refused by the kernel
(PR_SET_MDWE). Not covered: namespaces, capabilities, address families.
"""

import ctypes
import os
import re
import subprocess
import sys
from pathlib import Path

ALLOW, REFUSE = 0x7FFF0000, 0x00050001  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(EPERM)
NO_NEW_PRIVILEGES, NO_WRITE_AND_EXECUTE = 38, 65  # PR_SET_NO_NEW_PRIVS, PR_SET_MDWE


def calls_of(group: str) -> set[str]:
    """All system calls of a group, those of groups in it included."""
    listed = subprocess.run(
        ["systemd-analyze", "syscall-filter", "--no-pager", group],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    names = [line.strip() for line in listed.splitlines() if line.startswith("    ")]
    names = [name for name in names if not name.startswith("#")]
    inner = {call for name in names if name.startswith("@") for call in calls_of(name)}
    return inner | {name for name in names if not name.startswith("@")}


def allowed_by(unit: str) -> set[str]:
    """What the SystemCallFilter= lines of a unit leave."""
    first, *others = re.findall(r"^SystemCallFilter=(.+)$", unit, re.M)
    found = {call for group in first.split() for call in calls_of(group)}
    for line in others:
        assert line.startswith("~"), line
        found -= {call for group in line[1:].split() for call in calls_of(group)}
    return found | calls_of("@default") | {"execve"}


def confine(unit: str) -> None:
    """Put this process under the rules of a unit, for good."""
    kernel = ctypes.CDLL(None, use_errno=True)
    assert kernel.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) == 0
    if "MemoryDenyWriteExecute=yes" in unit:
        assert kernel.prctl(NO_WRITE_AND_EXECUTE, 1, 0, 0, 0) == 0, "needs Linux 6.3"
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    made = ctypes.c_void_p(seccomp.seccomp_init(REFUSE))
    for call in sorted(allowed_by(unit)):
        number = seccomp.seccomp_syscall_resolve_name(call.encode())
        if number >= 0:  # those of other architectures have none
            assert seccomp.seccomp_rule_add(made, ALLOW, number, 0) == 0, call
    assert seccomp.seccomp_load(made) == 0


if __name__ == "__main__":
    confine(Path(sys.argv[1]).read_text())
    os.execv(sys.argv[2], sys.argv[2:])
