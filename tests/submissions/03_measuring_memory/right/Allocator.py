# %% on the library's allocator
class Allocator:
    def __init__(self):
        self.gpu = ck.CachingAllocator()
        self.offset = 20 * MiB  # the library's first address

    def malloc(self, nbytes):
        found = self.gpu.malloc(nbytes)
        block = Block(found.address - self.offset, found.size, found.pool, 0)
        block.real = found
        return block

    def free(self, block):
        self.gpu.free(block.real)

    def empty_cache(self):
        self.gpu.empty_cache()

    allocated = property(lambda self: self.gpu.allocated)
    peak = property(lambda self: self.gpu.peak_allocated)
    reserved = property(lambda self: self.gpu.reserved)


# %% merges by rebuilding the list, finds by sorting
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        by_size = sorted(self.blocks, key=lambda b: b.size)  # stable, so of equals the lowest address
        return next((b for b in by_size if b.free and b.pool == pool and b.size >= size), None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        merged = []
        for b in self.blocks:
            if merged and b.free and merged[-1].free and merged[-1].segment == b.segment:
                last = merged.pop()
                b = Block(last.address, last.size + b.size, b.pool, b.segment)
            merged.append(b)
        self.blocks = merged

    def empty_cache(self):
        kept = []
        for block in self.blocks:
            alone = sum(b.segment == block.segment for b in self.blocks) == 1
            if block.free and alone:
                self.reserved -= block.size
            else:
                kept.append(block)
        self.blocks = kept
