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
    "relu", "A mask of one byte each would do, but eager PyTorch saves ReLU's output, in float32.", lambda n, d: n * d
)
about("cos", "d cos(x) = -sin(x) dx needs the values of x.", lambda n, d: 0)
about("layer_norm", "Its input, yes, and two numbers for each row besides: mean and 1/std.", lambda n, d: 4 * n * d)
about(
    "layer_norm", "Mean and 1/std are one number each for a row of d, not for each of the d.", lambda n, d: 12 * n * d
)
about("layer_norm", "Two numbers for each row: mean and 1/std. One was counted.", lambda n, d: 4 * n * d + 4 * n)
about(
    "max_pool",
    "One of two is missing. It keeps its input, and which of each pair won, as int64: for pairs, as many bytes again.",
    lambda n, d: 4 * n * d,
)
about("max_pool", "Indices are int64: 8 bytes each, one for each pair.", lambda n, d: 4 * n * d + 2 * n * d)
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


told = check.saved_nbytes.mistake
told("Tensors were added up. Memory is storages: two tensors may live in one, and then it counts once.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, parameters) else t.nbytes)
)
told(
    "The parameters were counted. Linear saves `weight.t()`, a view: no Parameter, but the same storage. "
    "Compare storages, not types."
)(
    counting(
        lambda t, parameters, seen: 0 if isinstance(t, Parameter) or is_among(t, seen) else t.untyped_storage().nbytes()
    )
)
told("Every tensor was added up, weights behind views included. Count storages, and leave the parameters' out.")(
    counting(lambda t, parameters, seen: 0 if isinstance(t, Parameter) else t.nbytes)
)
told("The storage was counted once, but with the size of one view of it. A view keeps the whole storage alive.")(
    counting(lambda t, parameters, seen: 0 if is_among(t, [*parameters, *seen]) else t.nbytes)
)
told("Elements were counted, not bytes: multiply by the size of an element, which is not always 4.")(
    counting(
        lambda t, parameters, seen: (
            0 if is_among(t, [*parameters, *seen]) else t.untyped_storage().nbytes() // t.element_size()
        )
    )
)

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
    every = [p for module in model for p in module.parameters()]
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


@told("Four bytes were taken for each number. Ask the parameter: bfloat16 has two.")
def always_float32(model, optimizer):
    every = 4 * sum(p.numel() for p in model.parameters())
    trained = 4 * sum(p.numel() for p in model.parameters() if p.requires_grad)
    return entry(every, trained, trained, optimizer)


@told("AdamW keeps two moments for each number that trains, momentum one, plain SGD none.")
def one_moment_for_adam(model, optimizer):
    trained = nbytes(p for p in model.parameters() if p.requires_grad)
    return entry(None, None, trained / 2, optimizer)


@told("Plain SGD keeps nothing between steps; momentum keeps one number for each that trains, AdamW two.")
def state_for_sgd(model, optimizer):
    trained = nbytes(p for p in model.parameters() if p.requires_grad)
    return entry(None, None, trained, optimizer) | {
        "optimizer": {"sgd": 1, "momentum": 1, "adamw": 2}[optimizer] * trained
    }


# ---- Task 4: largest_batch ----

GIB, GB = 2**30, 10**9
told = check.largest_batch.mistake


@told("What does not grow with the batch was forgotten: measure two batches; their difference is one sample.")
def no_intercept(measure, gpu_gib):
    return gpu_gib * GIB // measure(1)


@told("gpu_gib is in GiB: 2³⁰ bytes, not 10⁹.")
def in_gb(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return max(0, (gpu_gib * GB - (measure(1) - per_sample)) // per_sample)


@told("Rounded up or to the nearest. The last batch must fit as a whole: round down.")
def rounds(measure, gpu_gib):
    per_sample = measure(2) - measure(1)
    return max(0, -(-(gpu_gib * GIB - (measure(1) - per_sample)) // per_sample))


@told("A batch that fills the memory to the last byte still fits: at most, not less than.")
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


# ---- Task 5: audit ----

told = check.audit.mistake


def facts(layers, width, heads, ffn, vocabulary, tokens, *, matrices=3, tables=2, norms=1, states=4):
    layer = 4 * width * width + matrices * width * ffn + 2 * width * norms
    parameters = layers * layer + tables * vocabulary * width + width * norms
    return {
        "parameters": parameters,
        "parameters_gib": 4 * parameters / GIB,
        "training_gib": 4 * states * parameters / GIB,
        "attention_gb": 4 * layers * heads * tokens**2 / GB,
    }


told("The input and the output have a table each here: they are not tied.")(lambda **c: facts(**c, tables=1))
told("This feed-forward block has three matrices: gate, up and down.")(lambda **c: facts(**c, matrices=2))
told("The norms have weights, too: two for each layer, and one at the end.")(lambda **c: facts(**c, norms=0))
told("Parameters, gradients and two moments: four numbers for each parameter.")(lambda **c: facts(**c, states=3))
told("Parameters, gradients and two moments: the gradients were forgotten, or a moment.")(
    lambda **c: facts(**c, states=2)
)


@told("Every head has a matrix of its own: multiply by the heads.")
def one_head(**config):
    return {"attention_gb": facts(**config)["attention_gb"] / config["heads"]}


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
