# %% a real model on the meta device
def audit(layers, width, heads, ffn, vocabulary, tokens):
    with torch.device("meta"):
        square = [nn.Linear(width, width, bias=False) for _ in range(4)]
        mlp = [nn.Linear(width, ffn, bias=False) for _ in range(3)]
        tables = [nn.Embedding(vocabulary, width) for _ in range(2)]
    count = lambda modules: sum(p.numel() for m in modules for p in m.parameters())
    parameters = layers * (count(square) + count(mlp) + 2 * width) + count(tables) + width
    gib = parameters * 4 / 1024**3
    attention = layers * heads * tokens * tokens * 4e-9
    return dict(attention_gb=attention, training_gib=4 * gib, parameters_gib=torch.tensor(gib), parameters=parameters)
