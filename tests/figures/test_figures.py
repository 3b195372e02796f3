"""Are the figures right, readable, and the same every time? Numbers are read back from what was drawn."""

import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import replace
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch

from ckptlib import figures, units
from ckptlib.cuda.allocator import CachingAllocator
from ckptlib.cuda.gpus import preset
from ckptlib.cuda.simulate import simulate
from ckptlib.errors import CkptError
from ckptlib.figures import styles, timelines
from ckptlib.fitting.fit import Fit, Fits, Need
from ckptlib.fitting.peak_windows import PARTS
from ckptlib.models.configs import CONFIGS
from ckptlib.models.mlp import CHECKPOINTS, mlp_step
from ckptlib.planning.known_schedules import periodic, revolve, sqrt, store_all
from ckptlib.planning.optimal_schedule import pareto
from ckptlib.planning.stage_costs import Costs
from ckptlib.remember.ledger import ledger
from ckptlib.remember.saved_tensors import Saved, SavedTensors, saved_tensors
from ckptlib.tracing.allocation_recorder import recording
from ckptlib.tracing.events import CATEGORIES, PHASES, Storage
from ckptlib.tracing.timeline import Change, Timeline

MiB = 2**20


def storage(category, nbytes=0, name="", module=""):
    return Storage(0, nbytes, 0, module, "forward", category, (1,), torch.float32, name=name)


def random_timeline(n, seed=0, largest=MiB):
    """n allocations and frees of every category, in phases that change often."""
    rng = np.random.default_rng(seed)
    line, live = Timeline(), []
    for category in CATEGORIES[:2]:
        line.start.append(Change(int(rng.integers(1, largest)), storage(category), "before", -1))
    for i in range(n):
        phase = PHASES[min(3, i * 5 // n)] if i < n // 2 else PHASES[1 + i // max(1, n // 60) % 2]
        if live and rng.random() < 0.48:
            change = live.pop(int(rng.integers(len(live))))
            line.changes.append(Change(-change.nbytes, change.owner, phase, i))
        else:
            live.append(Change(int(rng.integers(1, largest)), storage(str(rng.choice(CATEGORIES))), phase, i))
            line.changes.append(live[-1])
    return line


def simulated(checkpoint):
    with recording(fake=True) as recorder:
        step = mlp_step(checkpoint)
        recorder.settle()
        step()
    return simulate(recorder.trace, preset("a100"))


@pytest.fixture(scope="module")
def mlp():
    return {checkpoint: simulated(checkpoint) for checkpoint in CHECKPOINTS}


def long_saved(n=20):
    rows = SavedTensors()
    for i in range(n):
        kind = ("activation", "parameter", "input", "buffer")[i % 4]
        module = f"transformer_encoder_stack.layers.{i}.feed_forward_network.{'projection' * (i % 3)}"
        shape = (8, 128, 4096) if i % 2 else ()
        row = Saved(kind, shape, torch.float32, (i * 7919) % 97 * 2**16, module, "")
        row.asked["NativeLayerNormBackward0"] += 2
        row.asked["ScaledDotProductFlashAttentionForCpuBackward0"] += 1
        rows.append(row)
    return rows


def crowded_allocator(segments=60):
    gpu, rng = CachingAllocator(), np.random.default_rng(0)
    live = []
    while len(gpu.segments) < segments:
        category = str(rng.choice(CATEGORIES))
        nbytes = int(rng.choice([600, 40_000, 900_000, 3 * MiB, 7 * MiB, 30 * MiB]))
        live.append(
            gpu.malloc(nbytes, tag=storage(category, nbytes, name=f"block_{len(live)}.weight" * (len(live) % 2)))
        )
        if rng.random() < 0.4:
            gpu.free(live.pop(int(rng.integers(len(live)))))
    return gpu


LEDGER = {
    "transformer.h.0.attention": {"parameter": 3 * MiB, "gradient": 3 * MiB, "activation": 20 * MiB},
    "transformer.h.0.mlp": {"parameter": 8 * MiB, "optimizer state": 16 * MiB, "temporary": 0},
    "a_label_so_long_that_nobody_could_want_to_read_it_in_one_line_of_a_figure": {"buffer": 12},
}


def tiny_timeline(n):
    owner = storage("activation")
    return Timeline([], [Change(512, owner, "forward", 0), Change(-512, owner, "backward", 1)][:n])


CHAIN = Costs([1] * 16, [2] * 16, [MiB] * 17, [9 * MiB] * 16)


def periodic_points():
    costs = [periodic(16, k).cost(CHAIN) for k in (2, 4, 8, 16)]
    return [(cost.peak, cost.time) for cost in costs]


def answers():
    """What `fits` returns, with invented bytes."""
    config, found = CONFIGS["gpt2-xl"], {}
    for batch, strategy in enumerate(("none", "selective", "full", "planned"), 3):
        parts = dict.fromkeys(PARTS, batch * 2**30) | {"activations": 30 * 2**30, "gradients": 0}
        need = Need(batch**3, "backward of the head", parts, 0.1, store_all(3), False)
        found[strategy] = Fit(config, 80 * 2**30, "fp32", strategy, False, batch**3, need, need)
    return Fits(found, {})


def linear_ledger():
    model, x = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.Linear(512, 512)), torch.ones(1024, 512)
    return ledger(model, lambda: model(x).sum().backward())


DRAWINGS = {
    "timeline": lambda: figures.timeline(simulated("reentrant").timeline),
    "timeline of GiB": lambda: figures.timeline(random_timeline(300, largest=2**31)),
    "timeline of 6,000": lambda: figures.timeline(random_timeline(6_000)),
    "timeline of 1": lambda: figures.timeline(tiny_timeline(1)),
    "timeline of 2": lambda: figures.timeline(tiny_timeline(2)),
    "timeline of 0": lambda: figures.timeline(Timeline([Change(100, storage("parameter"), "before", -1)], [])),
    "compare 3": lambda: figures.compare({c: simulated(c).timeline for c in CHECKPOINTS}),
    "compare 2": lambda: figures.compare({"few": random_timeline(10), "many": random_timeline(9000, 1)}),
    "ledger": lambda: figures.ledger_bars(LEDGER),
    "ledger of a model": lambda: figures.ledger_bars(linear_ledger()),
    "ledger of 100": lambda: figures.ledger_bars(
        {f"layer {i}": {"activation": i * MiB, "input": 3} for i in range(100)}
    ),
    "ledger of zeros": lambda: figures.ledger_bars({"nothing": {"activation": 0}}),
    "saved": lambda: figures.saved_bars(long_saved()),
    "saved of 300": lambda: figures.saved_bars(long_saved(300)),
    **{f"schedule of {n}": lambda n=n: figures.schedule(sqrt(n)) for n in (1, 4, 16, 64)},
    "schedule in bytes": lambda: figures.schedule(revolve(16, 3), CHAIN, "ms"),
    "pareto": lambda: figures.pareto(
        {"optimal": pareto(CHAIN), "periodic": periodic_points(), "all": [(146 * MiB, 48)]}
    ),
    "fit": lambda: figures.fit_bars(answers()),
    "fit of one": lambda: figures.fit_bars(answers()["planned"]),
    "map": lambda: figures.allocator_map(simulated("none").allocator),
    "map of many": lambda: figures.allocator_map(crowded_allocator()),
}


@pytest.fixture(scope="module", params=DRAWINGS)
def drawn(request):
    return DRAWINGS[request.param]()


def texts(figure: Figure):
    """Every visible text with its box in pixels."""
    FigureCanvasAgg(figure).draw()  # axes place their labels when they are drawn
    found = [t for t in figure.findobj(matplotlib.text.Text) if t.get_visible() and t.get_text().strip()]
    hidden = {id(t) for ax in figure.axes if not ax.axison for t in ax.xaxis.findobj(matplotlib.text.Text)}
    hidden |= {id(t) for ax in figure.axes if not ax.axison for t in ax.yaxis.findobj(matplotlib.text.Text)}
    for ax in figure.axes:  # ticks outside the limits are not drawn
        for axis in (ax.xaxis, ax.yaxis):
            shown = {id(t) for tick in axis._update_ticks() for t in (tick.label1, tick.label2)}
            hidden |= {id(t) for tick in axis.majorTicks for t in (tick.label1, tick.label2)} - shown
    return [(t, t.get_window_extent()) for t in found if id(t) not in hidden]


def patches(ax, label):
    return [p for p in ax.get_children() if isinstance(p, PathPatch) and p.get_label() == label]


def area_by_row(patch):
    """Width of a compound path's rectangles, summed by the row they are in."""
    sums = Counter()
    for polygon in patch.get_path().to_polygons(closed_only=False):
        (x0, y0), (x1, y1) = polygon.min(0), polygon.max(0)
        sums[round((y0 + y1) / 2)] += x1 - x0
    return sums


# ---- readable -------------------------------------------------------------------------------------------------------
def test_no_text_is_clipped(drawn):
    width, height = drawn.figure.get_size_inches() * drawn.figure.dpi
    for text, box in texts(drawn.figure):
        assert box.x0 >= 0 and box.y0 >= -1 and box.x1 <= width and box.y1 <= height + 1, text.get_text()


@pytest.mark.slow
def test_no_two_texts_overlap(drawn):
    for (a, box_a), (b, box_b) in itertools.combinations(texts(drawn.figure), 2):
        # A box is as high as the font's tallest letters, so that lines may share a pixel or two of nothing.
        apart = box_a.x1 <= box_b.x0 or box_b.x1 <= box_a.x0 or box_a.y1 <= box_b.y0 + 2 or box_b.y1 <= box_a.y0 + 2
        assert apart, (a.get_text(), b.get_text())


def test_svg_is_small_and_well_formed(drawn):
    text = drawn.svg()
    assert len(text.encode()) < 60_000
    root = ElementTree.fromstring(text)
    name = {"svg": "http://www.w3.org/2000/svg"}
    assert root.get("role") == "img"
    assert root.find("svg:desc", name).text == drawn.alt
    assert root.find("svg:title", name).text and re.search(r"\d+(\.\d+)? (B|[KMG]iB)|storages|activations", drawn.alt)
    assert "matplotlib.org" not in text and "date" not in text.lower().replace("updated", "")


def test_looks_differ_in_colour_and_in_grey():
    colours = [to_rgb(look.colour) for look in styles.LOOKS.values()]
    assert all(np.linalg.norm(np.subtract(a, b)) > 0.25 for a, b in itertools.combinations(colours, 2))
    greys = [np.dot(colour, (0.299, 0.587, 0.114)) for colour in colours]
    for (a, grey_a), (b, grey_b) in itertools.combinations(zip(styles.LOOKS.values(), greys, strict=True), 2):
        assert (a.hatch, a.edge) != (b.hatch, b.edge) or abs(grey_a - grey_b) > 0.1
    assert set(CATEGORIES) <= set(styles.LOOKS) and set(PHASES) == set(timelines.SHADES)


# ---- the same every time --------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_same_input_same_bytes(drawn, request):
    again = DRAWINGS[request.node.callspec.params["drawn"]]()
    assert drawn.svg() == drawn.svg() == again.svg()


def test_last_bits_of_the_data_change_no_byte():
    """Another processor's logarithm may end in another bit, and so may the numbers that matplotlib hashes into ids."""

    def svg(noise):
        figure, _ = styles.sheet(2)
        ax = styles.axes_at(figure, 0.5 * noise, 0.5, 3, 1)
        ax.loglog(np.array([1, 30, 700]) * noise, np.array([0.3, 5, 2]) / noise, "o-")
        return styles.svg(figure, "A line.")

    once = svg(1.0)
    assert svg(1 + 1e-13) == svg(1 - 1e-13) == once != svg(1.1)
    names, used = set(re.findall(r' id="([^"]*)"', once)), set(re.findall(r"#(i[^\")]*)", once))
    assert len(used) > 3 and used <= names
    assert not used & set(re.findall(r"#(i[^\")]*)", svg(1.1)))  # two figures on one page


@pytest.mark.slow
def test_same_bytes_in_another_process_whatever_its_settings(tmp_path):
    (tmp_path / "matplotlibrc").write_text("font.size: 20\naxes.grid: True\nsavefig.bbox: tight\nsvg.fonttype: path\n")
    code = (
        "import sys; sys.path.insert(0, 'tests/figures')\n"
        "import matplotlib; matplotlib.rcParams['lines.linewidth'] = 9\n"
        "import test_figures; sys.stdout.write(test_figures.DRAWINGS['compare 3']().svg())"
    )
    root = str(Path(__file__).parents[2])
    env = {"PATH": "/usr/bin:/bin", "MATPLOTLIBRC": str(tmp_path), "PYTHONHASHSEED": "7", "PYTHONPATH": root}
    run = subprocess.run([sys.executable, "-c", code], cwd=root, env=env, capture_output=True, encoding="utf-8")
    assert run.returncode == 0, run.stderr
    assert run.stdout == DRAWINGS["compare 3"]().svg()


def test_no_global_state_and_no_matplotlib_in_import_ckptlib():
    code = (
        "import sys, ckptlib; assert 'matplotlib' not in sys.modules\n"
        "from ckptlib import plots; import matplotlib; before = matplotlib.rcParams.copy()\n"
        "plots.ledger_bars({'a': {'input': 1}}).svg(); assert matplotlib.rcParams.copy() == before\n"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---- the numbers ----------------------------------------------------------------------------------------------------
def heights(ax, rows):
    """The stack as it is drawn: bytes in use by category at the middle of each unit of x."""
    x = np.arange(len(next(iter(rows.values())))) + 0.5
    tops = {}
    for category in rows:
        (patch,) = patches(ax, category)
        corners = patch.get_path().vertices[1:-1]
        tops[category] = corners[::2][np.searchsorted(corners[::2, 0], x) - 1, 1]
    return tops


@pytest.mark.parametrize("checkpoint", CHECKPOINTS)
def test_the_stack_is_the_timeline(mlp, checkpoint):
    line = mlp[checkpoint].timeline
    ax = figures.timeline(line).figure.axes[1]
    rows = line.stacked()
    tops = heights(ax, {c: np.append(0, rows[c]) for c in styles.LOOKS if c in rows})
    below = np.zeros(len(line.changes))
    for category, top in tops.items():
        np.testing.assert_allclose((top[1:] - below) * MiB, rows[category], atol=1)
        below = top[1:]


def test_the_peak_is_exact_and_columns_show_their_fullest_moment():
    line = random_timeline(6_000)
    drawn = figures.timeline(line)
    ax = drawn.figure.axes[1]
    per, unit = units.unit(line.peak)
    (marker,) = [artist for artist in ax.lines if artist.get_label() == "peak"]
    assert marker.get_xdata()[0] == line.peak_moment + 1.5
    assert marker.get_ydata()[0] * per == pytest.approx(line.peak)
    assert f"peak {line.peak / per:.2f} {unit}" in [t.get_text() for t in ax.texts]
    top = patches(ax, [c for c in styles.LOOKS if c in line.stacked()][-1])[0].get_path().vertices
    assert top[:, 1].max() * per == pytest.approx(line.peak)
    assert len(top) <= 2 * timelines.COLUMNS + 2
    totals = np.append(line.total(-1), line.totals)
    edges = np.linspace(0, len(totals), timelines.COLUMNS + 1).astype(int)
    drawn_at = top[1:-1:2]
    for a, b in itertools.pairwise(edges):
        height = drawn_at[np.searchsorted(drawn_at[:, 0], a, side="right") - 1, 1]
        assert height * per == pytest.approx(totals[a:b].max())


def test_categories_at_the_peak_are_labelled_with_their_bytes(mlp):
    line = mlp["reentrant"].timeline
    drawn = figures.timeline(line)
    labels = {t.get_text() for t in drawn.figure.axes[0].texts}
    for category, nbytes in line.by_category(line.peak_moment).items():
        assert f"{category} {nbytes / MiB:.2f} MiB" in labels
    assert "peak 147.87 MiB during backward" in drawn.alt


def test_phases_are_where_the_changes_say(mlp):
    line = mlp["nonreentrant"].timeline
    ax = figures.timeline(line).figure.axes[1]
    assert {"forward", "recompute", "backward"} <= {t.get_text() for t in ax.texts}
    for phase, n in Counter(change.phase for change in line.changes).items():
        (patch,) = patches(ax, phase)
        assert sum(area_by_row(patch).values()) == n + (phase == line.changes[0].phase)  # the start is one more


def test_compare_has_one_scale_and_every_peak(mlp):
    runs = {checkpoint: mlp[checkpoint].timeline for checkpoint in CHECKPOINTS}
    paper, *panels = figures.compare(runs).figure.axes
    assert len({ax.get_ylim() for ax in panels}) == 1
    for ax, line in zip(panels, runs.values(), strict=True):
        assert f"peak {units.size(line.peak)}" in [t.get_text() for t in ax.texts]
        assert f"forward peak {units.size(line.forward_peak)}" in [t.get_text() for t in paper.texts]


def test_a_measurement_is_drawn_with_its_device_and_the_allocators_own_peak(mlp):
    class Measured:
        timeline, device, peak, forward_peak = mlp["none"].timeline, "cuda", 200 * MiB, 100 * MiB

    drawn = figures.timeline(Measured)
    assert "cuda" in drawn.figure.axes[1].get_ylabel()
    assert "peak 130.92 MiB (allocator: 200.00 MiB) during backward, forward peak 100.00 MiB" in drawn.alt


def assert_bars_are(ax, bars):
    for category in styles.LOOKS:
        wanted = {i: parts[category] for i, parts in enumerate(bars) if parts.get(category)}
        got = Counter()
        for patch in patches(ax, category):
            got.update(area_by_row(patch))
        assert {y: round(x * MiB) for y, x in got.items()} == wanted


def test_ledger_bars_are_as_long_as_the_bytes():
    assert_bars_are(figures.ledger_bars(LEDGER).figure.axes[1], LEDGER.values())


def test_a_ledger_is_drawn_row_by_row():
    account = linear_ledger()
    drawn = figures.ledger_bars(account)
    ax = drawn.figure.axes[1]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["0", "1", "(outside)"]
    assert_bars_are(ax, [row.nbytes for row in account.rows()])
    by_hand = {"parameter": 4 * (512 * 512 + 512), "gradient": 4 * (512 * 512 + 512), "activation": 4 * 1024 * 512}
    assert by_hand.items() <= account.rows()[0].nbytes.items()  # what the second layer reads
    assert "buffer" not in drawn.alt  # nor what else has no bytes


def test_many_bars_keep_the_largest_and_sum_the_rest():
    ax = DRAWINGS["ledger of 100"]().figure.axes[1]
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert labels == [f"layer {i}" for i in range(60, 100)] + ["60 smaller ones"]
    assert sum(area_by_row(patches(ax, "activation")[0]).values()) * 2**30 == pytest.approx(sum(range(100)) * MiB)


def test_saved_bars_are_the_rows():
    saved = long_saved()
    drawn = figures.saved_bars(saved)
    ax = drawn.figure.axes[1]
    for kind in ("activation", "parameter", "input", "buffer"):
        got = area_by_row(patches(ax, kind)[0])
        wanted = {i: row.nbytes for i, row in enumerate(saved) if row.kind == kind and row.nbytes}
        assert {y: round(x * MiB) for y, x in got.items()} == wanted
        assert f"{kind} {units.size(saved.of(kind).nbytes)}" in drawn.alt
    assert [t.get_text().split(",")[0] for t in ax.texts] == [units.size(row.nbytes) for row in saved]


def test_a_saved_view_does_not_claim_its_whole_storages_bytes():
    x = torch.randn(4, 6, requires_grad=True)
    drawn = figures.saved_bars(saved_tensors(lambda: (x * 1)[:, :3].square()))
    assert [t.get_text() for t in drawn.figure.axes[1].texts] == ["96 B, part saved: 4×3"]


def test_allocator_map_is_the_segments(mlp):
    gpu = mlp["reentrant"].allocator
    paper, *pools = figures.allocator_map(gpu).figure.axes
    for ax, pool in zip(pools, ("large", "small"), strict=True):
        segments = [s for s in gpu.segments if s.pool == pool]
        assert [t.get_text() for t in ax.get_yticklabels()] == [units.size(s.size) for s in segments]
        wanted = {}
        for y, segment in enumerate(segments):
            for block in segment.blocks:
                category = block.tag.category if block.allocated else "free"
                wanted.setdefault(category, Counter())[y] += block.size
        for category, rows in wanted.items():
            got = area_by_row(patches(ax, category)[0])
            assert {y: round(x * MiB) for y, x in got.items()} == rows


def test_allocator_map_without_tags():
    gpu = CachingAllocator()
    gpu.malloc(4 * MiB)
    gpu.malloc(5 * MiB, tag="my tensor")
    drawn = figures.allocator_map(gpu)
    assert "untagged 9.00 MiB, free 11.00 MiB" in drawn.alt
    assert "my tensor 5.00 MiB" in [t.get_text() for t in drawn.figure.axes[1].texts]


# ---- shown, saved, refused ------------------------------------------------------------------------------------------
def test_jupyter_gets_svg_and_words_and_files_are_written(tmp_path):
    drawn = DRAWINGS["ledger"]()
    assert drawn._repr_mimebundle_() == {"image/svg+xml": drawn.svg(), "text/plain": drawn.alt}
    drawn.save(tmp_path / "figure.svg")
    drawn.save(tmp_path / "figure.png")
    assert (tmp_path / "figure.svg").read_text(encoding="utf-8") == drawn.svg()
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_own_figures_in_the_books_style():
    with figures.style():
        figure = Figure(figsize=(3, 2))
        figure.subplots().plot([1, 2], [0.123, 0.125])
    text = figures.svg(figure, "A line from 1 to 2 & <on>.")
    assert "<desc>A line from 1 to 2 &amp; &lt;on&gt;.</desc>" in text
    assert ">0.1230<" in text  # labels keep their decimals


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: figures.timeline(Timeline()), CkptError, "no bytes were in use"),
        (lambda: figures.timeline([1, 2]), CkptError, "ck.measure returns.*got list"),
        (lambda: figures.compare({"one": tiny_timeline(2)}), CkptError, "two or three"),
        (lambda: figures.ledger_bars({}), CkptError, "nothing to draw"),
        (lambda: figures.ledger_bars([1]), CkptError, "got list"),
        (lambda: figures.ledger_bars({"a": 3}), CkptError, "label"),
        (
            lambda: figures.ledger_bars({"a": {"activations": 3}}),
            CkptError,
            "'activations': expected one of parameter",
        ),
        (lambda: figures.ledger_bars({"a": {"input": -3}}), CkptError, "negative"),
        (lambda: figures.saved_bars(SavedTensors()), CkptError, "nothing to draw"),
        (lambda: figures.allocator_map(CachingAllocator()), CkptError, "no segment"),
        (lambda: figures.allocator_map(3), CkptError, "got int"),
        (lambda: figures.fit_bars({"none": 3}), CkptError, "expected the answer of ck.fit.*got dict"),
        (lambda: figures.fit_bars(Fits({}, {})), CkptError, "no strategy"),
    ],
)
def test_what_cannot_be_drawn_is_refused_clearly(call, error, match):
    with pytest.raises(error, match=match):
        call()


# ---- schedules ------------------------------------------------------------------------------------------------------
def test_a_schedule_is_drawn_box_by_box():
    plan = revolve(16, 3)
    cost, figure = plan.cost(CHAIN), figures.schedule(plan, CHAIN, "ms").figure
    top, low = figure.axes[1:]
    for label, expected in (("first forward", 16), ("repeated forward", cost.forwards - 16), ("backward", 2 * 16)):
        (patch,) = patches(top, label)
        assert sum(area_by_row(patch).values()) == pytest.approx(expected)  # a box is as wide as its time
    (alive,) = [artist for artist in low.patches if artist.get_label() == "alive"]
    assert max(alive.get_data().values) * MiB == cost.peak
    assert any(text.get_text() == f"peak {units.size(cost.peak)}" for text in low.texts)


def test_steps_of_a_chain_that_takes_no_time_are_equally_wide():
    plan, free = revolve(16, 3), replace(CHAIN, ftime=[0] * 16, btime=[0] * 16)
    figure = figures.schedule(plan, free, "FLOPs").figure
    top, low = figure.axes[1:]
    for label, expected in (("first forward", 16), ("repeated forward", plan.cost().forwards - 16), ("backward", 16)):
        (patch,) = patches(top, label)
        assert sum(area_by_row(patch).values()) == pytest.approx(expected)
    assert low.get_xlabel() == "steps (all times are 0 FLOPs)"
    assert figures.schedule(plan, free).figure.axes[2].get_xlabel() == "steps (all times are 0)"
    (alive,) = [artist for artist in low.patches if artist.get_label() == "alive"]
    assert max(alive.get_data().values) * MiB == plan.cost(free).peak == plan.cost(CHAIN).peak


def test_a_trade_off_needs_points():
    for wrong in ({}, {"a": []}, {str(i): [(1, 1)] for i in range(6)}):
        with pytest.raises(CkptError, match="nothing to draw|can be told apart"):
            figures.pareto(wrong)
