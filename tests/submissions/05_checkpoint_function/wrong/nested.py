# %% One checkpoint for each block
def nested(checkpoint, blocks, x):
    for block in blocks:
        x = checkpoint(block, x)
    return x


def predict_runs(n):
    return 2


# %% inside each half, do the same again
# breaks: Each half is divided and checkpointed in the same way
def nested(checkpoint, blocks, x):
    half = len(blocks) // 2
    x = checkpoint(nn.Sequential(*blocks[:half]), x)
    return checkpoint(nn.Sequential(*blocks[half:]), x)


def predict_runs(n):
    return n.bit_length()


# %% Nothing is checkpointed
def nested(checkpoint, blocks, x):
    return nn.Sequential(*blocks)(x)


def predict_runs(n):
    return n.bit_length()


# %% A single block is called, not checkpointed
# breaks: A single block is called
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return checkpoint(blocks[0], x)
    half = len(blocks) // 2
    x = checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)
    return checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x)


def predict_runs(n):
    return n.bit_length() + 1


# %% the second halves keep what they save
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)
    return nested(checkpoint, blocks[half:], x)


def predict_runs(n):
    return n.bit_length()


# %% The forward pass is a run, too
# breaks: The first run, in the forward pass, counts
import math


def predict_runs(n):
    return int(math.log2(n))


# %% it does not double them
def predict_runs(n):
    return n


# %% how often does each one run
def predict_runs(n):
    return n * n.bit_length()


# %% once more for each of them
def predict_runs(n):
    return 2


# %% a lambda looks `half` up when it is called
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    middle = len(blocks) // 2
    for half in (blocks[:middle], blocks[middle:]):
        x = checkpoint(lambda x: nested(checkpoint, half, x), x)
    return x


# %% The halves are swapped
# breaks: `blocks[0]` runs first
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x)
    return checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)


def predict_runs(n):
    return n.bit_length()


# %% Both halves are given x
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    y = checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)
    return checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x)


def predict_runs(n):
    return n.bit_length()


# %% One checkpoint holds both halves
# breaks: Each half is a separate checkpoint
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    return checkpoint(lambda x: nested(checkpoint, blocks[half:], nested(checkpoint, blocks[:half], x)), x)


def predict_runs(n):
    return n.bit_length()


# %% another checkpoint than the one
# breaks: Use only this checkpoint
from torch.utils import checkpoint as cp


def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = cp.checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x, use_reentrant=False)
    return cp.checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x, use_reentrant=False)


def predict_runs(n):
    return n.bit_length()


# %% had run already
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = checkpoint(nested(checkpoint, blocks[:half], x), x)
    return checkpoint(nested(checkpoint, blocks[half:], x), x)


def predict_runs(n):
    return n.bit_length()


# %% a single block has no checkpoint of its own
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)
    return checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x)


def predict_runs(n):
    return n.bit_length() + 1


# %% right for n = 2 and n = 4 alone
def nested(checkpoint, blocks, x):
    if len(blocks) == 1:
        return blocks[0](x)
    half = len(blocks) // 2
    x = checkpoint(lambda x: nested(checkpoint, blocks[:half], x), x)
    return checkpoint(lambda x: nested(checkpoint, blocks[half:], x), x)


def predict_runs(n):
    return n // 2 + 1


# %% Splitting stops too early
# breaks: until a half is a single block
def nested(checkpoint, blocks, x):
    def run(blocks, x):
        for block in blocks:
            x = block(x)
        return x

    def halves(inside, blocks, x):
        middle = len(blocks) // 2
        x = checkpoint(lambda x: inside(blocks[:middle], x), x)
        return checkpoint(lambda x: inside(blocks[middle:], x), x)

    return halves(lambda blocks, x: halves(run, blocks, x), blocks, x)


# %% Pairs of blocks are checkpointed
def nested(checkpoint, blocks, x):
    for i in range(0, len(blocks), 2):
        x = checkpoint(lambda x, i=i: blocks[i + 1](blocks[i](x)), x)
    return x
def predict_runs(n):
    return n.bit_length()
