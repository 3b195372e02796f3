# %% a dict whose items never end
class Endless(dict):
    def items(self):
        while True:
            yield "x", 0

def ledger(model, optimizer):
    return Endless()

# %% lists that hold themselves ten times
def ledger(model, optimizer):
    found = []
    found.extend([found] * 10)
    return found

# %% an int of a million digits
def ledger(model, optimizer):
    return dict.fromkeys(["parameters", "gradients", "optimizer"], 10**1_000_000)

# %% half a million bits many times over
def ledger(model, optimizer):
    return {"parameters": [10**4000] * 100_000, "gradients": 1, "optimizer": 2}

# %% nested just within the limit and wide
def ledger(model, optimizer):
    found = 0
    for _ in range(18):
        found = [found, found]
    return dict.fromkeys(["parameters", "gradients", "optimizer"], found)

# %% tensors of shape zero and of huge shape
def ledger(model, optimizer):
    return {"parameters": torch.zeros(0, 2**40), "gradients": torch.empty(1).expand(2**20, 2**20), "optimizer": torch.zeros((1,) * 60)}

# %% keys whose text never ends
class Key:
    def __str__(self):
        return "x" * 10**8

def ledger(model, optimizer):
    return {Key(): 0, "parameters": 0}

# %% an error whose class has a name of ten megabytes
def ledger(model, optimizer):
    raise type("E" * 10**7, (Exception,), {})("x" * 10**7)

# %% strings of colours, right-to-left marks and combining letters
def ledger(model, optimizer):
    return "\u202e" * 1000 + "Z" + "\u0301" * 100_000 + "\x1b[31m" * 1000

# %% denormal and NaN floods
import math

def ledger(model, optimizer):
    return {"parameters": [float("nan")] * 900_000, "gradients": [5e-324] * 900_000, "optimizer": [math.inf] * 9}

# %% folders in folders as deep as they go
import os

while True:
    os.mkdir("d")
    os.chdir("d")

# %% folders with long names in folders with long names
import os

try:
    while True:
        os.mkdir("d" * 255)
        os.chdir("d" * 255)
except OSError:
    pass

def ledger(model, optimizer):
    return [os.getcwd() for _ in range(1000)]

# %% a folder that is deep and then gone
import os

kept = os.open(".", os.O_RDONLY)
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
os.rmdir("../d")

def ledger(model, optimizer):
    import colorsys
    return colorsys.nothing
