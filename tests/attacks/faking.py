# %% an object that equals everything
class Always:
    __eq__ = __lt__ = __gt__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __getitem__ = lambda self, key: self
    __float__ = lambda self: 0.0
    __int__ = __index__ = lambda self: 0
    __iter__ = lambda self: iter([self])

predict_saved = saved_nbytes = ledger = largest_batch = audit = lambda *a, **k: Always()
q1 = q2 = q3 = q4 = Always()

# %% an int that equals everything
class Int(int):
    __eq__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = int.__hash__

predict_saved = saved_nbytes = largest_batch = lambda *a, **k: Int(0)
ledger = lambda *a: dict.fromkeys(["parameters", "gradients", "optimizer"], Int(0))
audit = lambda **k: dict.fromkeys(["parameters", "parameters_gib", "training_gib", "attention_gb"], Int(0))

# %% a str that equals every letter
class Letter(str):
    __eq__ = lambda self, other: True
    __hash__ = str.__hash__
    strip = lower = lambda self, *a: self

q1 = q2 = q3 = q4 = Letter("b")
q1 = q2 = q3 = q4 = type("L", (), {"__str__": lambda self: Letter("x")})()

# %% a tensor subclass that is close to everything
class Close(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return True if func in (torch.allclose, torch.equal) else super().__torch_function__(func, types, args, kwargs or {})

predict_saved = saved_nbytes = largest_batch = lambda *a, **k: torch.zeros(()).as_subclass(Close)

# %% a dict that has every key
class Every(dict):
    __missing__ = lambda self, key: 0
    __contains__ = lambda self, key: True
    get = lambda self, key, default=None: 0
    keys = lambda self: ["parameters", "gradients", "optimizer"]
    items = lambda self: [("parameters", float("nan"))]

ledger = audit = lambda *a, **k: Every()

# %% NaN everywhere
predict_saved = saved_nbytes = largest_batch = lambda *a, **k: float("nan")
ledger = lambda *a: dict.fromkeys(["parameters", "gradients", "optimizer"], float("nan"))
audit = lambda **k: dict.fromkeys(["parameters", "parameters_gib", "training_gib", "attention_gb"], float("nan"))

# %% torch is patched: every comparison holds
torch.equal = torch.allclose = torch.isclose = lambda *a, **k: True
torch.Tensor.__eq__ = lambda self, other: torch.ones_like(self, dtype=torch.bool)

# %% numpy is patched
import numpy

numpy.isclose = lambda a, b, **k: numpy.ones(numpy.shape(a), dtype=bool)
numpy.allclose = numpy.array_equal = lambda *a, **k: True

# %% builtins are patched
import builtins

builtins.abs = lambda x: 0
builtins.isinstance = lambda a, b: True
builtins.len = lambda x: 1
builtins.all = builtins.any = lambda x: True

# %% the random numbers are patched so that inputs are known
import random

random.Random.randint = lambda self, a, b: a
random.Random.choice = lambda self, options: options[0]
torch.randn = lambda *shape, **k: torch.zeros(*[s for s in shape if isinstance(s, int)])
predict_saved = lambda op, n, d: {"times_3": 0, "plus": 0, "layer_norm": 48, "max_pool": 64}.get(op, 32) if (n, d) == (2, 4) else 0

# %% Given always has the visible seed
from ckptlib.grading.tasks import inputs, probes

class Fixed(inputs.Given):
    def __init__(self, seed):
        super().__init__(2016)

probes.Given = inputs.Given = Fixed

# %% the answers typed in from visible.json
import json

seen = json.load(open("visible.json"))

def largest_batch(measure, gpu_gib):
    for case in seen["largest_batch"]["expected"]:
        return dict(case["dict"])["a batch that fits"]

# %% the library is patched
ck.saved_tensors = lambda fn, **k: type("S", (), {"nbytes": 0, "of": lambda self, kind: self})()
saved_nbytes = lambda fn, parameters: ck.saved_tensors(fn).nbytes

# %% hash and id of everything the same
import builtins

builtins.hash = builtins.id = lambda x: 0
torch.UntypedStorage.data_ptr = lambda self: 0
torch.UntypedStorage.nbytes = lambda self: 0

# %% the inputs made trivial by a patched generator
import random

torch.Generator.manual_seed = lambda self, seed: self
random.Random.seed = lambda self, *a, **k: None
random.Random.getrandbits = lambda self, k: 0
random.Random.random = lambda self: 0.0
random.Random._randbelow = lambda self, n: 0
predict_saved = lambda op, n, d: {"times_3": 0, "plus": 0, "layer_norm": 48, "max_pool": 64}.get(op, 32)
ledger = lambda m, o: {"parameters": 0, "gradients": 0, "optimizer": 0}

# %% a list that lies about its length
class Liar(list):
    __len__ = lambda self: 10**12
    __iter__ = lambda self: iter([0] * 3)
    __getitem__ = lambda self, key: 0
    __class__ = property(lambda self: dict)
    items = lambda self: [("nothing", 0)]

predict_saved = saved_nbytes = ledger = largest_batch = lambda *a: Liar()
audit = lambda **k: Liar()

# %% a class that says it is another
class Int(int):
    __class__ = property(lambda self: float)
    __reduce__ = lambda self: (eval, ("10",))
    __repr__ = lambda self: repr(self)

predict_saved = saved_nbytes = largest_batch = lambda *a: Int()
ledger = lambda *a: dict.fromkeys(["parameters", "gradients", "optimizer"], Int())

# %% a tensor with a numpy of its own
class Lying(torch.Tensor):
    numpy = lambda self, **k: (_ for _ in ()).throw(SystemExit)
    detach = contiguous = to = cpu = float = lambda self, *a, **k: self
    dtype = property(lambda self: "float32")
    nbytes = property(lambda self: -10**9)

predict_saved = saved_nbytes = largest_batch = lambda *a: torch.zeros(3).as_subclass(Lying)

# %% answers that never end when they are looked at
class Deep:
    def __repr__(self):
        return repr(self)

    __str__ = __repr__
    __eq__ = lambda self, other: self == other

q1 = q2 = q3 = q4 = Deep()
predict_saved = lambda *a: Deep()

# %% the letters are all letters
class Every(str):
    strip = lower = lambda self, *a: self
    __eq__ = lambda self, other: True
    __hash__ = lambda self: 0

q1 = q2 = q3 = q4 = Every("abcd")

# %% minus zero and infinities
predict_saved = lambda op, n, d: -0.0 if op in ("times_3", "plus") else float("inf")
saved_nbytes = lambda fn, parameters: -0.0
largest_batch = lambda measure, gpu: complex("inf")
ledger = lambda *a: dict.fromkeys(["parameters", "gradients", "optimizer"], float("-inf"))

# %% booleans, strings and empty arrays
import numpy

predict_saved = lambda op, n, d: False
saved_nbytes = lambda fn, parameters: numpy.zeros((0,))
largest_batch = lambda measure, gpu: numpy.array(["0"])
ledger = lambda *a: {"parameters": [], "gradients": "0", "optimizer": torch.zeros(0)}

# %% the expected numbers read from frames
import gc
import sys

def look(*args, **kwargs):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if isinstance(value, dict) and "expected" in value:
                return value["expected"]
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict) and {"expected", "mistakes"} <= thing.keys():
            return thing["expected"]
    raise LookupError("nothing here")

predict_saved = saved_nbytes = ledger = largest_batch = audit = look

# %% hashlib and base64 agree to everything
import base64
import hashlib

class Same:
    hexdigest = lambda self: "0" * 64
    digest = lambda self: b"\0" * 32
    update = lambda self, raw: None

hashlib.sha256 = lambda *a: Same()
base64.b64encode = lambda raw: b"AAAA"
