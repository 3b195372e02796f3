"""What is known about wrong answers to assignment 4, and what to say to each."""

import contextlib
import itertools
from collections import Counter
from pathlib import Path

import torch
from tasks import check
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

# ---- Task 1: predict_trace ----


def about(kind, message, wrong):
    """A wrong prediction for one kind of checkpoint; n layers, m of them in the segment."""
    check.predict_trace.mistake(message)(lambda n, m, asked: wrong(n, m) if asked == kind else None)


STOPS = "The last layer of the segment begins again, but early stop leaves it half-way: its hook prints nothing then."
about("nonreentrant", STOPS, lambda n, m: (n + m, n + m))
about("nonreentrant", STOPS, lambda n, m: (n + m, n))
GRAD_ON = "A non-reentrant segment runs with gradients on, both times: its hook says True, whatever is stored."
about("nonreentrant", GRAD_ON, lambda n, m: (n + m - 1, n - 1))
about("nonreentrant", GRAD_ON, lambda n, m: (n + m - 1, n))
NO_GRAD = (
    "A reentrant segment runs under no_grad at first: there the hook says False. In the recomputation it says True."
)
about("reentrant", NO_GRAD, lambda n, m: (n + m, n + m))
about("reentrant", NO_GRAD, lambda n, m: (n + m, n - m))
about(
    "reentrant",
    "A reentrant checkpoint has no early stop: it runs its whole segment again.",
    lambda n, m: (n + m - 1, n - 1),
)
about(
    "reentrant",
    "A reentrant checkpoint has no early stop: it runs its whole segment again.",
    lambda n, m: (n + m - 1, n),
)
for kind in ("reentrant", "nonreentrant"):
    for true in (lambda n, m: n - m, lambda n, m: n):
        message = (
            "The recomputation was forgotten: the layers of the segment run again in backward, and hooks fire again."
        )
        about(kind, message, lambda n, m, true=true: (n, true(n, m)))
about("none", "Without a checkpoint every layer runs once, with gradients on.", lambda n, m: (n + m, n))
about("none", "Without a checkpoint every layer runs once, with gradients on.", lambda n, m: (n, n - m))

# ---- Task 2: logged ----

told = check.logged.mistake


def logger(register, after):
    """A context manager from two pieces: what to register, and how to end."""

    @contextlib.contextmanager
    def logged(model):
        log, handles = [], []
        for name, module in model.named_modules():
            handles.append(register(module, name, log))
        with after(model, handles):
            yield log

    return logged


def pre_hook(module, name, log):
    return module.register_forward_pre_hook(lambda m, args: log.append(name))


@contextlib.contextmanager
def finally_removed(model, handles):
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def removed_if_all_is_well(model, handles):
    yield
    for handle in handles:
        handle.remove()


@contextlib.contextmanager
def never_removed(model, handles):
    yield


@contextlib.contextmanager
def cleared(model, handles):
    try:
        yield
    finally:
        for module in model.modules():
            module._forward_pre_hooks.clear()


@contextlib.contextmanager
def swallowed(model, handles):
    try:
        yield
    except Exception:
        pass
    finally:
        for handle in handles:
            handle.remove()


def late(after):
    @contextlib.contextmanager
    def logged(model):
        log, handles = [], []
        for name, module in model.named_modules():
            handles.append(module.register_forward_pre_hook(lambda m, args: log.append(name)))  # noqa: B023
        with after(model, handles):
            yield log

    return logged


@contextlib.contextmanager
def logs_nothing(model):
    yield []


told(
    "The log is empty. A forward pre-hook is called when a forward begins; a forward hook is called when it ends, and "
    "not at all if it fails."
)(logs_nothing)
told("Hooks stay on the model when the block raises: what comes after `yield` is not reached. try, and finally.")(
    logger(pre_hook, removed_if_all_is_well)
)
SAME = "Every entry is the last module's name: the lambda looks `name` up when it is called, after the loop. name=name."
told(SAME)(late(finally_removed))
told(f"{SAME} And hooks stay on the model when the block raises: try, and finally.")(late(removed_if_all_is_well))
told("Hooks that others had put on the model are gone: remove your own, by their handles.")(logger(pre_hook, cleared))
told("Hooks stay on the model after the block: keep the handles, and remove them.")(logger(pre_hook, never_removed))
told("The block's error was swallowed: clean up, and let it be raised on. finally does, except does not.")(
    logger(pre_hook, swallowed)
)
told("The log is in the order in which forwards end. A forward pre-hook is called when they begin.")(
    logger(
        lambda module, name, log: module.register_forward_hook(lambda m, args, out: log.append(name)), finally_removed
    )
)

# ---- Task 3: count_calls ----

told = check.count_calls.mistake


def counter(register, phase):
    def count_calls(model, step):
        counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
        for name, module in model.named_modules():

            def note(*_, name=name):
                counts[name][phase(counts[name])] += 1

            handles.append(getattr(module, register)(note))
        with finally_removed(model, handles):
            step()
        return counts

    return count_calls


def in_backward(_):
    return torch._C._current_graph_task_id() != -1


told(
    "A call that early stop cuts is missing: a forward hook is called at the end, which "
    "is never reached. Count where calls begin."
)(counter("register_forward_hook", in_backward))
told(
    "A second call is not a recomputation: layers may be called twice, and step may run "
    "forward several times. Is backward under way?"
)(counter("register_forward_pre_hook", lambda pair: sum(pair) > 0))
told("All calls were taken for forward ones. A module that begins while backward is under way is recomputed.")(
    counter("register_forward_pre_hook", lambda _: 0)
)
told(
    "Grad mode does not tell the phase: a non-reentrant checkpoint has it on both times, and so has every plain layer."
)(counter("register_forward_pre_hook", lambda _: torch.is_grad_enabled()))
told(
    "Calls that end were counted, and all of them as forward ones. Count where calls begin, "
    "and ask whether backward is under way."
)(counter("register_forward_hook", lambda _: 0))

# ---- Task 4: bf16_hooks ----

told = check.bf16_hooks.mistake


def left_alone(t):
    return isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point()


def packing(low=torch.bfloat16, alone=left_alone):
    return (lambda t: (t if alone(t) else t.to(low), t.dtype)), (lambda packed: packed[0].to(packed[1]))


told(
    "It comes back in another dtype than it had: the model may be float64. Keep the dtype beside the low tensor.",
    lambda t: t if left_alone(t) else t.to(torch.bfloat16),
    lambda low: low.float() if low.dtype == torch.bfloat16 else low,
)
told(
    "What comes back is still bfloat16: autograd wants the dtype that it saved. Convert it in unpack_bf16.",
    lambda t: t if left_alone(t) else t.to(torch.bfloat16),
    lambda low: low,
)
told(
    "Parameters were packed, too: a linear layer saves weight.t(), a view. They are there anyway: a copy is extra.",
    *packing(alone=lambda t: isinstance(t, nn.Parameter) or not t.is_floating_point()),
)
told(
    "Integers went through bfloat16, which has 8 bits of precision: 1001 comes back as 1000. Pack floating-point only.",
    *packing(alone=lambda t: isinstance(t if t._base is None else t._base, nn.Parameter)),
)
told("Nothing is packed: the tensors stay as they are.", lambda t: t, lambda t: t)
told(
    "That is float16: as short as bfloat16, but it ends at 65,504. Larger values became infinite.",
    *packing(torch.float16),
)

# ---- Task 5: stored_by ----

told = check.stored_by.mistake


def home(t):
    return t.untyped_storage().data_ptr()


def by_saver(count=None, parameters=False, stack=True):
    """The reference, with something left out."""

    def stored_by(model, x):
        names = {module: name for name, module in model.named_modules()}
        own = set() if parameters else {home(p) for p in model.parameters()}
        seen, running, nbytes, handles = set(), [""], Counter(), []

        def pack(t):
            if home(t) not in own:
                whole = 0 if home(t) in seen else t.untyped_storage().nbytes()
                nbytes[running[-1]] += t.nbytes if count == "tensors" else whole
                seen.add(home(t))
            return t

        def ended(module, args, out):
            if stack:
                running.pop()

        for module in names:
            handles.append(module.register_forward_pre_hook(lambda m, args: running.append(names[m])))
            handles.append(module.register_forward_hook(ended))
        with finally_removed(model, handles), saved_tensors_hooks(pack, lambda t: t):
            result = model(x)
        del result
        return dict(nbytes)

    return stored_by


told(
    "No module has any bytes: the dict is empty, or holds zeros, or its keys are no names of model.named_modules(). "
    "What autograd saves is shown to a pack hook."
)(lambda model, x: {})
told("A storage that two ops save was counted twice: count each once, for whoever saved it first.")(by_saver("tensors"))
told("Parameters were counted. They are saved as views: compare storages with the parameters'.")(
    by_saver(parameters=True)
)
told("A module's bytes went to a submodule that had ended already: take a name off the list in a forward hook.")(
    by_saver(stack=False)
)


@told("That is grad mode: the bytes of every output that requires a gradient. Ask what autograd saves: a pack hook.")
def by_requires_grad(model, x):
    nbytes, handles = {}, []
    for name, module in model.named_modules():
        handles.append(
            module.register_forward_hook(
                lambda m, args, out, name=name: nbytes.update({name: out.nbytes if out.requires_grad else 0})
            )
        )
    with finally_removed(model, handles):
        model(x)
    return nbytes


@told(
    "Bytes went to the module that made the tensor. Asked is who saved it: the module that runs "
    "when the pack hook is called."
)
def by_maker(model, x):
    outputs, saved, handles = {}, [], []
    for name, module in model.named_modules():
        if not list(module.children()):
            handles.append(
                module.register_forward_hook(lambda m, args, out, name=name: outputs.setdefault(name, []).append(out))
            )
    with finally_removed(model, handles), saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        model(x)
    kept = {home(t) for t in saved}
    return {name: sum(out.nbytes for out in outs if home(out) in kept) for name, outs in outputs.items()}


@told(
    "Tensors that a checkpoint drops were counted: your hooks are inside its own. Put one pair around model(x) instead."
)
def inside_checkpoints(model, x):
    names = {module: name for name, module in model.named_modules()}
    seen, running, nbytes, handles = {home(p) for p in model.parameters()}, [], Counter(), []
    held = []

    def pack(t):
        if home(t) not in seen:
            seen.add(home(t))
            held.append(t)
            nbytes[running[-1][0]] += t.untyped_storage().nbytes()
        return t

    def began(module, args):
        running.append((names[module], saved_tensors_hooks(pack, lambda t: t)))
        running[-1][1].__enter__()

    def ended(module, args, out):
        running.pop()[1].__exit__()

    for module in names:
        handles += [module.register_forward_pre_hook(began), module.register_forward_hook(ended)]
    with finally_removed(model, handles):
        model(x)
    return dict(nbytes)


# ---- Task 6: spill ----

told = check.spill.mistake


def spiller(name=None, end="finally", hold=False, swallow=False, to_disk=True, sweep=False):
    @contextlib.contextmanager
    def spill(folder):
        number, paths, held = itertools.count(), [], []

        def pack(t):
            if not to_disk or isinstance(t if t._base is None else t._base, nn.Parameter):
                return t
            path = Path(folder) / (name or f"{next(number)}.pt")
            torch.save(t.detach().clone(), path)
            paths.append(path)
            held.extend([t] * hold)
            return path

        def unpack(packed):
            return torch.load(packed) if isinstance(packed, Path) else packed

        failed = True
        try:
            with saved_tensors_hooks(pack, unpack):
                yield
            failed = False
        except Exception:
            if not swallow:
                raise
        finally:
            if end == "finally" or (end == "if all is well" and not failed):
                for path in Path(folder).iterdir() if sweep else paths:
                    path.unlink(missing_ok=True)

    return spill


told(
    "After an error the files stay: backward never comes, and who keeps the error keeps the graph. Delete in `finally`."
)(spiller(end="if all is well"))
told("The files are never deleted: the end of the block is the place, in `finally`.")(spiller(end="never"))
told("Nothing is written to the folder: what autograd saves still waits in memory.")(spiller(to_disk=False))
told("Every saved tensor needs a file of its own: one overwrote the other.")(spiller(name="saved.pt"))
told("The tensors are on disk, but in memory, too: something still refers to them.")(spiller(hold=True))
told("The block's error was swallowed: clean up, and let it be raised on.")(spiller(swallow=True))
for end in ("finally", "if all is well"):
    told("A file that was in the folder before the block is gone. Delete the files that you wrote, and no others.")(
        spiller(sweep=True, end=end)
    )
