# %% Nothing is trained
# breaks: its weights get their gradients although `x` does not require one
def fixed_a(model, x):
    return snippet_a(model, x)


# %% no longer checkpoints
# breaks: whatever ran twice in the snippet
def fixed_a(model, x):
    return model(x)


# %% no longer checkpoints
def fixed_c(model, x):
    return model.last(model.norm(model.first(x)))


# %% no longer checkpoints
def fixed_d(model, x):
    model.steps += 1
    return model.scaled(x, model.steps)


# %% draws another mask
def fixed_b(model, x):
    return checkpoint(model, x, use_reentrant=True, preserve_rng_state=False)


# %% Dropout is switched off
# breaks: it trains with dropout as it would without a checkpoint
def fixed_b(model, x):
    model.eval()
    return checkpoint(model, x, use_reentrant=False)


# %% keep it out of the checkpoint
fixed_c = snippet_c


# %% switched to evaluation
def fixed_c(model, x):
    model.norm.eval()
    return snippet_c(model, x)


# %% count before the checkpoint
fixed_d = snippet_d


# %% counted after it was used
# breaks: by one before it uses the number
def fixed_d(model, x):
    y = checkpoint(model.scaled, x, model.steps, use_reentrant=False)
    model.steps += 1
    return y


# %% not counted any more
def fixed_d(model, x):
    return checkpoint(model.scaled, x, model.steps + 1, use_reentrant=False)


# %% 5 is another pitfall
# breaks: `found` holds the pitfall's number
found = {"a": 1, "b": 2, "c": 5, "d": 3}


# %% 3 is another pitfall
found = {"a": 1, "b": 3, "c": 4, "d": 3}


# %% The number is read when backward comes
# breaks: if a second call comes before the backward pass of the first call
def fixed_d(model, x):
    model.steps += 1
    return checkpoint(lambda x: model.scaled(x, model.steps), x, use_reentrant=False)


# %% Number 6 holds for each model here
found = {"a": 1, "b": 2, "c": 6, "d": 3}


# %% still runs twice
# breaks: learns its statistics once for each batch
def fixed_c(model, x):
    model.norm.momentum = 1 - (1 - 0.1) ** 0.5
    return snippet_c(model, x)


# %% first is checkpointed, last is not
# breaks: `first` and `last` are each checkpointed
def fixed_c(model, x):
    return model.last(model.norm(checkpoint(model.first, x, use_reentrant=False)))


# %% there is no number
found = {"a": "nothing is trained", "b": "another mask", "c": 4}


# %% Only a part of the model
def fixed_a(model, x):
    return model[-1](checkpoint(model[:-1], x, use_reentrant=False))


def fixed_b(model, x):
    def segment(x):
        torch.manual_seed(0)
        return model(x)

    return checkpoint(segment, x, use_reentrant=False, preserve_rng_state=False)


def fixed_d(model, x):
    model.steps += 1
    checkpoint(model.scaled, x, model.steps, use_reentrant=False)
