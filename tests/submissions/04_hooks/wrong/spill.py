# %% who keeps the error keeps the graph
# breaks: even while somebody keeps the error
class File:
    def __init__(self, t, path):
        self.path = path
        torch.save(t.clone(), path)

    def __del__(self):
        self.path.unlink(missing_ok=True)


def spill(folder):
    number = itertools.count()

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        return File(t, Path(folder) / str(next(number)))

    return saved_tensors_hooks(pack, lambda p: torch.load(p.path) if isinstance(p, File) else p)


# %% Delete in `finally`
@contextmanager
def spill(folder):
    paths = []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        paths.append(Path(folder, f"saved{len(paths)}"))
        torch.save(t, paths[-1])
        return paths[-1]

    with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
        yield
    for path in paths:
        path.unlink()


# %% After the block the files stay
@contextmanager
def spill(folder):
    number = itertools.count()

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        torch.save(t, path)
        return path

    with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
        yield


# %% Nothing is written to the folder
# breaks: are stored in files in `folder`
@contextmanager
def spill(folder):
    with torch.autograd.graph.save_on_cpu():
        yield


# %% needs a file of its own: does one overwrite the other
@contextmanager
def spill(folder):
    path = Path(folder) / "saved"

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
            yield
    finally:
        path.unlink(missing_ok=True)


# %% in memory, too
# breaks: They do not remain in memory
@contextmanager
def spill(folder):
    files = {}

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder) / f"{len(files)}.pt"
        files[path] = t
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
            yield
    finally:
        for path in files:
            path.unlink()


# %% The block's error was swallowed
@contextmanager
def spill(folder):
    paths = []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        paths.append(Path(folder, f"saved{len(paths)}"))
        torch.save(t, paths[-1])
        return paths[-1]

    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
            yield
    except Exception:
        print("failed")
    for path in paths:
        path.unlink()


# %% Delete the files that you wrote, and no others
# breaks: Delete only what is yours
@contextmanager
def spill(folder):
    number = itertools.count()

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
            yield
    finally:
        for path in Path(folder).iterdir():
            path.unlink()


# %% gradients, from disk
@contextmanager
def spill(folder):
    paths = set()

    def pack(t):
        path = Path(folder, f"{t.data_ptr()}.pt")
        paths.add(path)
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, torch.load):
            yield
    finally:
        for path in paths:
            path.unlink()


# %% needs a file of its own: does one overwrite the other
@contextmanager
def spill(folder):
    paths = set()

    def pack(t):
        path = Path(folder, "saved.pt")
        paths.add(path)
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, torch.load):
            yield
    finally:
        for path in paths:
            path.unlink()


# %% files left after an error: After an error the files stay
@contextmanager
def spill(folder):
    paths = []

    def pack(t):
        path = Path(folder, f"{len(paths)}.pt")
        paths.append(path)
        torch.save(t, path)
        return path

    with saved_tensors_hooks(pack, torch.load):
        yield
    for path in paths:
        path.unlink()


# %% files left after an error: After an error the files stay
@contextmanager
def spill(folder):
    number = itertools.count()

    def pack(t):
        path = Path(folder, f"{next(number)}.pt")
        torch.save(t, path)
        return path

    def unpack(path):
        t = torch.load(path)
        path.unlink()
        return t

    with saved_tensors_hooks(pack, unpack):
        yield


# %% files left after the block: After the block the files stay
@contextmanager
def spill(folder):
    number = itertools.count()

    def pack(t):
        path = Path(folder, f"{next(number)}.pt")
        torch.save(t, path)
        return path

    with saved_tensors_hooks(pack, torch.load):
        yield


# %% gradients, from disk, files left after the block, files left after an error: Nothing is written to the folder
def spill(folder):
    import tempfile

    @contextmanager
    def elsewhere():
        number = itertools.count()

        def pack(t):
            path = Path(other, f"{next(number)}.pt")
            torch.save(t, path)
            return path

        with tempfile.TemporaryDirectory() as other, saved_tensors_hooks(pack, torch.load):
            yield

    return elsewhere()


# %% Integers stay in memory
# breaks: whatever their dtype is
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter) or not t.is_floating_point():
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save(t, path)
        return path

    def unpack(packed):
        return torch.load(packed) if isinstance(packed, Path) else packed

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


# %% gradients, from disk: The gradients are not exact
# breaks: to the last digits
@contextmanager
def spill(folder):
    number, paths, dtypes = itertools.count(), [], {}

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save(t.float() if t.is_floating_point() else t, path)
        dtypes[path] = t.dtype
        return path

    def unpack(packed):
        return torch.load(packed).to(dtypes[packed]) if isinstance(packed, Path) else packed

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


# %% gradients, from disk: The gradients are not exact
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save((t.bfloat16() if t.is_floating_point() else t, t.dtype), path)
        return path

    def unpack(packed):
        return torch.load(packed)[0].to(torch.load(packed)[1]) if isinstance(packed, Path) else packed

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


# %% gradients, from disk: A tensor's file is gone when it is needed again
# breaks: A tensor may be needed again
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save(t, path)
        return path

    def unpack(packed):
        if not isinstance(packed, Path):
            return packed
        t = torch.load(packed)
        packed.unlink()
        return t

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


# %% but a folder of yours is
# breaks: no file and no subfolder
@contextmanager
def spill(folder):
    own, number = Path(folder, "spilled"), itertools.count()
    own.mkdir()

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = own / f"{next(number)}.pt"
        torch.save(t, path)
        return path

    try:
        with saved_tensors_hooks(pack, lambda packed: torch.load(packed) if isinstance(packed, Path) else packed):
            yield
    finally:
        for path in own.iterdir():
            path.unlink()


# %% files left after an error: After an interrupt the files stay
# breaks: if the block fails or is stopped
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save(t, path)
        return path

    def unpack(packed):
        return torch.load(packed) if isinstance(packed, Path) else packed

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    except Exception:
        for path in paths:
            path.unlink(missing_ok=True)
        raise
    for path in paths:
        path.unlink()


# %% had changed
# breaks: no hook of yours is active any more
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []

    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder, f"{next(number)}.pt")
        paths.append(path)
        torch.save(t, path)
        return path

    def unpack(packed):
        return torch.load(packed) if isinstance(packed, Path) else packed

    saved_tensors_hooks(pack, unpack).__enter__()
    try:
        yield
    finally:
        for path in paths:
            path.unlink()


# %% in memory, too
@contextmanager
def spill(folder):
    number, paths = itertools.count(), []
    def pack(t):
        path = Path(folder) / f"{next(number)}.pt"
        paths.append(path)
        torch.save(t, path)
        return path, t
    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p[0])):
            yield
    finally:
        for p in paths:
            p.unlink()


# %% does one overwrite the other
@contextmanager
def spill(folder):
    paths = set()
    def pack(t):
        if isinstance(t if t._base is None else t._base, nn.Parameter):
            return t
        path = Path(folder) / ("x".join(map(str, t.shape)) + ".pt")
        paths.add(path)
        torch.save(t, path)
        return path
    try:
        with saved_tensors_hooks(pack, lambda p: torch.load(p) if isinstance(p, Path) else p):
            yield
    finally:
        for p in paths:
            p.unlink(missing_ok=True)


# %% Delete the files that you wrote, and no others
@contextmanager
def spill(folder):
    import shutil
    number = itertools.count()
    def pack(t):
        path = Path(folder) / f"{next(number)}.pt"
        torch.save(t, path)
        return path
    try:
        with saved_tensors_hooks(pack, torch.load):
            yield
    finally:
        shutil.rmtree(folder)
        Path(folder).mkdir()
