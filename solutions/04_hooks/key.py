"""What is known about wrong answers to assignment 4, and what to say to each."""

import contextlib
import itertools
import tempfile
from collections import Counter
from pathlib import Path

import torch
from tasks import check
from torch import nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.modules.module import register_module_forward_pre_hook

# ---- Task 1: predict_trace ----


def about(kind, message, wrong):
    """A wrong prediction for one kind of checkpoint; n layers, m of them in the segment."""
    check.predict_trace.mistake(message)(lambda n, m, asked: wrong(n, m) if asked == kind else None)


STOPS = "The last layer of the segment begins again, but early stop leaves it half-way: its hook prints nothing then."
about("nonreentrant", STOPS, lambda n, m: (n + m, n + m))
about("nonreentrant", STOPS, lambda n, m: (n + m, n))
about(
    "nonreentrant",
    "Early stop cuts one layer, the last of the segment: all the others end, and their hooks print.",
    lambda n, m: (n + m - 2, n + m - 2),
)
GRAD_ON = "A non-reentrant segment runs with gradients on, both times: its hook says True, whatever is stored."
about("nonreentrant", GRAD_ON, lambda n, m: (n + m - 1, n - 1))
about("nonreentrant", GRAD_ON, lambda n, m: (n + m - 1, n))
NO_GRAD = (
    "A reentrant segment runs under no_grad at first: there the hook says False. In the recomputation it says True."
)
about("reentrant", NO_GRAD, lambda n, m: (n + m, n + m))
about("reentrant", NO_GRAD, lambda n, m: (n + m, n - m))
WHOLE = "A reentrant checkpoint has no early stop: it runs its whole segment again."
about("reentrant", WHOLE, lambda n, m: (n + m - 1, n - 1))
about("reentrant", WHOLE, lambda n, m: (n + m - 1, n))
about("reentrant", f"{WHOLE} And the first run is under no_grad.", lambda n, m: (n + m - 1, n + m - 1))
SEGMENT = "Only the layers of the segment are recomputed: the others run once."
about("reentrant", SEGMENT, lambda n, m: (2 * n, n))
about("nonreentrant", SEGMENT, lambda n, m: (2 * n - 1, 2 * n - 1))
for kind in ("reentrant", "nonreentrant"):
    for true in (lambda n, m: n - m, lambda n, m: n):
        message = (
            "The recomputation was forgotten: the layers of the segment run again in backward, and hooks fire again."
        )
        about(kind, message, lambda n, m, true=true: (n, true(n, m)))
ALONE = (
    "A segment of one layer is a segment like any other: it is checkpointed, and its layer begins again in backward."
)
about("reentrant", ALONE, lambda n, m: (n + m * (m > 1), n - (m == 1)))
about("reentrant", ALONE, lambda n, m: (n + m * (m > 1), n))
about("nonreentrant", ALONE, lambda n, m: (n + m if m == 1 else n + m - 1,) * 2)
ALL = (
    "The segment may be the whole chain: then all layers are in it, and run again, whether or not anything comes after."
)
about("reentrant", ALL, lambda n, m: (n + m * (m < n), n))
about("nonreentrant", ALL, lambda n, m: (n + (m - 1) * (m < n),) * 2)
about("nonreentrant", ALL, lambda n, m: (n + m - (m < n),) * 2)
INCLUDED = "`layers` counts all layers of the chain, those of the segment included."
about("none", INCLUDED, lambda n, m: (n + m, n + m))
about("reentrant", INCLUDED, lambda n, m: (n + 2 * m, n + m))
about("nonreentrant", INCLUDED, lambda n, m: (n + 2 * m - 1, n + 2 * m - 1))
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
def last_removed(model, handles):
    with finally_removed(model, handles[-1:]):
        yield


@contextlib.contextmanager
def cleared(model, handles):
    try:
        yield
    finally:
        for module in model.modules():
            module._forward_pre_hooks.clear()


def removed_after(errors):
    @contextlib.contextmanager
    def ends(model, handles):
        try:
            with removed_if_all_is_well(model, handles):
                yield
        except errors:
            for handle in handles:
                handle.remove()
            raise

    return ends


def swallowed(errors, after):
    @contextlib.contextmanager
    def ends(model, handles):
        with after(model, handles), contextlib.suppress(errors):
            yield

    return ends


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
told("Hooks stay on the model after the block: one handle was removed. Keep all of them, in a list.")(
    logger(pre_hook, last_removed)
)
told('The model itself is missing in the log. named_modules() gives it first, by the name "".')(
    logger(
        lambda module, name, log: module.register_forward_pre_hook(lambda m, args: log.append(name) if name else None),
        finally_removed,
    )
)
for errors, after in (
    (Exception, finally_removed),
    (RuntimeError, finally_removed),
    (RuntimeError, removed_if_all_is_well),
):
    told("The block's error was swallowed: clean up, and let it be raised on. finally does, except does not.")(
        logger(pre_hook, swallowed(errors, after))
    )
told("Hooks stay on the model if the block raises something else than a RuntimeError: finally runs after any error.")(
    logger(pre_hook, removed_after(RuntimeError))
)
told(
    "Hooks stay on the model when the cell is stopped: a KeyboardInterrupt is not an Exception, so `except Exception` "
    "does not see it. `finally` runs after anything."
)(logger(pre_hook, removed_after(Exception)))


@told("Modules that are not the model's are in the log: another model ran in the block. Log those of `model` alone.")
@contextlib.contextmanager
def logs_all_models(model):
    log, names = [], {module: name for name, module in model.named_modules()}
    handle = register_module_forward_pre_hook(lambda module, args: log.append(names.get(module, type(module).__name__)))
    with finally_removed(model, [handle]):
        yield log


told("Those are the classes of the modules. Their names are those that model.named_modules() gives.")(
    logger(
        lambda module, name, log: module.register_forward_pre_hook(lambda m, args: log.append(type(m).__name__)),
        finally_removed,
    )
)


@told("A module is in the log once, however many times it ran: there is one entry for each forward that begins.")
@contextlib.contextmanager
def logs_each_once(model):
    log = []
    with logger(pre_hook, finally_removed)(model) as every:
        yield log
    log += dict.fromkeys(every)


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


right = counter("register_forward_pre_hook", in_backward)
told("The two numbers are swapped: calls in the forward pass come first, those in a recomputation second.")(
    lambda model, step: {name: (again, first) for name, (first, again) in right(model, step).items()}
)
told("The first number is all calls. Asked are those of the forward pass alone: the others began in backward.")(
    lambda model, step: {name: (first + again, again) for name, (first, again) in right(model, step).items()}
)


@told("All calls went to the last module: the hook looks `name` up when it is called, after the loop. name=name.")
def late_binding(model, step):
    counts = right(model, step)
    total = [sum(numbers) for numbers in zip(*counts.values(), strict=True)]
    return dict.fromkeys(counts, (0, 0)) | {list(counts)[-1]: total}


MORE = "step ran more than once: it trains the model. Put the hooks on first, then run it once."
told(MORE)(lambda model, step: (step(), right(model, step))[1])
told(MORE)(lambda model, step: right(model, lambda: (step(), step())))

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
for by_grad_mode in (lambda _: torch.is_grad_enabled(), lambda _: not torch.is_grad_enabled()):
    told(
        "Grad mode does not tell the phase: it is on in both runs of a non-reentrant segment, and off in an "
        "evaluation. Ask whether backward is under way."
    )(counter("register_forward_pre_hook", by_grad_mode))


@told(
    "Backward hooks were counted: every layer has a backward, whether it is recomputed or not. Count the forwards that "
    "begin while backward is under way."
)
def counts_backwards(model, step):
    counts, handles = {name: [0, 0] for name, _ in model.named_modules()}, []
    for name, module in model.named_modules():

        def began(*_, name=name):
            counts[name][0] += 1

        def reversed_(*_, name=name):
            counts[name][1] += 1

        handles.append(module.register_forward_pre_hook(began))
        handles.append(module.register_full_backward_hook(reversed_))
    with finally_removed(model, handles):
        step()
    return counts


def after_an_error(clean_up):
    """Right, but for what becomes of a step that fails."""

    def count_calls(model, step):
        if clean_up is None:
            with contextlib.suppress(Exception):
                return right(model, step)
            return {}
        handle = model.register_forward_pre_hook(lambda m, args: None)
        found = right(model, step)
        handle.remove()
        return found

    return count_calls


told("Hooks stay on the model when step fails: what comes after step() is not reached. Use try and finally.")(
    after_an_error("if all is well")
)
told("The error of step was swallowed: clean up, and let it be raised on. finally does, except does not.")(
    after_an_error(None)
)
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
    "The shape is lost: what comes back has the shape that was saved, so pack the tensor in that shape.",
    lambda t: (t if left_alone(t) else t.to(torch.bfloat16).flatten(), t.dtype),
    lambda packed: packed[0].to(packed[1]),
)
told(
    "The tensor itself waits, too, beside the low one: keep its dtype, and not the tensor.",
    lambda t: (t if left_alone(t) else t.to(torch.bfloat16), t),
    lambda packed: packed[0].to(packed[1].dtype),
)
told(
    "Parameters were packed, too: a linear layer saves weight.t(), a view. They are there anyway: a copy is extra.",
    *packing(alone=lambda t: isinstance(t, nn.Parameter) or not t.is_floating_point()),
)
told(
    "Integers went through bfloat16, which has 8 bits of precision: 1001 comes back as 1000. Pack floating-point only.",
    *packing(alone=lambda t: isinstance(t if t._base is None else t._base, nn.Parameter)),
)
told("Nothing is packed: as many bytes wait as without hooks.", lambda t: t, lambda t: t)
told(
    "requires_grad does not tell a parameter: what a layer returns requires a gradient, too.",
    *packing(alone=lambda t: t.requires_grad or not t.is_floating_point()),
)
told(
    "A frozen parameter was packed: it requires no gradient, and is a parameter all the same. isinstance tells.",
    *packing(alone=lambda t: left_alone(t) and (t.requires_grad or not t.is_floating_point())),
)
for alone in (lambda t: t._base is not None, lambda t: (t if t._base is None else t._base).is_leaf):
    told(
        "The input is not packed: here it is a transposed view, and its base is a leaf. Neither _base alone nor "
        "is_leaf tells a parameter, nor do strides: isinstance does, of the tensor or of its base.",
        *packing(alone=lambda t, alone=alone: left_alone(t) or alone(t)),
    )
told(
    "Only float32 is packed. Float64 occurs, too.",
    *packing(alone=lambda t: left_alone(t) or t.dtype != torch.float32),
)
told(
    "What pack_bf16 returns holds no tensor that the check can see, so no bytes are counted: return a tensor, or a "
    "tuple, list or dict that holds tensors and dtypes.",
    lambda t: (lambda: t) if left_alone(t) else (lambda: t.to(torch.bfloat16).to(t.dtype)),
    lambda packed: packed(),
)
told(
    "Tensors that are not float32 or float64 were copied: they come back equal, but the copy takes up memory. Return "
    "the tensor itself.",
    lambda t: (t.clone() if not t.is_floating_point() else t if left_alone(t) else t.to(torch.bfloat16), t.dtype),
    lambda packed: packed[0].to(packed[1]),
)
told(
    "Complex tensors went through bfloat16 and lost their imaginary part. Pack floating-point tensors only.",
    *packing(alone=lambda t: left_alone(t) and not t.is_complex()),
)
told(
    "That is float16: as short as bfloat16, but it ends at 65,504. Larger values became infinite.",
    *packing(torch.float16),
)

# ---- Task 5: stored_by ----

told = check.stored_by.mistake


def home(t):
    return t.untyped_storage().data_ptr()


def whole(t):
    return t.untyped_storage().nbytes()


def saves(model, x, parameters=False, stack=True):
    """Each tensor that autograd saves, after the names of the modules that were running, the innermost last."""
    names = {module: name for name, module in model.named_modules()}
    own = set() if parameters else {home(p) for p in model.parameters()}
    running, found, handles = [""], [], []

    def ended(module, args, out):
        if stack:
            running.pop()

    for module in names:
        handles.append(module.register_forward_pre_hook(lambda m, args: running.append(names[m])))
        handles.append(module.register_forward_hook(ended))
    with finally_removed(model, handles), saved_tensors_hooks(lambda t: found.append((*running, t)) or t, lambda t: t):
        model(x)
    return [save for save in found if home(save[-1]) not in own]


def summed(saves, size=whole):
    nbytes = Counter()
    for *running, t in saves:
        nbytes[running[-1]] += size(t)
    return nbytes


def first(saves):
    """Each storage once, as it was saved first."""
    return list({home(save[-1]): save for save in reversed(saves)}.values())


for counted in (lambda model, x: {}, lambda model, x: {"no module": model(x)}):
    told(
        "No module has any bytes: the dict is empty, or holds zeros, or its keys are no names of "
        "model.named_modules(). What autograd saves is shown to a pack hook."
    )(counted)
for size in (whole, lambda t: t.nbytes):
    told("A storage that two ops save was counted twice: count each once, for whoever saved it first.")(
        lambda model, x, size=size: summed(saves(model, x), size)
    )
told("The bytes of a view were counted. It keeps its whole storage: t.untyped_storage() knows that and its nbytes().")(
    lambda model, x: summed(first(saves(model, x)), lambda t: t.nbytes)
)
for size in (whole, lambda t: t.nbytes):
    told(
        "Views of one storage begin at addresses of their own, so it was counted once for each. Take the address of "
        "the storage: t.untyped_storage().data_ptr()."
    )(
        lambda model, x, size=size: summed(
            {save[-1].data_ptr(): save for save in reversed(saves(model, x))}.values(), size
        )
    )
told("An element was taken for 4 bytes, and this model is float64. A storage knows its nbytes().")(
    lambda model, x: summed(first(saves(model, x)), lambda t: 4 * t.numel())
)
told("A module saved several storages, and the last one's bytes stand for all: add them up.")(
    lambda model, x: {running[-1]: whole(t) for *running, t in first(saves(model, x))}
)
told("A storage went to whoever saved it last. It is for whoever saved it first.")(
    lambda model, x: summed(first(saves(model, x)[::-1]))
)
told("The storage of x was left out. It counts as the others do, if it is saved.")(
    lambda model, x: summed(save for save in first(saves(model, x)) if home(save[-1]) != home(x))
)
told("x was made to require a gradient: then more is saved. Run model(x) with x as it is.")(
    lambda model, x: summed(first(saves(model, x.clone().requires_grad_())))
)


@told("The model ran more than once. Put the hooks on first, then run model(x) once.")
def with_a_warm_up(model, x):
    model(x)
    return summed(first(saves(model, x)))


@told("A backward ran: it changes the .grad of the parameters. What is saved is known after the forward pass.")
def with_backward(model, x):
    result = summed(first(saves(model, x)))
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    return result


@told("Bytes went to every module that was running. They are for the innermost: none of its submodules ran.")
def for_all_that_run(model, x):
    nbytes = Counter()
    for _, *running, t in first(saves(model, x)):
        nbytes.update(dict.fromkeys(running, whole(t)))
    return nbytes


@told("Only modules without submodules have hooks: what a container saves itself is its own. Hook all modules.")
def on_leaves_alone(model, x):
    containers = {name for name, module in model.named_modules() if list(module.children())}
    found = first(saves(model, x))
    return summed(("" if running[-1] in containers else running[-1], t) for *running, t in found)


told("Parameters were counted. They are saved as views: compare storages with the parameters'.")(
    lambda model, x: summed(first(saves(model, x, parameters=True)))
)
told("A module's bytes went to a submodule that had ended already: take a name off the list in a forward hook.")(
    lambda model, x: summed(first(saves(model, x, stack=False)))
)


def by_outputs(size, new):
    def stored_by(model, x):
        nbytes, handles = {}, []
        for name, module in model.named_modules():
            handles.append(
                module.register_forward_hook(
                    lambda m, args, out, name=name: nbytes.update({name: new(nbytes.get(name, 0)) + size(out)})
                )
            )
        with finally_removed(model, handles):
            model(x)
        return nbytes

    return stored_by


for size in (lambda out: out.nbytes if out.requires_grad else 0, lambda out: out.nbytes):
    for new in (lambda before: 0, lambda before: before):  # of a module that is called twice: the last call, or all
        told(
            "Those are the bytes of outputs, whether of all or of those that require a gradient. Neither says what was "
            "saved. Ask what autograd saves: a pack hook."
        )(by_outputs(size, new))


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


def its_error(swallowed):
    """Right, but for what becomes of a forward pass that fails."""

    def stored_by(model, x):
        if swallowed:
            with contextlib.suppress(Exception):
                return summed(first(saves(model, x)))
            return {}
        handle = model.register_forward_pre_hook(lambda m, args: None)
        found = summed(first(saves(model, x)))
        handle.remove()
        return found

    return stored_by


told("Hooks stay on the model when its forward fails: what comes after model(x) is not reached. Use try and finally.")(
    its_error(swallowed=False)
)
told("The model's error was swallowed: clean up, and let it be raised on. finally does, except does not.")(
    its_error(swallowed=True)
)
# ---- Task 6: spill ----

told = check.spill.mistake


def spiller(
    name=None,
    end="finally",
    hold=False,
    swallow=False,
    where="",
    sweep=False,
    parameters=False,
    low=None,
    once=False,
    sub="",
):
    @contextlib.contextmanager
    def spill(folder):
        number, paths, held = itertools.count(), [], []

        def pack(t):
            own = isinstance(t if t._base is None else t._base, nn.Parameter) and not parameters
            if own or where == "memory" or (where == "integers in memory" and not t.is_floating_point()):
                return t
            path = Path(elsewhere if where == "elsewhere" else folder) / sub / (name or f"{next(number)}.pt")
            path.parent.mkdir(exist_ok=True)
            torch.save(t.detach().clone().to(low if low and t.is_floating_point() else t.dtype), path)
            paths.append(path)
            held.extend([t] * hold)
            return path, t.dtype

        def unpack(packed):
            if not isinstance(packed, tuple):
                return packed
            path, dtype = packed
            t = torch.load(path).to(dtype)
            if once:
                path.unlink()
            return t

        ends = "with an error"
        try:
            with tempfile.TemporaryDirectory() as elsewhere, saved_tensors_hooks(pack, unpack):
                yield
            ends = "well"
        except Exception:
            ends = "with an exception"
            if not swallow:
                raise
        finally:
            if end == "finally" or ends == "well" or (end == "after an exception" and ends == "with an exception"):
                for path in (Path(folder).iterdir() if sweep else paths) if end != "never" else ():
                    path.unlink(missing_ok=True)

    return spill


told(
    "After an error the files stay: backward never comes, and who keeps the error keeps the graph. Delete in `finally`."
)(spiller(end="if all is well"))
told("After the block the files stay: its end is the place to delete them, in `finally`.")(spiller(end="never"))
for where in ("memory", "elsewhere"):
    told("Nothing is written to the folder that was given: there, in files, is where saved tensors are to wait.")(
        spiller(where=where)
    )
for parameters in (False, True):
    told(
        "Fewer bytes are in the folder than autograd saved. Every saved tensor needs a file of its own: does one "
        "overwrite the other?"
    )(spiller(name="saved.pt", parameters=parameters))
told("The tensors are on disk, but in memory, too: something still refers to them.")(spiller(hold=True))
for end in ("finally", "after an exception"):
    told("The block's error was swallowed: clean up, and let it be raised on.")(spiller(swallow=True, end=end))
told("No file is left, but a folder of yours is: remove it, too, when the block ends.")(spiller(sub="mine"))
for end in ("finally", "if all is well"):
    told("A file that was in the folder before the block is gone. Delete the files that you wrote, and no others.")(
        spiller(sweep=True, end=end)
    )
told(
    "After an interrupt the files stay: a KeyboardInterrupt is not an Exception, so `except Exception` does not see "
    "it. Delete in `finally`."
)(spiller(end="after an exception"))
told(
    "A tensor's file is gone when it is needed again: one tensor may be read several times, for instance by a second "
    "backward pass. Delete the files when the block ends."
)(spiller(once=True))
for low in (torch.bfloat16, torch.float16, torch.float32):
    told("The gradients are not exact: a tensor is to come back with the dtype and all the digits that it had.")(
        spiller(low=low)
    )
told("Integers stay in memory: every saved tensor goes to disk, whatever its dtype is.")(
    spiller(where="integers in memory")
)
