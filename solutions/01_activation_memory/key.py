"""What is known about wrong answers to assignment 1, and what to say to each."""

from tasks import check
from torch.autograd.graph import saved_tensors_hooks
from torch.nn import Parameter

# ---- Task 1: predict_saved ----


def about(name, message, wrong):
    """A wrong prediction for one op."""
    check.predict_saved.mistake(message)(lambda op, n, d: wrong(n, d) if op == name else None)


NEEDS_NO_VALUE = "{} saves nothing: its derivative is a number, not a value of x. Write the derivative down first."
for name in ("times_3", "plus"):
    about(name, NEEDS_NO_VALUE.format(name), lambda n, d: 4 * n * d)
    about(name, NEEDS_NO_VALUE.format(name), lambda n, d: 8 * n * d)
about("times_3", "3 is a Python number, kept inside the node: no tensor, no bytes.", lambda n, d: 4)
about("square", "x * x saves both factors, and both are x: one storage, counted once.", lambda n, d: 8 * n * d)
about("square", "d(x·x) = 2x·dx needs the values of x.", lambda n, d: 0)
for name in ("exp", "relu", "softmax"):
    about(
        name, f"{name} saves its output, and only that: input and output are not both needed.", lambda n, d: 8 * n * d
    )
    about(name, f"The derivative of {name} is computed from its output: that is saved.", lambda n, d: 0)
about(
    "relu",
    "One byte each, as in a mask, would do, but eager PyTorch saves ReLU's output: a float32 has 4 bytes.",
    lambda n, d: n * d,
)
HALF = "Two bytes were taken for each number. A float32 has four."
check.predict_saved.mistake(HALF)(
    lambda op, n, d: {"times_3": None, "plus": None, "layer_norm": None, "max_pool": None}.get(op, 2 * n * d)
)
ROWS = "Only the rows were counted. A tensor of shape (n, d) has n times d numbers."
check.predict_saved.mistake(ROWS)(
    lambda op, n, d: {"times_3": None, "plus": None, "layer_norm": None, "max_pool": None}.get(op, 4 * n)
)
about("cos", "d cos(x) = -sin(x) dx needs the values of x.", lambda n, d: 0)
about("layer_norm", "Its input, yes, and two numbers for each row besides: mean and 1/std.", lambda n, d: 4 * n * d)
about(
    "layer_norm", "Mean and 1/std are one number each for a row of d, not for each of the d.", lambda n, d: 12 * n * d
)
about("layer_norm", "Two numbers for each row: mean and 1/std. One was counted.", lambda n, d: 4 * n * d + 4 * n)
about("layer_norm", "Mean and 1/std belong to the rows, of which there are n, not d.", lambda n, d: 4 * n * d + 8 * d)
about(
    "max_pool",
    "One of two is missing. It keeps its input, and which of each pair won, as int64: for pairs, as many bytes again.",
    lambda n, d: 4 * n * d,
)
about(
    "max_pool",
    "One of two is too small. It keeps its whole input (not its output), and for each pair an int64, of 8 bytes.",
    lambda n, d: 4 * n * d + 2 * n * d,
)
about(
    "max_pool",
    "That is the size of its output, which no derivative needs. It keeps its input, and which of the two won.",
    lambda n, d: 4 * n * d // 2,
)
about("linear", "dw = dyᵀ @ x needs x. Nothing needs the output.", lambda n, d: 8 * n * d)
about(
    "linear",
    "The weight is saved, but it is a parameter: it is there anyway, and no activation.",
    lambda n, d: 4 * (n + d) * d,
)
about("linear", "dw = dyᵀ @ x: the gradient of the weight needs x.", lambda n, d: 0)
check.predict_saved.mistake("elements were counted, not bytes: a float32 has 4 bytes.")(
    lambda op, n, d: {"layer_norm": n * d + 2 * n, "max_pool": n * d + n * d // 2}.get(op, n * d)
)
check.predict_saved.mistake("This is in MiB. Bytes were asked.")(
    lambda op, n, d: (4 * n * d + {"layer_norm": 8 * n, "max_pool": 4 * n * d}.get(op, 0)) / 2**20
)

# ---- Task 2: saved_nbytes ----


def counting(pack):
    """Run fn and pass every saved tensor to pack(tensor, parameters, seen) -> bytes."""

    def saved_nbytes(fn, parameters):
        sizes, seen = [], []

        def hook(tensor):
            sizes.append(pack(tensor, parameters, seen))
            seen.append(tensor)
            return tensor

        with saved_tensors_hooks(hook, lambda tensor: tensor):
            fn()
        return sum(sizes)

    return saved_nbytes


def home(tensor):
    return tensor.untyped_storage().data_ptr()


def is_among(tensor, others):
    return any(home(tensor) == home(other) for other in others)


def whole(tensor):
    return tensor.untyped_storage().nbytes()


def has_parameter(tensor):
    return isinstance(tensor, Parameter) or isinstance(tensor._base, Parameter)


told = check.saved_nbytes.mistake
LIST = (
    "What does not count is what `parameters` lists: that may be any tensor, and a Parameter that is not on it counts."
)
told(LIST)(counting(lambda t, parameters, seen: 0 if is_among(t, seen) or has_parameter(t) else whole(t)))
told(LIST)(
    counting(lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) or has_parameter(t) else whole(t))
)
told(LIST)(
    counting(
        lambda t, parameters, seen: (
            0 if is_among(t, [*(p for p in parameters if isinstance(p, Parameter)), *seen]) else whole(t)
        )
    )
)
TENSORS = "Tensors were added up. Memory is storages: two tensors may live in one, and then it counts once."
told(TENSORS)(counting(lambda t, parameters, seen: 0 if is_among(t, parameters) else t.nbytes))
told(TENSORS)(counting(lambda t, parameters, seen: 0 if is_among(t, parameters) else whole(t)))
told(
    "The parameters were counted. Linear saves `weight.t()`, a view: no Parameter, but the same storage. "
    "Compare storages, not types."
)(counting(lambda t, parameters, seen: 0 if isinstance(t, Parameter) or is_among(t, seen) else whole(t)))
told("Every tensor was added up, weights behind views included. Count storages, and leave the parameters' out.")(
    counting(lambda t, parameters, seen: 0 if isinstance(t, Parameter) else t.nbytes)
)
told("The storage was counted once, but with the size of one view of it. A view keeps the whole storage alive.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) else t.nbytes)
)
told("Elements were counted, not bytes: multiply by the size of an element, which is not always 4.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) else whole(t) // t.element_size())
)
told("Four bytes were taken for each element. A float64 has eight: ask the storage for its bytes.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) else whole(t) // t.element_size() * 4)
)


def begins_among(tensor, others):
    return any(tensor.data_ptr() == other.data_ptr() for other in others)


told("Views of one storage begin at addresses of their own. Take the storage's: `t.untyped_storage().data_ptr()`.")(
    counting(lambda t, parameters, seen: 0 if begins_among(t, [*parameters, *seen]) else whole(t))
)
told("Views were counted, each with its own size. Take the storage's address and size: a view keeps all of it alive.")(
    counting(lambda t, parameters, seen: 0 if begins_among(t, [*parameters, *seen]) else t.nbytes)
)
told(
    "One storage was counted, of many of the same size. What tells one from the others, and from the parameters', is "
    "its address: not its size or shape, nor whether it needs a gradient."
)(
    counting(
        lambda t, parameters, seen: (
            0 if is_among(t, parameters) or any(whole(t) == whole(s) for s in seen) else whole(t)
        )
    )
)
told("Nothing was counted. Weights, batch and activations have one shape here: only the storage tells which is which.")(
    counting(
        lambda t, parameters, seen: (
            0 if is_among(t, seen) or any(t.shape in (p.shape, p.t().shape) for p in parameters) else whole(t)
        )
    )
)


told("The parameters were counted: what does not count is what `parameters` lists.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, seen) else whole(t))
)
told("Only floating-point tensors were counted. Indices are saved as well, and an int64 takes up 8 bytes.")(
    counting(
        lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) or not t.is_floating_point() else whole(t)
    )
)


@told("All parameters were subtracted, also those that nobody saves: the biases, the first weight. Drop what is found.")
def subtracts_all(fn, parameters):
    found = counting(lambda t, parameters, seen: 0 if is_among(t, seen) else whole(t))(fn, parameters)
    return found - nbytes(parameters)


# ---- Task 3: ledger ----


def entry(parameters, gradients, moments, optimizer):
    return {
        "parameters": parameters,
        "gradients": gradients,
        "optimizer": {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer] * moments,
    }


def nbytes(tensors):
    return sum(tensor.nbytes for tensor in tensors)


told = check.ledger.mistake


@told(
    "The tied weight was counted twice. Two modules hold it, but it is one parameter: model.parameters() lists it once."
)
def counts_tied_twice(model, optimizer):
    every = [p for module in model.modules() for p in module.parameters(recurse=False)]
    trained = nbytes(p for p in every if p.requires_grad)
    return entry(nbytes(every), trained, trained, optimizer)


@told("The frozen layer was counted. It has no gradient, so no gradient memory and no optimizer state.")
def counts_frozen(model, optimizer):
    every = nbytes(model.parameters())
    return entry(every, every, every, optimizer)


@told("The frozen layer was left out of the parameters. It does not train, but it takes memory.")
def forgets_frozen(model, optimizer):
    trained = nbytes(p for p in model.parameters() if p.requires_grad)
    return entry(trained, trained, trained, optimizer)


@told("Buffers were counted among the parameters: BatchNorm's running statistics are state, but no parameters.")
def counts_buffers(model, optimizer):
    trained = nbytes(p for p in model.parameters() if p.requires_grad)
    return entry(nbytes([*model.parameters(), *model.buffers()]), trained, trained, optimizer)


@told("state_dict() lists buffers, too, and a tied weight under each of its names. Ask model.parameters().")
def state_dict(model, optimizer):
    return {"parameters": nbytes(model.state_dict().values()), "gradients": None, "optimizer": None}


def of_one_size(size):
    """Every number takes `size` bytes, whatever its dtype."""

    def ledger(model, optimizer):
        every = size * sum(p.numel() for p in model.parameters())
        trained = size * sum(p.numel() for p in model.parameters() if p.requires_grad)
        return entry(every, trained, trained, optimizer)

    return ledger


told("Four bytes were taken for each number. Ask the parameter: bfloat16 has two.")(of_one_size(4))
OF_THE_FIRST = "The size of the first parameter's numbers was taken for all. Ask each parameter: some are float32."
told(OF_THE_FIRST)(lambda model, optimizer: of_one_size(next(model.parameters()).element_size())(model, optimizer))
told("Numbers were counted, not bytes: a bfloat16 has two, a float32 four.")(of_one_size(1))


@told("Nothing was found. No step has run: there is no .grad yet, and no state. Ask requires_grad what will have one.")
def before_the_first_step(model, optimizer):
    return {"parameters": None, "gradients": 0, "optimizer": 0}


def keeping(sgd, momentum, adamw):
    """So many numbers kept for each that trains."""

    def ledger(model, optimizer):
        kept = {"sgd": sgd, "momentum": momentum, "adamw": adamw}[optimizer]
        trained = nbytes(p for p in model.parameters() if p.requires_grad)
        return {"parameters": None, "gradients": None, "optimizer": kept * trained}

    return ledger


for counts in [(0, 0, 2), (2, 2, 2), (0, 1, 1), (0, 0.5, 1), (0, 1, 3), (1, 1, 1), (1, 1, 2), (1, 2, 2), (1, 2, 3)]:
    told("Plain SGD keeps nothing between steps; momentum keeps one number for each that trains, AdamW two.")(
        keeping(*counts)
    )


def some_parameters(choose):
    """Only those that choose(model) lists, each once."""

    def ledger(model, optimizer):
        found = list(dict.fromkeys(p for p in choose(model) if p is not None))
        trained = nbytes(p for p in found if p.requires_grad)
        return entry(nbytes(found), trained, trained, optimizer)

    return ledger


told("Only the outermost modules were asked. Modules hold modules: model.parameters() finds those of all.")(
    some_parameters(lambda model: [p for child in model.children() for p in child.parameters(recurse=False)])
)
told(
    "Only weights and biases were counted. A module may name its parameters as it likes: model.parameters() lists all."
)(some_parameters(lambda model: [getattr(m, name, None) for m in model.modules() for name in ("weight", "bias")]))


@told("AdamW's step counters were counted, one for each parameter: leave them out here.")
def counts_steps(model, optimizer):
    trained = [p for p in model.parameters() if p.requires_grad]
    right, counters = entry(None, None, nbytes(trained), optimizer), 4 * len(trained) * (optimizer == "adamw")
    return right | {"optimizer": right["optimizer"] + counters}


# ---- Task 4: largest_batch ----

GIB, GB = 2**30, 10**9
told = check.largest_batch.mistake


@told("0 was found, but a single sample fits: its peak is exactly the memory of the GPU.")
def never_one(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    found = (gpu_gib * GIB - (measure(1) - per_sample)) // per_sample
    return found if found > 1 else 0


@told("What does not grow with the batch was forgotten: measure two batches; their difference is one sample.")
def no_intercept(measure, gpu_gib):
    return gpu_gib * GIB // measure(1)


@told("What does not grow with the batch was forgotten: parameters, gradients and optimizer state need room first.")
def no_fixed_part(measure, gpu_gib):
    return gpu_gib * GIB // (measure(2) - measure(1))


@told("gpu_gib is in GiB: 2³⁰ bytes, not 10⁹.")
def in_gb(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return max(0, (gpu_gib * GB - (measure(1) - per_sample)) // per_sample)


@told("Rounded up or to the nearest. The last batch must fit as a whole: round down.")
def rounds(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return max(0, -(-(gpu_gib * GIB - (measure(1) - per_sample)) // per_sample))


@told(
    "One too few. A batch that fills the memory to the last byte still fits: at most, not less than. "
    "One too few elsewhere as well? Then a sample is counted twice."
)
def strictly_less(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return max(0, (gpu_gib * GIB - (measure(1) - per_sample) - 1) // per_sample)


@told("The fixed part is measure(1) minus one sample: as it stands, one sample is counted twice.")
def one_sample_twice(measure, gpu_gib):
    return max(0, (gpu_gib * GIB - measure(1)) // (measure(2) - measure(1)))


@told("A batch below 0 was found. If not even one sample fits, the largest batch is 0.")
def negative(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return (gpu_gib * GIB - (measure(1) - per_sample)) // per_sample


@told("If not even one sample fits, the largest batch is 0, not 1.")
def at_least_one(measure, gpu_gib):
    return max(1, negative(measure, gpu_gib))


@told("8 is the largest batch that can be measured, not the largest that fits: draw the line through two measurements.")
def no_line(measure, gpu_gib):
    return max((batch for batch in range(1, 9) if measure(batch) <= gpu_gib * GIB), default=0)


told("0 was found, but many samples fit: gpu_gib is in GiB, of 2³⁰ bytes each.")(
    lambda measure, gpu_gib: max(0, negative(measure, gpu_gib / GIB))
)
told("gpu_gib was taken for bytes. It is in GiB, of 2³⁰ bytes each.")(
    lambda measure, gpu_gib: negative(measure, gpu_gib / GIB)
)


# ---- Task 5: audit ----

told = check.audit.mistake


def facts(layers, width, heads, ffn, vocabulary, tokens, *, square=4, matrices=3, tables=2, norms=1, last=1, states=4):
    layer = square * width * width + matrices * width * ffn + 2 * width * norms
    parameters = layers * layer + tables * vocabulary * width + width * norms * last
    return {
        "parameters": parameters,
        "parameters_gib": 4 * parameters / GIB,
        "training_gib": 4 * states * parameters / GIB,
        "attention_gb": 4 * layers * heads * tokens**2 / GB,
    }


told("The input and the output have a table each here: they are not tied.")(lambda **c: facts(**c, tables=1))
told("This feed-forward block has three matrices: gate, up and down.")(lambda **c: facts(**c, matrices=2))
told("Attention has four matrices of width x width: query, key, value and output.")(lambda **c: facts(**c, square=3))
told("The norms have weights, too: two for each layer, and one at the end.")(lambda **c: facts(**c, norms=0))
told("The last norm was forgotten: it belongs to no layer.")(lambda **c: facts(**c, last=0))
told("The norms have weights only: there are no biases.")(lambda **c: facts(**c, norms=2))
told("A table of positions was counted: this model has none.")(
    lambda **c: facts(**c | {"vocabulary": c["vocabulary"] + c["tokens"] / 2})
)
told("Parameters, gradients and two moments: four numbers for each parameter.")(lambda **c: facts(**c, states=3))
told("Parameters, gradients and two moments: the gradients were forgotten, or a moment.")(
    lambda **c: facts(**c, states=2)
)


@told("Every head has a matrix of its own: multiply by the heads.")
def one_head(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / config["heads"]}


@told("This is one head's width in place of the number of heads: it does not change the size of its matrix.")
def width_for_heads(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / config["heads"] * (config["width"] // config["heads"])}


@told("This is their size in bytes. How many there are is asked, and each takes up 4 bytes.")
def counts_bytes(**config):
    return {"parameters": 4 * facts(**config)["parameters"]}


@told("Every layer keeps its own: multiply by the layers.")
def one_layer(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / config["layers"]}


@told("The matrix is tokens x tokens: the square is missing.")
def not_squared(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / config["tokens"]}


@told("GB is 10⁹ bytes: this one is in GiB.")
def attention_in_gib(**config):
    return {"attention_gb": facts(**config)["attention_gb"] * GB / GIB}


@told("GiB is 2³⁰ bytes: this one is in GB.")
def weights_in_gb(**config):
    found = facts(**config)
    return {name: found[name] * GIB / GB for name in ("parameters_gib", "training_gib")}


@told("GiB is 2³⁰ bytes: this one is in MiB.")
def weights_in_mib(**config):
    found = facts(**config)
    return {name: found[name] * 1024 for name in ("parameters_gib", "training_gib")}


@told("Everything is float32: 4 bytes for each probability, not 2.")
def half_precision(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / 2}


ROUNDED = "The fraction was rounded away, or some of it: give the number as it comes, with / and without round."
told(ROUNDED)(lambda **config: {name: value // 1 for name, value in facts(**config).items() if name != "parameters"})
for digits in (0, 1, 2, 3):
    told(ROUNDED)(lambda digits=digits, **config: {name: round(v, digits) for name, v in facts(**config).items()})
