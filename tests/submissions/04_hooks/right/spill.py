# %% a subfolder that goes as a whole, numpy files
import shutil
import tempfile

import numpy


class spill:
    def __init__(self, folder):
        self.parent = folder

    def __enter__(self):
        self.folder, self.n = tempfile.mkdtemp(dir=self.parent), 0
        self.hooks = saved_tensors_hooks(self.pack, self.unpack)
        self.hooks.__enter__()

    def pack(self, t):
        self.n += 1
        path = f"{self.folder}/{self.n}.npy"
        numpy.save(path, t.detach().numpy())
        return path

    def unpack(self, path):
        return torch.from_numpy(numpy.load(path))

    def __exit__(self, *error):
        self.hooks.__exit__()
        shutil.rmtree(self.folder)


# %% with the book's library
@contextmanager
def spill(folder):
    with ck.offload(folder):
        yield


# %% all tensors in one file, each with its place in it
@contextmanager
def spill(folder):
    import os

    path, dtypes = os.path.join(folder, "all"), {}
    file = open(path, "w+b")

    def pack(t):
        if t.numel() and isinstance(t._base if t._is_view() else t, nn.Parameter):
            return t
        at = file.seek(0, 2)
        file.write(t.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
        file.flush()
        return at, t.nbytes, t.dtype, tuple(t.shape)

    def unpack(packed):
        if torch.is_tensor(packed):
            return packed
        at, nbytes, dtype, shape = packed
        file.seek(at)
        return torch.frombuffer(bytearray(file.read(nbytes)), dtype=dtype).reshape(shape)

    try:
        with saved_tensors_hooks(pack, unpack):
            yield
    finally:
        file.close()
        os.unlink(path)
