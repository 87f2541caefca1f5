#!/usr/bin/env python3
"""Which tests were skipped, and whether that was to be expected on this machine.

    check_skips.py [--list FILE] [--all] JUNIT...

JUNIT is what `ctest --output-junit` writes. A test counts as skipped if CTest says so;
so does a case of a test that passed: `[  SKIPPED ] case` of cmocka (TEST/case) and
`OK (skipped=N)` of unittest (TEST).

FILE (tests/expected_skips.txt) has a row for each skip that is expected:

    TEST | MACHINE | REASON

TEST is a name, with * and ? as in a shell. REASON is a part of what the test prints; it may be
empty. MACHINE says on which machines the skip is expected:

    any
    no root
    no namespaces       separate networks cannot be made
    no user namespaces  as in a chroot
    no control groups   groups that limit CPUs and memory cannot be made
    cpu FLAG            /proc/cpuinfo lacks that flag of the processor
    no module NAME      that Python module is not installed; not accepted under --all

Exits with 1 if a skip is not expected.
"""

import argparse
import collections
import fnmatch
import functools
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CASE = re.compile(r"^\[  SKIPPED \] (?!\d+ test)(\S+)", re.M)
CASES = re.compile(r"^OK \(.*skipped=\d+.*\)", re.M)

Row = collections.namedtuple("Row", "test machine reason line")
Skip = collections.namedtuple("Skip", "test text")


def read_rows(path):
    """Raises ValueError at a row that is none."""
    rows = []
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or line.startswith("#"):
                continue
            fields = [field.strip() for field in line.split("|", 2)]
            if len(fields) != 3 or not is_machine(fields[1]):
                raise ValueError(f"{path}:{number}: '{line.strip()}' should be "
                                 "TEST | MACHINE | REASON")
            rows.append(Row(*fields, number))
    return rows


def is_machine(machine):
    return machine in LACKS or re.fullmatch(r"any|no root|cpu \w+|no module \w+", machine)


class Machine:
    """A machine's properties; `cpuinfo` is the text of /proc/cpuinfo, `cgroups` the
    folder of its control groups."""

    def __init__(self, cpuinfo, cgroups, is_root, everything):
        self.cgroups = cgroups
        self.flags = set()
        for line in cpuinfo.splitlines():
            if line.startswith(("flags", "Features")):
                self.flags = set(line.partition(":")[2].split())
        self.is_root = is_root
        self.everything = everything

    def matches(self, machine):
        kind, _, name = machine.rpartition(" ")
        if kind == "cpu":
            return name not in self.flags
        if kind == "no module":
            return not self.everything and not importlib.util.find_spec(name)
        if machine in LACKS:
            return LACKS[machine](self)
        return machine == "any" or not self.is_root


def fails(*command):
    try:
        return subprocess.run(command, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False).returncode != 0
    except OSError:
        return True


@functools.lru_cache(maxsize=None)
def lacks_namespaces(_):
    return fails("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "sh",
                 "-c", "ip link add v0 type veth peer name v1 && ip link add b0 type bridge")


@functools.lru_cache(maxsize=None)
def lacks_user_namespaces(_):
    return fails("unshare", "--user", "--map-root-user", "--mount", "true")


@functools.lru_cache(maxsize=None)
def lacks_control_groups(machine):
    def limits(hierarchy, file):
        try:
            group = tempfile.mkdtemp(prefix="lockstep-test-",
                                     dir=os.path.join(machine.cgroups, hierarchy))
        except OSError:
            return False
        found = os.path.exists(os.path.join(group, file))
        os.rmdir(group)
        return found

    return not (limits("", "cpu.max") or limits("cpu", "cpu.cfs_quota_us")) or \
        not (limits("", "memory.max") or limits("memory", "memory.limit_in_bytes"))


LACKS = {
    "no namespaces": lacks_namespaces,
    "no user namespaces": lacks_user_namespaces,
    "no control groups": lacks_control_groups,
}


def skips_in(path):
    """(number of tests, the skips among them)."""
    tests = xml.etree.ElementTree.parse(path).getroot().findall("testcase")
    skips = []
    for test in tests:
        name, text = test.get("name"), test.findtext("system-out") or ""
        skipped = test.find("skipped")
        if skipped is not None:
            skips.append(Skip(name, text or skipped.get("message") or ""))
            continue
        for case in dict.fromkeys(CASE.findall(text)):
            skips.append(Skip(f"{name}/{case}", case))
        if CASES.search(text):
            skips.append(Skip(name, text))
    return len(tests), skips


def row_of(skip, rows, machine):
    for row in rows:
        if fnmatch.fnmatchcase(skip.test, row.test) and row.reason in skip.text \
                and machine.matches(row.machine):
            return row
    return None


def last_line(text):
    """The last line that the test printed, except the lines of cmocka."""
    lines = [line for line in text.splitlines()
             if line.strip() and not line.startswith("[")]
    return lines[-1].strip() if lines else "without a reason"


def reason_of(skip, row):
    if row.machine.startswith("no "):
        return row.machine
    return row.reason or "not for this test"


def grouped(pairs):
    found = collections.OrderedDict()
    for reason, test in pairs:
        found.setdefault(reason, [])
        if test not in found[reason]:
            found[reason].append(test)
    return found


def show(title, groups):
    if groups:
        print(title)
    for reason, tests in groups.items():
        print(f"  {reason}: {', '.join(tests)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", default=os.path.join(
        ROOT, "tests", "expected_skips.txt"))
    parser.add_argument("--all", action="store_true",
                        help="treat skips for a missing Python module as errors")
    parser.add_argument("--cpuinfo", default="/proc/cpuinfo", help=argparse.SUPPRESS)
    parser.add_argument("--cgroups", default="/sys/fs/cgroup", help=argparse.SUPPRESS)
    parser.add_argument("junit", nargs="+")
    asked = parser.parse_args()
    with open(asked.cpuinfo, encoding="utf-8") as file:
        machine = Machine(file.read(), asked.cgroups, os.geteuid() == 0, asked.all)
    try:
        rows = read_rows(asked.list)
    except ValueError as error:
        sys.exit(f"check_skips: {error}")
    count, skips = 0, []
    for path in asked.junit:
        tests, found = skips_in(path)
        count += tests
        skips += found
    other, processor, unexpected = [], [], []
    for skip in skips:
        row = row_of(skip, rows, machine)
        if row is None:
            unexpected.append((last_line(skip.text), skip.test))
        elif row.machine.startswith("cpu "):
            processor.append((f"no {row.machine[4:]}", skip.test))
        else:
            other.append((reason_of(skip, row), skip.test))
    print(f"{count} tests, {len(skips)} skips, {len(unexpected)} of these not expected")
    show("skipped:", grouped(other))
    show("skipped because the processor of this machine lacks instructions:",
         grouped(processor))
    show("skipped, but tests/expected_skips.txt expects these tests to run on this machine:",
         grouped(unexpected))
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
