"""Findings, tables and plots of docs/results.md, from the rows that results.py measured."""
import re
import subprocess
import textwrap
from statistics import median, quantiles

SIZES = (1000, 100000, 10000000)
DDP = "DDP, 4.2 M parameters"
KINDS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def three(value):
    """Three significant digits, without an exponent."""
    digits = 3 - len(str(int(abs(value)))) if abs(value) >= 1 else \
        3 if abs(value) >= 0.1 else 4
    return f"{value:,.{max(digits, 0)}f}"


def spread(samples):
    """The median with the quartiles, as '1.23 (1.20 to 1.31)'."""
    return with_quartiles(*quartiles(samples))


def with_quartiles(low, middle, high):
    return f"{three(middle)} ({three(low)} to {three(high)})"


def quartiles(samples):
    return tuple(quantiles(samples, n=4, method="inclusive"))


def ratios(ours, theirs):
    """Of each round: the two sides of a round met the same machine."""
    return [a / b for a, b in zip(ours, theirs)]


def mpi_ratio(row):
    return median(ratios(row["lockstep_us"], row["open_mpi_us"]))


def attention_ratio(row, peer):
    return median(ratios(row["one_pass_ms"], row[f"{peer}_ms"]))


def table(head, rows, text=1):
    """Markdown; the first `text` columns are words, the others numbers."""
    lines = [head, [" --- " if i < text else " ---: " for i in range(len(head))], *rows]
    return "\n".join("| " + " | ".join(str(cell).strip() for cell in line) + " |"
                     for line in lines)


def size_name(size):
    for unit, name in ((10**6, "MB"), (10**3, "KB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def cache_bytes(text):
    """All instances of a cache, as lscpu has them: '4 MiB (2 instances)'."""
    found = re.match(r"([\d.]+) (\w+)", text)
    return float(found[1]) * KINDS[found[2]] if found else 0


def held_by(machine, used):
    """The smallest cache that holds this many bytes of all ranks."""
    for name in ("L2", "L3"):
        if used <= cache_bytes(machine["caches"][name]):
            return name
    return "memory"


# ---- tables --------------------------------------------------------------------

def machine_table(rows):
    m = rows["machine"][0]
    caches = ", ".join(f"{name} {size}" for name, size in m["caches"].items())
    facts = {
        "Processor": f"{m['cpu']}, model {m['model']}, {m['cpus']} CPUs, {m['isa']}",
        "Caches": caches,
        "Memory": f"{m['memory_bytes'] / 2**30:.0f} GiB; a sum over 1.5 GiB with {m['cpus']} threads moves "
                  f"{three(median(m['memory_gb_per_s']))} GB/s",
        "Date": m["date"],
        "Lockstep": f"commit {m['commit'][:12]}, {m['compiler']}, {m['onednn']}",
        "Peers": f"PyTorch {m['pytorch']} from the Python registry; Open MPI {m['open_mpi']} of Debian, "
                 "`mpirun --oversubscribe -n N`",
        "System": f"Linux {m['kernel']}" + (", a virtual machine" if m["virtual"] else "")}
    return table(("what", "which"), facts.items(), text=2)


def backend_table(rows):
    return table(
        ("from PyTorch, 2 ranks", "gloo (ms)", "Lockstep (ms)", "gloo / Lockstep", "runs"),
        [(row["what"], *(with_quartiles(*(row[side][name] for name in ("p25", "median", "p75")))
                         for side in ("gloo_ms", "lockstep_ms")),
          three(row["gloo_ms"]["median"] / row["lockstep_ms"]["median"]), row["runs"])
         for row in rows["backend"]])


def all_reduce_table(rows):
    m = rows["machine"][0]
    return table(
        ("bytes", "result", "buffers fit in", "Lockstep (us)", "Open MPI (us)",
         "Lockstep / Open MPI", "rounds"),
        [(f"{row['bytes']:,}", {"in": "in place", "out": "out of place"}[row["place"]],
          held_by(m, (2 if row["place"] == "out" else 1) * row["bytes"] * row["ranks"]),
          spread(row["lockstep_us"]), spread(row["open_mpi_us"]),
          three(mpi_ratio(row)), len(row["lockstep_us"]))
         for row in rows["mpi"] if row["operation"] == "all-reduce"], text=3)


def out_of_place(rows):
    """Rows of SIZES; in place where an operation has no other result."""
    both = {row["operation"] for row in rows if row["place"] == "out"}
    return [row for row in rows if row["bytes"] in (0, *SIZES) and
            (row["place"] == "out" or row["operation"] not in both)]


def collectives_table(rows, part):
    """Operations by sizes: both times, and the median ratio."""
    by_name = {}
    for row in out_of_place(rows[part]):
        by_name.setdefault(row["operation"], {})[row["bytes"]] = row
    lines = []
    for name, found in by_name.items():
        cells = [name]
        for size in SIZES:
            row = found.get(size) or (found.get(0) if size == SIZES[0] else None)
            cells.append("" if row is None else
                         f"{three(median(row['lockstep_us']))} / "
                         f"{three(median(row['open_mpi_us']))} = {marked(mpi_ratio(row))}")
        lines.append(cells)
    return table(("operation", *map(size_name, SIZES)), lines)


def marked(ratio):
    return f"**{ratio:.2f}**" if ratio > 1 else f"{ratio:.2f}"


def language_model_table(rows):
    return table(
        ("products in", "Lockstep (ms)", "PyTorch eager (ms)", "PyTorch compiled (ms)",
         "Lockstep / the faster"),
        [(row["dtype"], *(spread(row[f"{side}_ms"]) for side in ("lockstep", "eager",
                                                                "compiled")),
          three(median(row["lockstep_ms"]) /
                min(median(row["eager_ms"]), median(row["compiled_ms"]))))
         for row in rows["language-model"]])


def attention_table(rows):
    return table(
        ("type", "length", "pass", "one pass (ms)", "stored scores (ms)", "PyTorch (ms)",
         "one pass / stored", "one pass / PyTorch"),
        [(row["dtype"], row["length"], row["pass"],
          *(spread(row[f"{side}_ms"]) for side in ("one_pass", "stored", "pytorch")),
          *(marked(attention_ratio(row, side)) for side in ("stored", "pytorch")))
         for row in rows["attention"]], text=3)


def strategies_table(rows):
    return table(
        ("strategy", "step (ms)", "exposed communication (ms)", "collectives a step",
         "MB sent by a rank"),
        [(row["strategy"], spread(row["step_ms"]), spread(row["exposed_ms"]),
          row["collectives"], f"{row['bytes_sent'] / 1e6:.1f}")
         for row in by_step(rows)])


def by_step(rows):
    return sorted(rows["strategies"], key=lambda row: median(row["step_ms"]))


def blocks(rows):
    """The texts between the marks of the page, by name."""
    return {"findings": findings(rows), "machine": machine_table(rows),
            "backend": backend_table(rows), "all-reduce": all_reduce_table(rows),
            "collectives": collectives_table(rows, "mpi"),
            "collectives-crowded": collectives_table(rows, "mpi-crowded"),
            "language-model": language_model_table(rows),
            "attention": attention_table(rows), "strategies": strategies_table(rows)}


# ---- sentences -------------------------------------------------------------------

def find(rows, **wanted):
    """The one row with these values."""
    row, = (row for row in rows if all(row[name] == value for name, value in wanted.items()))
    return row


def backend_times(rows, what):
    """Medians over Lockstep and over gloo."""
    row = find(rows["backend"], what=what)
    return tuple(f"{three(row[side]['median'])} ms" for side in ("lockstep_ms", "gloo_ms"))


def backend_range(rows):
    """How many times as fast collectives are over Lockstep: the least and the most."""
    times = [row["gloo_ms"]["median"] / row["lockstep_ms"]["median"] for row in rows["backend"]
             if re.match("all_|broadcast|reduce_", row["what"])]
    return f"{min(times):.1f} to {max(times):.1f}"


def all_reduce_ratio(rows, size):
    return f"{mpi_ratio(find(rows['mpi'], operation='all-reduce', bytes=size, place='out')):.2f}"


def longer(rows, part):
    """How many collectives take longer than Open MPI's, and of how many."""
    every = [mpi_ratio(row) for row in out_of_place(rows[part])]
    return sum(ratio > 1 for ratio in every), len(every)


def findings(rows):
    """The five of the page. Their words are of the rows of 2026-11-27."""
    small, large = (backend_times(rows, f"all_reduce {size}") for size in ("1 KB", "10 MB"))
    step = backend_times(rows, DDP)
    shared = backend_times(rows, DDP + ", shared buckets")[0]
    over, every = longer(rows, "mpi")
    over_crowded, every_crowded = longer(rows, "mpi-crowded")
    worst = max(out_of_place(rows["mpi"]), key=mpi_ratio)
    compiled = {row["dtype"]: f"{median(row['compiled_ms']) / median(row['lockstep_ms']):.2f}"
                for row in rows["language-model"]}
    first, last = by_step(rows)[0], by_step(rows)[-1]

    def attention(dtype, length, part, peer):
        row = find(rows["attention"], dtype=dtype, length=length, **{"pass": part})
        return f"{attention_ratio(row, peer):.2f}"

    text = f"""\
1. **From PyTorch, every collective measured takes less time over Lockstep than over gloo.** An
   all-reduce of 1 KB takes {small[0]} against {small[1]}, one of 10 MB {large[0]} against {large[1]}.
   A DDP step of 4.2 M parameters takes {step[0]} against {step[1]}, and {shared} with shared buckets.
2. **In C, an all-reduce of 10 MB takes {all_reduce_ratio(rows, 10**7)} of Open MPI's time, one of
   1 KB {all_reduce_ratio(rows, 1000)}.** Of {every} collectives on 2 ranks, {over} take longer than
   Open MPI's; the worst is {worst["operation"]} of {size_name(worst["bytes"])},
   {mpi_ratio(worst):.2f} times. Of {every_crowded} on 4 ranks, {over_crowded} do.
3. **A language model of 128.6 M parameters trains faster than in PyTorch.** A step of compiled
   PyTorch takes {compiled["f32"]} times as long in f32 and {compiled["bf16"]} times in bf16.
4. **On 2 CPUs the strategy of data parallelism hardly changes the time of a step.** The fastest,
   `{first["strategy"]}`, takes {three(median(first["step_ms"]))} ms, and the slowest,
   `{last["strategy"]}`, {three(median(last["step_ms"]))} ms; their quartiles overlap. Choose by
   memory. In earlier runs on a Zen 5 the simplest strategy, `naive`, was the fastest.
5. **FlashAttention does not always win.** Forward in f32 takes
   {attention("f32", 2048, "forward", "stored")} of the time of stored scores at length 2,048, but
   backward at 512 takes {attention("f32", 512, "backward", "stored")} of it. In bf16 at 2,048
   PyTorch's forward pass is faster: Lockstep's takes
   {attention("bf16", 2048, "forward", "pytorch")} times as long. In earlier runs on a Zen 5, forward
   in f32 at 2,048 lost to stored scores."""
    return "\n".join(
        textwrap.fill(" ".join(item.split()), 96, subsequent_indent="   ",
                      break_long_words=False, break_on_hyphens=False)
        for item in re.split(r"\n(?=\d\.)", text))


def readme_sentences(rows):
    """Sentences that README.md must contain, with single blanks."""
    m = rows["machine"][0]
    small, large = (backend_times(rows, f"all_reduce {size}") for size in ("1 KB", "10 MB"))
    step = backend_times(rows, DDP)
    shared = backend_times(rows, DDP + ", shared buckets")[0]
    over, every = longer(rows, "mpi")
    return [
        f"**An all-reduce of 1 KB takes {small[0]} from PyTorch; gloo takes {small[1]}.**",
        f"For 10 MB it is {large[0]} against {large[1]}",
        f"**A DDP step of 4.2 M parameters takes {step[0]}; with gloo it takes {step[1]}.**",
        f"Buckets in shared memory make it {shared}",
        f"takes {all_reduce_ratio(rows, 10**7)} of Open MPI's time.**",
        f"For 1 KB the ratio is {all_reduce_ratio(rows, 1000)}",
        f"collectives are {backend_range(rows)} times as fast over Lockstep as over gloo",
        f"{m['cpu']} (model {m['model']}), {m['date']}",
        f"PyTorch {m['pytorch']} and Open MPI {m['open_mpi']}",
        f"{over} of {every} two-rank collectives take longer"]


# ---- plots -------------------------------------------------------------------------

OURS, PEER, LINE = "#0072b2", "#999999", "#444444"
HEAD = """set terminal svg size {width},{height} noenhanced font 'sans-serif,14' \\
    background '#ffffff'
set output '{path}'
set label '{title}' at screen 0.02,screen {top:.3f} font ',16'
set tmargin 3
set border 1
set tics nomirror out
unset key
"""


def quoted(text):
    return text.replace("'", "''")


def draw(script):
    subprocess.run(["gnuplot"], input=script, text=True, check=True)


def bars(path, title, unit, entries, unity=False):
    """Horizontal bars with their values; entries are (label, low, median, high, colour)."""
    count = len(entries)
    # A line that is far longer than all bars ends at the edge.
    most = max(min(high, 2 * middle) for _, _, middle, high, _ in entries) * 1.1
    height = 110 + 28 * count
    script = HEAD.format(width=900, height=height, path=path, title=quoted(title),
                         top=1 - 20 / height)
    script += (f"set xlabel '{quoted(unit)}'\nset xrange [0:{most:.6g}]\n"
               f"set yrange [-0.6:{count - 0.4}]\nset lmargin 36\nset rmargin 8\n")
    script += "set ytics (" + ", ".join(
        f"'{quoted(label)}' {count - 1 - i}" for i, (label, *_) in enumerate(entries)) + ")\n"
    if unity:
        script += f"set arrow from 1,graph 0 to 1,graph 1 nohead lc rgb '{LINE}' dt 2\n"
    data = ""
    for i, (_, low, middle, high, colour) in enumerate(entries):
        y = count - 1 - i
        data += f"0 {middle:.6g} {y} {low:.6g} {high:.6g} {int(colour[1:], 16)}\n"
        script += (f"set label '{three(middle)}' at {min(high, most):.6g},{y} left "
                   "offset 0.7,0\n")
    script += f"$data << EOD\n{data}EOD\nset style fill solid 1\n"
    boxes = "$data using (0):3:(0):2:($3-0.34):($3+0.34):6 with boxxyerror lc rgb variable"
    lines = f"$data using 2:3:4:5 with xerrorbars pt 0 lw 1.5 lc rgb '{LINE}'"
    script += f"plot {boxes}, {lines}\n"
    draw(script)


def ratio_plot(path, title, rows):
    """Dots of ours over the peer's time by operation, one colour for each size."""
    rows = out_of_place(rows)
    names = list(dict.fromkeys(row["operation"] for row in rows))
    colours = ("#0072b2", "#d55e00", "#009e73")
    script = HEAD.format(width=900, height=420, path=path, title=quoted(title), top=0.95)
    script += ("set ylabel 'time / Open MPI''s time'\nset yrange [0:*]\nset border 3\n"
               f"set xrange [-0.5:{len(names) - 0.5}]\n"
               f"set arrow from graph 0,first 1 to graph 1,first 1 nohead lc rgb '{LINE}' dt 2\n")
    script += "set xtics (" + ", ".join(f"'{n}' {i}" for i, n in enumerate(names)) + ")\n"
    plots = []
    for j, size in enumerate(SIZES):
        data = ""
        script += (f"set label '{size_name(size)}' at graph {0.75 + 0.09 * j:.2f},graph 0.97 "
                   f"tc rgb '{colours[j]}'\n")
        for row in rows:
            if row["bytes"] in ((size, 0) if j == 0 else (size,)):
                low, middle, high = quartiles(ratios(row["lockstep_us"], row["open_mpi_us"]))
                x = names.index(row["operation"]) + 0.2 * (j - 1)
                data += f"{x:.2f} {middle:.6g} {low:.6g} {high:.6g}\n"
        script += f"$d{j} << EOD\n{data}EOD\n"
        plots.append(f"$d{j} using 1:2:3:4 with yerrorbars pt 7 ps 0.8 lw 1.5 "
                     f"lc rgb '{colours[j]}'")
    draw(script + "plot " + ", ".join(plots) + "\n")


def plots(rows, folder):
    drawn = []
    for row in rows["backend"]:
        if not re.match(r"all_reduce \d+ \w+$|all_gather|reduce_scatter|DDP, 4", row["what"]):
            continue
        gloo, ours = row["gloo_ms"], row["lockstep_ms"]
        drawn.append((row["what"], gloo["p25"] / ours["median"],
                      gloo["median"] / ours["median"], gloo["p75"] / ours["median"], OURS))
    bars(f"{folder}/backend.svg",
         f"PyTorch, 2 ranks: collectives are {backend_range(rows)} times as fast over "
         "Lockstep as over gloo",
         "times as fast as gloo (bar: median; line: quartiles)", drawn, unity=True)
    ratio_plot(f"{folder}/open-mpi.svg",
               "C, 2 ranks: {} of {} collectives take longer than Open MPI's".format(
                   *longer(rows, "mpi")), rows["mpi"])
    lines = []
    for row in rows["language-model"]:
        for side, label in (("lockstep", "Lockstep"), ("eager", "PyTorch, eager"),
                            ("compiled", "PyTorch, compiled")):
            low, middle, high = quartiles(row[f"{side}_ms"])
            lines.append((f"{label}, {row['dtype']}", low, middle, high,
                          OURS if side == "lockstep" else PEER))
    bars(f"{folder}/language-model.svg",
         "Language model, 128.6 M parameters: a step takes {} s in f32 and {} s in bf16".format(
             *(three(median(row["lockstep_ms"]) / 1e3) for row in rows["language-model"])),
         "ms a step", lines)
    bars(f"{folder}/strategies.svg",
         f"2 ranks on 2 CPUs: {by_step(rows)[0]['strategy']} is the fastest strategy, but the "
         "quartiles overlap", "ms a step",
         [(row["strategy"], *quartiles(row["step_ms"]), OURS) for row in by_step(rows)])
