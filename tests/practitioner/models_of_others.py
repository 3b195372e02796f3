"""Which models does a practitioner bring? Two of transformers', a ResNet as torchvision writes it, and some oddities.

Every function returns what `ckptlib measure`, `plan` and `fit` take: (model, inputs) or (model, inputs, loss).
"""

import torch
import torch.nn.functional as F
from torch import nn


# ---- transformers, from a config, with random weights ---------------------------------------------------------------
def gpt2(batch=2, layers=3, use_cache=False, attention="sdpa"):
    """Its output's table is its input's: tied weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_layer": layers, "n_embd": 32, "n_head": 2, "vocab_size": 90, "n_positions": 32}
    config = GPT2Config(**sizes, use_cache=use_cache, bos_token_id=0, eos_token_id=0, attn_implementation=attention)
    ids = torch.arange(batch * 16).view(batch, 16) % 90
    return GPT2LMHeadModel(config), {"input_ids": ids, "labels": ids}


def gpt2_as_configured(batch=2):
    """Unless it is told otherwise, it returns a cache."""
    return gpt2(batch, use_cache=True)


def gpt2_with_cache():
    model, inputs = gpt2()
    return model, {**inputs, "use_cache": True}


def llama(batch=2, layers=3, attention="sdpa"):
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"num_hidden_layers": layers, "hidden_size": 32, "intermediate_size": 88, "vocab_size": 90}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2}
    config = LlamaConfig(**sizes, use_cache=False, attn_implementation=attention)
    ids = torch.arange(batch * 16).view(batch, 16) % 90
    return LlamaForCausalLM(config), {"input_ids": ids, "labels": ids}


# ---- as torchvision writes it ---------------------------------------------------------------------------------------
class BasicBlock(nn.Module):
    def __init__(self, inplanes, planes, stride=1):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inplanes, planes, 3, stride, 1, bias=False), nn.BatchNorm2d(planes)
        self.conv2, self.bn2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False), nn.BatchNorm2d(planes)
        self.relu, self.downsample = nn.ReLU(inplace=True), None
        if stride != 1 or inplanes != planes:
            conv = nn.Conv2d(inplanes, planes, 1, stride, bias=False)
            self.downsample = nn.Sequential(conv, nn.BatchNorm2d(planes))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    """Blocks in four Sequentials, one after the other: the chain crosses them."""

    def __init__(self, widths=(8, 16, 24, 32), classes=10):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0])
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        for i, (inside, out) in enumerate(zip((widths[0], *widths), widths, strict=False)):
            blocks = BasicBlock(inside, out, 1 + (i > 0)), BasicBlock(out, out)
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(widths[-1], classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet(batch=4):
    labels = torch.arange(batch) % 10
    return ResNet(), torch.randn(batch, 3, 64, 64), lambda out: F.cross_entropy(out, labels)


# ---- oddities -------------------------------------------------------------------------------------------------------
class Tied(nn.Module):
    """All blocks have one weight between them, and the output is the embedding's transpose."""

    def __init__(self, width=16, words=50):
        super().__init__()
        self.embed, self.head = nn.Embedding(words, width), nn.Linear(width, words, bias=False)
        self.head.weight = self.embed.weight
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, width), nn.Tanh()) for _ in range(4))
        for block in self.blocks:
            block[0].weight = self.blocks[0][0].weight

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def tied(batch=8):
    ids = torch.arange(batch * 5).view(batch, 5) % 50
    return Tied(), ids, lambda out: F.cross_entropy(out.flatten(0, 1), ids.flatten())


class FromDict(nn.Module):
    """Takes a batch as one dict, gives its blocks a mask each of their own, and returns a dict."""

    def __init__(self, width=16):
        super().__init__()
        self.layers = nn.ModuleList(MaskedBlock(width) for _ in range(4))
        self.out = nn.Linear(width, 1)

    def forward(self, batch):
        x = batch["x"]
        for i, layer in enumerate(self.layers):
            x = layer(x, mask=batch["mask"] if i % 2 else None)
        return {"loss": (self.out(x).squeeze(-1) - batch["y"]).square().mean()}


class MaskedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc, self.drop = nn.Linear(width, width), nn.Dropout(0.2)

    def forward(self, x, mask=None):
        h = self.drop(torch.sigmoid(self.fc(x)))
        return x + (h if mask is None else h * mask)


def from_dict(batch=8):
    """A tuple of one dict: one argument. A dict alone would be given by name."""
    return FromDict(), ({"x": torch.randn(batch, 16), "mask": torch.ones(batch, 1), "y": torch.ones(batch)},)


class Swish(torch.autograd.Function):
    """Saves its input alone, and computes the sigmoid again in backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, dy):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return dy * s * (1 + x * (1 - s))


class SwishBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 3 * width), nn.Linear(3 * width, width)

    def forward(self, x):
        return self.down(Swish.apply(self.up(x)))


class WithFunctions(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.body = nn.ModuleDict({"blocks": nn.ModuleList(SwishBlock(width) for _ in range(4))})

    def forward(self, x):
        for block in self.body["blocks"]:
            x = block(x)
        return x.square().mean()


def with_functions(batch=16):
    return WithFunctions(), torch.randn(batch, 16)


ALL = {f.__name__: f for f in (gpt2, llama, resnet, tied, from_dict, with_functions)}


# ---- what goes wrong ------------------------------------------------------------------------------------------------
def plain_step():
    model, x = nn.Linear(4, 4), torch.ones(2, 4)
    return lambda: model(x).sum().backward()


def wrong_shapes():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(4, 4)), torch.ones(2, 4), torch.sum


def loss_is_no_number():
    return nn.Linear(4, 4), torch.ones(2, 4)


def loss_is_a_tensor():
    return nn.Linear(4, 4), torch.ones(2, 4), torch.ones(())


ABOVE = nn.Linear(4, 1)


def built_above(batch):
    return ABOVE, torch.randn(batch, 4), torch.sum


def frozen():
    return nn.Linear(4, 4).requires_grad_(False), torch.ones(2, 4), torch.sum


def model_alone():
    return nn.Linear(4, 4)


def needs_arguments(rows, width=4):
    return nn.Linear(width, 4), torch.ones(rows, width), torch.sum


def needs_a_batch(batch):
    return nn.Linear(4, 4), torch.ones(batch, 4), torch.sum


def step_needs_arguments():
    return lambda x: x


class Skips(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x.sum()


def no_chain(batch=2):
    return Skips(), torch.ones(batch, 4)


def asks_for_values():
    model = nn.Linear(4, 4)

    def step():
        loss = model(torch.ones(2, 4)).sum()
        if loss.item() < 1e9:
            loss.backward()

    return step


class Forgetful(nn.Module):
    """Its blocks count how often they ran: they do not do the same thing twice."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Counting() for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x.sum()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.times = nn.Linear(64, 64), 0

    def forward(self, x):
        self.times += 1
        return torch.tanh(self.fc(x)) * self.times


def forgetful():
    return Forgetful(), torch.ones(64, 64)


class SparseTable(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.embed = nn.Embedding(50, width, sparse=True)
        self.blocks = nn.ModuleList(MaskedBlock(width) for _ in range(4))

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def sparse_gradients(batch=64):
    return SparseTable(), torch.arange(batch * 5).view(batch, 5) % 50


def diverged(batch=64):
    blocks = [nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(4)]
    return nn.Sequential(*blocks), torch.full((batch, 16), float("nan")), torch.mean


def ignores_the_batch(batch=1):
    return nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)), torch.ones(4, 16), torch.mean


class DropsALayer(nn.Module):
    """But not while its chain is looked for, by hooks: layer drop that is not left to chance."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(SwishBlock(16) for _ in range(4))

    def forward(self, x):
        for i, block in enumerate(self.blocks):
            if i != 2 or block._forward_hooks:
                x = block(x)
        return x.square().mean()


def drops_a_layer(batch=512):
    return DropsALayer(), torch.ones(batch, 16)


class DeeplySupervised(WithFunctions):
    """Not only the next block reads what a block returns."""

    def forward(self, x):
        outputs = []
        for block in self.body["blocks"]:
            x = block(x)
            outputs.append(x)
        return sum(out.square().mean() for out in outputs)


def deeply_supervised(batch=4096):
    return DeeplySupervised(), torch.randn(batch, 16)
