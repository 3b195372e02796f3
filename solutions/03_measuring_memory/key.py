"""What is known about wrong answers to assignment 3, and what to say to each."""

from functools import lru_cache, partial
from itertools import accumulate

from tasks import MiB, check

import ckptlib as ck

# ---- Task 1: peak_of ----


def sums(events):
    return list(accumulate(nbytes for _, nbytes in events))


def facts(events, **wrong):
    live = sums(events)
    return {"peak": max(live), "left": live[-1], "moment": live.index(max(live))} | wrong


told = check.peak_of.mistake
told("That is all that was ever taken. What was given back in between is not in use: add up both kinds of events.")(
    lambda events: facts(events, peak=sum(n for _, n in events if n > 0))
)
told("That is what is left at the end. The peak is the largest of the sums on the way there.")(
    lambda events: facts(events, peak=sums(events)[-1])
)
told("That is the largest single tensor. A peak is of everything that is in use at once.")(
    lambda events: facts(events, peak=max(n for _, n in events))
)
told("The peak is in use at more than one moment here; the first one was asked.")(
    lambda events: facts(events, moment=len(events) - 1 - sums(events)[::-1].index(max(sums(events))))
)
told("One too many: events are counted from 0.")(lambda events: facts(events, moment=facts(events)["moment"] + 1))
told("That is the event that takes most. The moment of the peak is where the running sum is largest.")(
    lambda events: facts(events, moment=max(range(len(events)), key=lambda i: events[i][1]))
)
told("That is the peak. What is left is the last of the running sums.")(
    lambda events: facts(events, left=max(sums(events)))
)
told("That is all that was ever taken. What is left is that minus what was given back.")(
    lambda events: facts(events, left=sum(n for _, n in events if n > 0))
)

# ---- Task 2: alive_at_peak ----


def alive(events, moment, order=lambda entry: (-entry[1], entry[0]), keep=False):
    there = {}
    for name, nbytes in events[: moment + 1]:
        if nbytes > 0:
            there[name] = nbytes
        elif not keep:
            there.pop(name, None)
    return sorted(there.items(), key=order)


def taken(events):
    """Every event that takes something, those of one name included."""
    return sorted((event for event in events if event[1] > 0), key=lambda entry: (-entry[1], entry[0]))


def with_sizes(events, size):
    there = [(name, size[name]) for name, _ in alive(events, peak_moment(events))]
    return sorted(there, key=lambda entry: (-entry[1], entry[0]))


def peak_moment(events):
    return facts(events)["moment"]


told = check.alive_at_peak.mistake
told("That is what is alive at the end. Stop at the moment of the peak.")(lambda events: alive(events, len(events)))
for still in (lambda events, m: alive(events, m, keep=True), lambda events, m: taken(events[: m + 1])):
    told("What was given back before the peak is still in the list: a negative event takes its name out.")(
        lambda events, still=still: still(events, peak_moment(events))
    )
    told("Everything that was ever taken is in the list. Which of it is in use at the moment of the peak?")(
        lambda events, still=still: still(events, len(events))
    )


@told("What was given back before the peak is still in the list, with 0 bytes. It is not in use: leave it out.")
def with_zeros(events):
    before = {name: 0 for name, _ in events[: peak_moment(events) + 1]}
    there = before | dict(alive(events, peak_moment(events)))
    return sorted(there.items(), key=lambda entry: (-entry[1], entry[0]))


@told("A name that was given back and then taken again, before the peak, is missing.")
def never_again(events):
    before = [name for name, nbytes in events[: peak_moment(events) + 1] if nbytes < 0]
    return [(name, nbytes) for name, nbytes in alive(events, peak_moment(events)) if name not in before]


told("A name was given back and taken again: its size is that of the first time, not the one it has at the peak.")(
    lambda events: with_sizes(events, {name: nbytes for name, nbytes in reversed(events) if nbytes > 0})
)
told("A name is taken again after the peak: its size is that of the last time, not the one it has at the peak.")(
    lambda events: with_sizes(events, {name: nbytes for name, nbytes in events if nbytes > 0})
)
told("The event that reaches the peak is missing: it belongs to the moment. Python's slices leave their end out.")(
    lambda events: alive(events, peak_moment(events) - 1)
)
told("That is the last moment at which the peak is in use; the first one was asked.")(
    lambda events: alive(events, len(events) - 1 - sums(events)[::-1].index(max(sums(events))))
)
for order in (lambda entry: (entry[1], entry[0]), lambda entry: entry[1]):
    told("The right tensors, smallest first. Largest first was asked.")(
        lambda events, order=order: alive(events, peak_moment(events), order=order)
    )
for order in (lambda entry: -entry[1], lambda entry: (-entry[1], [-ord(letter) for letter in entry[0]])):
    told("The right tensors, largest first, but two have the same size: these go in the order of their names.")(
        lambda events, order=order: alive(events, peak_moment(events), order=order)
    )
told("The right tensors, in the order in which they were taken. Largest first was asked.")(
    lambda events: alive(events, peak_moment(events), order=lambda entry: 0)
)
told("The right tensors, in the order of their names. Largest first was asked.")(
    lambda events: alive(events, peak_moment(events), order=lambda entry: entry[0])
)

# ---- Task 3: first_block ----


def round_up(n, step):
    return -(-n // step) * step


def block(
    nbytes,
    *,
    rounded=None,
    small=lambda n: n <= MiB,
    medium=lambda n: n < 10 * MiB,
    step=2 * MiB,
    cuts=lambda n: n > MiB,
):
    rounded = round_up(nbytes, 512) if rounded is None else rounded
    pool = "small" if small(rounded) else "large"
    segment = 2 * MiB if pool == "small" else 20 * MiB if medium(rounded) else round_up(rounded, step)
    rest = segment - rounded
    is_cut = rest >= 512 if pool == "small" else cuts(rest)
    return {"rounded": rounded, "pool": pool, "segment": segment, "allocated": rounded if is_cut else segment}


told = check.first_block.mistake
told("A request of exactly 1 MiB was sent to the large pool: rounding leaves it as it is, and 1 MiB is still small.")(
    lambda n: block(n, small=lambda size: size < MiB)
)
told("Rounding comes first: a little less than 10 MiB becomes 10 MiB, which is no longer under 10 MiB.")(
    lambda n: block(n, medium=lambda size: n < 10 * MiB)
)
told("A multiple of 512 is not rounded up any further.")(lambda n: block(n, rounded=n // 512 * 512 + 512))
for rounding in (lambda n: n, lambda n: n // 512 * 512):
    told("Rounded down, or not at all: a request is rounded up to a multiple of 512.")(
        lambda n, rounding=rounding: block(n, rounded=rounding(n))
    )
told("A request of exactly 10 MiB gets a segment made to measure: 20 MiB are for those under 10 MiB.")(
    lambda n: block(n, medium=lambda size: size <= 10 * MiB)
)
told("A segment of the large pool has 20 MiB if the request is under 10 MiB.")(
    lambda n: block(n, medium=lambda size: False)
)
told("From 10 MiB on a segment is made to measure: the request rounded up to 2 MiB, not always 20 MiB.")(
    lambda n: block(n, medium=lambda size: size < 20 * MiB)
)
told("A segment for a large request is rounded up to a multiple of 2 MiB.")(
    lambda n: block(n) | ({"segment": block(n)["rounded"]} if n >= 10 * MiB else {})
)
told("From 10 MiB on a segment is rounded up to a multiple of 2 MiB, not of 20 MiB.")(lambda n: block(n, step=20 * MiB))
told("The small pool ends at 1 MiB. What 10 MiB decide is the size of a large segment.")(
    lambda n: block(n) | {"pool": "small" if block(n)["rounded"] < 10 * MiB else "large"}
)
told("A rest of exactly 1 MiB is not cut off in the large pool: it must be more than 1 MiB.")(
    lambda n: block(n, cuts=lambda rest: rest >= MiB)
)
told("In the small pool a rest of 512 B or more is cut off: more than 1 MiB is the large pool's rule.")(
    lambda n: block(n) | ({"allocated": 2 * MiB} if block(n)["rounded"] == MiB else {})
)
told(
    "That is always the rounded request. From 10 MiB on a segment is a multiple of 2 MiB, and in the large pool a rest "
    "of up to 1 MiB stays with the tensor and counts as allocated; 512 B is the small pool's rule."
)(lambda n: block(n, cuts=lambda rest: True))
told(
    "That is what is reserved. Allocated is the block that the tensor got: the rest is cut off if it is large enough."
)(lambda n: block(n, cuts=lambda rest: False) | {"allocated": block(n)["segment"]})

# ---- Task 4: Allocator ----


class Piece:
    def __init__(self, address, size, pool, segment):
        self.address, self.size, self.pool, self.segment, self.free = address, size, pool, segment, True


class Small:
    """The reference in short, with a switch for everything that can be wrong."""

    best, any_pool, strict = staticmethod(lambda b: (b.size, b.address)), False, False
    merges, across, wraps, keeps, counts = "both", False, False, False, "first"
    marks, forgets = True, ""

    def __init__(self):
        self.blocks, self.allocated, self.peak, self.reserved, self.next_address = [], 0, 0, 0, 0

    def malloc(self, nbytes):
        about = block(nbytes)
        size, pool = about["rounded"], about["pool"]
        fitting = [b for b in self.blocks if b.free and (b.pool == pool or self.any_pool) and b.size >= size]
        fitting = [b for b in fitting if b.size > size or not self.strict]
        found = min(fitting, key=self.best, default=None)
        if found is None:
            found = Piece(self.next_address, about["segment"], pool, self.next_address)
            self.blocks.append(found)
            self.reserved += found.size
            self.next_address += found.size
        rest = found.size - size
        if rest >= 512 if found.pool == "small" else rest > MiB:
            i = self.blocks.index(found)
            self.blocks.insert(i + 1, Piece(found.address + size, rest, found.pool, found.segment))
            found.size = size
        found.free = False
        self.allocated += found.size
        self.peak = max(self.peak, self.allocated)
        return found

    def free(self, piece):
        self.allocated -= piece.size if self.counts == "first" else 0
        piece.free = self.marks
        i = self.blocks.index(piece)
        behind, front = (i, i + 1), (i - 1, i)
        pairs = {"right": [behind], "left": [front], "none": [], "left or right": [front, behind]}
        for left, right in pairs.get(self.merges, [behind, front]):
            if (left < 0 and not self.wraps) or right >= len(self.blocks):
                continue
            a, b = self.blocks[left], self.blocks[right]
            if a.free and b.free and (a.segment == b.segment or self.across):
                a.size += b.size
                self.blocks[right : right + 1] = [b] if self.keeps else []
                if " or " in self.merges:
                    break
        self.allocated -= piece.size if self.counts == "late" else 0

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        goes = [b for b in self.blocks if b.free and (b.segment not in used or self.forgets == "neighbours")]
        if self.forgets == "everything":
            return
        if self.forgets == "to write it":
            raise NotImplementedError
        if self.forgets == "a copy":
            for b in self.blocks:
                if b in goes:
                    self.blocks.remove(b)
                    self.reserved -= b.size
            return
        if self.forgets == "addresses":
            self.next_address -= sum(b.size for b in goes)
        if self.forgets != "reserved":
            self.reserved -= sum(b.size for b in goes)
        if self.forgets != "blocks":
            self.blocks = [b for b in self.blocks if b not in goes]


def wrong(message, **switches):
    check.Allocator.mistake(message, type("Wrong", (Small,), switches))


ADDRESS = staticmethod(lambda b: b.address)
LARGEST = staticmethod(lambda b: (-b.size, b.address))
wrong("The largest free block is handed out. Best fit takes the smallest one that is large enough.", best=LARGEST)
wrong(
    "The first free block that fits is handed out. Best fit takes the smallest one that is large enough.", best=ADDRESS
)
wrong(
    "Of two free blocks that fit equally well, the one at the lowest address is handed out.",
    best=staticmethod(lambda b: (b.size, -b.address)),
)
wrong("A request of one pool got a block of the other: small and large requests never share a segment.", any_pool=True)
wrong("A free block of exactly the size that is asked for fits, too: `>=`, not `>`.", strict=True)
wrong("free does not lower `allocated`: a block that was given back is no longer allocated.", counts="never")
wrong(
    "`allocated` is lowered by the size of the merged block. Subtract the block's own size, before it is merged.",
    counts="late",
)
wrong("free does not mark the block as free: it is never handed out again.", marks=False)
wrong("Freed blocks are not merged, or on one side only: free neighbours become one block.", merges="none")
wrong("The block is merged with the one behind it, but not with the one in front of it.", merges="right")
wrong("The block is merged with the one in front of it, but not with the one behind it.", merges="left")
for merges in ("right or left", "left or right"):
    wrong("A block between two free ones is merged with one of them only: it merges with both.", merges=merges)
wrong("Blocks of two segments were merged. Their addresses touch, but each segment is CUDA's own piece.", across=True)
wrong("The first block has none in front of it: in Python, blocks[-1] is the last one.", wraps=True)
wrong("Merged, but the list still holds the block that is now a part of its neighbour.", keeps=True)
wrong("empty_cache does nothing: segments that are wholly free go back to CUDA.", forgets="everything")
wrong("Not written yet: the stub of empty_cache still stands there.", forgets="to write it")
wrong("The blocks are gone, but `reserved` still counts them.", forgets="reserved")
wrong("`reserved` went down, but the blocks are still there to be handed out.", forgets="blocks")
wrong(
    "Free blocks of a segment that is partly in use were given back. CUDA takes whole segments.", forgets="neighbours"
)
wrong(
    "A segment that is wholly free stayed. A list that is shortened while a loop goes through it skips an entry: go "
    "through a copy, list(self.blocks).",
    forgets="a copy",
)
wrong("`next_address` went down. A new segment has addresses that were never used before.", forgets="addresses")
for best in (LARGEST, ADDRESS):
    wrong(
        "Two mistakes at once: the block handed out is not the smallest that fits, and freed blocks are not merged.",
        best=best,
        merges="none",
    )

# ---- Task 5: whole_step ----


@lru_cache(maxsize=32)
def measured(build, arguments, device, builds):
    """Once for all mistakes: they read different things off the same run."""
    return ck.measure(partial(build, *arguments), device, builds=builds, fake=True)


def figures(build, device="sim:cuda", builds=True):
    run = measured(build.func, build.args, device, builds)
    line = run.timeline
    return run, {
        "forward": run.forward_peak,
        "step": run.peak,
        "phase": line.changes[line.peak_moment].phase,
        "activations": run.by_category.get("activation", 0),
    }


def forward_moment(run):
    line = run.timeline
    end = next(i for i, c in enumerate(line.changes) if c.phase != "forward")
    return max(range(end), key=lambda i: line.totals[i])


told = check.whole_step.mistake


@told("That is the peak before backward. The step goes on: gradients, temporaries, the optimizer.")
def stops_early(build):
    run, found = figures(build)
    return found | {"step": run.forward_peak, "phase": "forward"}


@told("That is what the activations asked for. Blocks count: rounded up, and with rests that were not cut off.")
def asked_for(build):
    run, found = figures(build)
    asked = (c.owner.nbytes for c in run.at_peak if c.owner.category == "activation")
    return found | {"activations": sum(asked)}


@told("That counts tensors alone, as on a CPU. A GPU counts blocks and workspaces: device 'sim:cuda'.")
def on_the_cpu(build):
    return figures(build, "cpu")[1]


@told("build was measured, and the step that it returns never ran. Say builds=True.")
def never_run(build):
    return figures(build, builds=False)[1]


@told("Those are the activations alive at the peak of the forward pass. At the peak of the step it is others, or none.")
def activations_in_forward(build):
    run, found = figures(build)
    return found | {"activations": run.timeline.by_category(forward_moment(run)).get("activation", 0)}


@told("That is the whole peak. Of what is alive there, only the activations were asked.")
def everything_alive(build):
    run, found = figures(build)
    return found | {"activations": run.peak}


@told("Those are all activations that the step ever makes. At the peak only some are alive, or none.")
def all_activations(build):
    run, found = figures(build)
    made = [c.nbytes for c in run.timeline.changes if c.owner.category == "activation" and c.nbytes > 0]
    return found | {"activations": sum(made)}


@told("That is the phase in which the step ends. In which phase is the running sum largest?")
def last_phase(build):
    run, found = figures(build)
    return found | {"phase": run.timeline.changes[-1].phase}


@told("That is the peak of the whole step. `forward` ends where backward begins.")
def no_forward(build):
    run, found = figures(build)
    return found | {"forward": run.peak}


@told("That is what is reserved: whole segments, with what is free in them. The peak of what is in use was asked.")
def what_is_reserved(build):
    run, found = figures(build)
    return found | {"step": run.reserved}


def beside_the_peak(build, by):
    run, found = figures(build)
    changes, moment = run.timeline.changes, run.timeline.peak_moment + by
    phase = changes[moment].phase if moment < len(changes) else None
    return found | {"phase": phase, "activations": run.timeline.by_category(moment).get("activation", 0)}


for by in (-1, 1):
    told("One change too early or too late: changes[peak_moment] is the one that reaches the peak.")(
        lambda build, by=by: beside_the_peak(build, by)
    )
