#!/usr/bin/env python3
"""Measures the figures of docs/results.md, and writes them into the page.

    python3 tests/speed/results.py measure     # half an hour; let nothing else run
    python3 tests/speed/results.py page        # needs gnuplot for the plots
    python3 tests/speed/results.py check

`measure` runs Lockstep and its peers in turn and keeps all samples in
docs/results/rows. It needs PyTorch and its backend lockstep_torch in the Python that
runs it, Open MPI, and a build (LOCKSTEP, MPI_COLLECTIVES and LOCKSTEP_COMM_LIBRARY
name other places than build/dev). `measure PART ...` measures some parts again.

`page` writes findings, tables and plots from the rows: a block lies between
<!-- rows: NAME --> and <!-- end -->. Read the findings again then: their words are in
results_tables.findings, and may not fit the new figures.
`check` fails where the page differs from the rows, or where the README lacks a
sentence that results_tables.readme_sentences makes of them.
"""

import argparse
import datetime
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
import one_host  # noqa: E402
import results_tables  # noqa: E402

ROWS = "docs/results/rows"
PAGE, README = "docs/results.md", "README.md"
BLOCK = re.compile(r"(<!-- rows: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)

# Rounds of the two sides in turn. The main table has 30, the others fewer.
MAIN_ROUNDS, ROUNDS, LONG_ROUNDS = 30, 7, 5
MAIN_SIZES = (1000, 10000, 100000, 1000000, 10000000, 100000000)
SIZE_OF_MODEL = "small"


def lockstep(*words):
    return json.loads(one_host.output([one_host.LOCKSTEP, *map(str, words), "--json"]))["rows"]


def peer(what, *words):
    """Measures one thing of PyTorch in a new process of peers.py: usually milliseconds."""
    return json.loads(one_host.output([sys.executable, os.path.join(HERE, "peers.py"), "--print", what,
                              *map(str, words)]))


def collect(rounds, sides):
    """The samples of each side, one for each round, measured in turn."""
    samples = {name: [] for name in sides}
    for number in range(rounds):
        names = list(sides)
        for name in names if number % 2 == 0 else names[::-1]:
            samples[name].append(sides[name]())
    return samples


# ---- the parts ---------------------------------------------------------------

def machine():
    """Facts of the machine, and what its memory does: a sum over 1.5 GiB."""
    info = lockstep("info")[0]
    caches = subprocess.run(["lscpu", "--json"], stdout=subprocess.PIPE, text=True, check=False)
    fields = {row["field"].rstrip(":"): row["data"]
              for row in json.loads(caches.stdout or '{"lscpu": []}')["lscpu"]}
    mpi = one_host.output([one_host.MPIRUN, "--version"]).splitlines()[0]
    commit = one_host.output(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
    return [{"cpu": info["cpu"], "model": fields.get("Model", ""), "isa": info["isa"],
             "cpus": info["cpus"], "memory_bytes": info["memory_bytes"],
             "caches": {name: fields.get(f"{name} cache", "") for name in ("L1d", "L2", "L3")},
             "kernel": info["kernel"], "compiler": info["compiler"],
             "onednn": info.get("onednn", ""), "open_mpi": mpi.split()[-1],
             "pytorch": peer("version"), "virtual": "Hypervisor vendor" in fields,
             "commit": commit, "date": datetime.date.today().isoformat(),
             "memory_gb_per_s": peer("memory", "--threads", info["cpus"])}]


def backend():
    """Collectives and DDP steps from PyTorch, over gloo and over Lockstep, in the same
    processes in turn."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as file:
        one_host.output(
            [sys.executable, os.path.join(ROOT, "python/tests/speed.py"), "--json", file.name],
            USE_LIBUV="0", OMP_NUM_THREADS="1",
            LOCKSTEP_COMM_LIBRARY=os.environ.get(
                "LOCKSTEP_COMM_LIBRARY", f"{one_host.BUILD}/lib/liblockstep-comm.so"))
        return json.load(file)


def mpi_rows(rounds, operation, ranks, size):
    """A row for each place of the result."""
    runs = one_host.runs_for(size)
    found = collect(rounds, {
        "lockstep": lambda: one_host.time_lockstep(operation, ranks, [size], runs),
        "open_mpi": lambda: one_host.time_peer(operation, ranks, [size], [runs])})
    return [{"operation": operation, "ranks": ranks, "bytes": size, "place": place,
             "runs": runs, **{f"{side}_us": [times[size, place][0] for times in samples]
                              for side, samples in found.items()}}
            for size, place in found["lockstep"][0]]


def mpi():
    """Every collective in C and Open MPI's: a sample is the median of a process's runs."""
    rows = []
    for size in MAIN_SIZES:
        rows += mpi_rows(MAIN_ROUNDS, "all-reduce", 2, size)
    for operation in one_host.OPERATIONS:
        if operation == "all-reduce":
            continue
        for size in results_tables.SIZES if operation != "barrier" else (0,):
            rows += mpi_rows(ROUNDS, operation, 2, size)
    return rows


def mpi_crowded():
    """As mpi, of four ranks."""
    rows = []
    for operation in one_host.OPERATIONS:
        for size in results_tables.SIZES if operation != "barrier" else (0,):
            rows += mpi_rows(LONG_ROUNDS, operation, 4, size)
    return rows


def language_model():
    """A step of forward, backward and AdamW: context 128, 4 sequences, 2 threads."""
    def ours(dtype):
        return lambda: lockstep(
            "bench", "lm", "--size", SIZE_OF_MODEL, "--context", 128, "-b", 4, "--threads", 2,
            "--dtype", dtype, "-w", 2, "--iterations", 6)[0]["step_ms"]["median"]

    def theirs(dtype, *more):
        return lambda: statistics.median(peer("lm", "--size", SIZE_OF_MODEL, "--dtype", dtype,
                                              "--threads", 2, "--runs", 6, *more))

    return [{"size": SIZE_OF_MODEL, "dtype": dtype, "runs": 6, **{
        f"{name}_ms": times for name, times in collect(LONG_ROUNDS, {
            "lockstep": ours(dtype), "eager": theirs(dtype),
            "compiled": theirs(dtype, "--compile")}).items()}}
        for dtype in ("f32", "bf16")]


def attention():
    """Attention of 8 sequences, one head of 64, 1 thread: one pass, stored scores, PyTorch."""
    rows = []
    for dtype in ("f32", "bf16"):
        for length in (512, 2048):
            def ours(impl, dtype=dtype, length=length):
                row = lockstep("bench", "attention", "-l", length, "--head-size", 64,
                               "--threads", 1, "--dtype", dtype, "--impl", impl,
                               "--iterations", 10)[0]
                return row["forward_ms"]["median"], row["backward_ms"]["median"]

            def theirs(dtype=dtype, length=length):
                return peer("attention", "--length", length, "--dtype", dtype, "--threads", 1,
                            "--runs", 10)

            found = collect(LONG_ROUNDS, {"one_pass": lambda: ours("flash"),
                                          "stored": lambda: ours("naive"), "pytorch": theirs})
            for i, part in enumerate(("forward", "backward")):
                rows.append({"dtype": dtype, "length": length, "pass": part, "runs": 10,
                             **{f"{name}_ms": [times[i] for times in samples]
                                for name, samples in found.items()}})
    return rows


def strategies():
    """A training step of two ranks by strategy; rounds over all of them."""
    found = {}
    for _ in range(ROUNDS):
        for row in lockstep("bench", "ddp", "--size", "tiny", "-n", 2, "-w", 2,
                            "--iterations", 5, "--bucket-mb", 10):
            name = row["strategy"]
            entry = found.setdefault(name, {
                "strategy": name, "runs": 5, "collectives": row["collectives_per_step"],
                "bytes_sent": row["bytes_sent"], "step_ms": [], "exposed_ms": []})
            entry["step_ms"].append(row["step_time_avg_s"] * 1e3)
            entry["exposed_ms"].append(row["comm_time_avg_s"] * 1e3)
    return list(found.values())


PARTS = {"machine": machine, "backend": backend, "mpi": mpi, "mpi-crowded": mpi_crowded,
         "language-model": language_model, "attention": attention, "strategies": strategies}


# ---- what the rows become ----------------------------------------------------

def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read()


def read_rows(root):
    rows = {}
    for part in PARTS:
        try:
            rows[part] = json.loads(read(root, f"{ROWS}/{part}.json"))
        except (OSError, ValueError) as error:
            sys.exit(f"cannot read the rows of {part}: {error}. Measure them: "
                     f"results.py measure {part}")
    return rows


def filled(text, blocks):
    """The page's text with the blocks that its marks name."""
    def block(match):
        if match[2] not in blocks:
            sys.exit(f"{PAGE}: no block of rows has the name {match[2]}; "
                     f"use one of {', '.join(blocks)}")
        return f"{match[1]}\n{blocks[match[2]]}\n\n{match[3]}"

    return BLOCK.sub(block, text)


def write_page(root):
    rows = read_rows(root)
    text = filled(read(root, PAGE), results_tables.blocks(rows))
    with open(os.path.join(root, PAGE), "w", encoding="utf-8") as file:
        file.write(text)
    results_tables.plots(rows, os.path.join(root, "docs/results"))


def differences(root):
    """Lines of the page, and sentences of the README, that the rows do not support."""
    rows = read_rows(root)
    old = read(root, PAGE)
    new = filled(old, results_tables.blocks(rows))
    for line, right in zip(old.split("\n"), new.split("\n")):
        if line != right:
            yield f"{PAGE}: the rows say: {right[:200]}"
    readme = " ".join(read(root, README).split())
    for sentence in results_tables.readme_sentences(rows):
        if sentence not in readme:
            yield f"{README}: the rows say: {sentence}"


def measure(parts):
    folder = os.path.join(ROOT, ROWS)
    os.makedirs(folder, exist_ok=True)
    for part in parts or PARTS:
        print(f"{datetime.datetime.now():%H:%M:%S} {part}", flush=True)
        rows = PARTS[part]()
        with open(os.path.join(folder, f"{part}.json"), "w", encoding="utf-8") as file:
            file.write("[\n" + ",\n".join(
                json.dumps(json.loads(json.dumps(row), parse_float=lambda x: round(float(x), 5)))
                for row in rows) + "\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", 1)[0])
    parser.add_argument("what", choices=("measure", "page", "check"))
    parser.add_argument("parts", nargs="*", metavar="PART",
                        help=f"of measure: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--root", default=ROOT, help="where the pages and rows are")
    flags = parser.parse_args()
    for part in flags.parts:
        if part not in PARTS:
            parser.error(f"unknown part '{part}'; choose one of: {', '.join(PARTS)}")
    if flags.what == "measure":
        if shutil.which(one_host.MPIRUN) is None:
            sys.exit(f"cannot measure: the program {one_host.MPIRUN} is not installed")
        measure(flags.parts)
        return 0
    if flags.what == "page":
        write_page(flags.root)
    found = list(differences(flags.root))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
