# %% The largest free block is handed out
# breaks: the smallest one that is large enough
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return max(fitting, key=lambda b: b.size, default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% The first free block that fits
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        for block in self.blocks:
            if block.free and block.pool == pool and block.size >= size:
                return block
        return None

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% never share a segment
# breaks: free block of that pool
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% Freed blocks are not merged
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% not with the one in front of it
# breaks: on both sides
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks) and self.blocks[i + 1].free and self.blocks[i + 1].segment == block.segment:
            block.size += self.blocks.pop(i + 1).size

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% not with the one behind it
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i > 0 and self.blocks[i - 1].free and self.blocks[i - 1].segment == block.segment:
            self.blocks[i - 1].size += block.size
            del self.blocks[i]

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% Blocks of two segments were merged
# breaks: if they are in the same segment
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks) and self.blocks[i + 1].free:
            block.size += self.blocks.pop(i + 1).size
        if i > 0 and self.blocks[i - 1].free:
            self.blocks[i - 1].size += block.size
            del self.blocks[i]

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% `reserved` still counts them
# breaks: is lowered by their size
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        self.blocks = [b for b in self.blocks if b.segment in used]


# %% the blocks are still there
# breaks: Its blocks are removed from the list
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        self.reserved -= sum(b.size for b in self.blocks if b.segment not in used)


# %% CUDA takes whole segments
# breaks: stays as it is
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        self.reserved -= sum(b.size for b in self.blocks if b.free)
        self.blocks = [b for b in self.blocks if not b.free]


# %% the stub of empty_cache
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        raise NotImplementedError()


# %% Two mistakes at once
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return max(fitting, key=lambda b: b.size, default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% Of two free blocks that fit equally well
# breaks: the one at the lowest address
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(reversed(fitting), key=lambda b: b.size, default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% `>=`, not `>`
# breaks: A block of exactly
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size > size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% best fit, merging, empty_cache, the MLP's forward: free does not lower `allocated`
# breaks: which lowers `allocated`
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% lowered by the size of the merged block
# breaks: by the block's size
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)
        self.allocated -= block.size

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% blocks[-1] is the last one
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        before = self.blocks[i - 1]
        if before.free and before.segment == block.segment:
            before.size += block.size
            self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% the list still holds the block
# breaks: one block instead of two
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% go through a copy
# breaks: returns to CUDA every segment
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in self.blocks:
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size


# %% `next_address` went down
# breaks: never decreases
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free = True
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks):
            after = self.blocks[i + 1]
            if after.free and after.segment == block.segment:
                block.size += after.size
                self.blocks.pop(i + 1)
        if i > 0:
            before = self.blocks[i - 1]
            if before.free and before.segment == block.segment:
                before.size += block.size
                self.blocks.pop(i)

    def empty_cache(self):
        for block in list(self.blocks):
            if block.free and [b.segment for b in self.blocks].count(block.segment) == 1:
                self.blocks.remove(block)
                self.reserved -= block.size
                self.next_address -= block.size


# %% best fit, merging, empty_cache: free does not mark the block as free
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        i = self.blocks.index(block)
        if i + 1 < len(self.blocks) and self.blocks[i + 1].free and self.blocks[i + 1].segment == block.segment:
            block.size += self.blocks.pop(i + 1).size
        if i > 0 and self.blocks[i - 1].free and self.blocks[i - 1].segment == block.segment:
            self.blocks[i - 1].size += self.blocks.pop(i).size

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        self.reserved -= sum(b.size for b in self.blocks if b.segment not in used)
        self.blocks = [b for b in self.blocks if b.segment in used]


# %% merging: A block between two free ones is merged with one of them only
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free, i = True, self.blocks.index(block)
        if i + 1 < len(self.blocks) and self.blocks[i + 1].free and self.blocks[i + 1].segment == block.segment:
            block.size += self.blocks.pop(i + 1).size
        elif i > 0 and self.blocks[i - 1].free and self.blocks[i - 1].segment == block.segment:
            self.blocks[i - 1].size += self.blocks.pop(i).size

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        self.reserved -= sum(b.size for b in self.blocks if b.segment not in used)
        self.blocks = [b for b in self.blocks if b.segment in used]


# %% merging: A block between two free ones is merged with one of them only
class Allocator(BrokenAllocator):
    def find(self, size, pool):
        fitting = [b for b in self.blocks if b.free and b.pool == pool and b.size >= size]
        return min(fitting, key=lambda b: (b.size, b.address), default=None)

    def free(self, block):
        self.allocated -= block.size
        block.free, i = True, self.blocks.index(block)
        if i > 0 and self.blocks[i - 1].free and self.blocks[i - 1].segment == block.segment:
            self.blocks[i - 1].size += self.blocks.pop(i).size  # and now i is another block's
        if i + 1 < len(self.blocks) and self.blocks[i + 1].free and self.blocks[i + 1].segment == block.segment:
            block.size += self.blocks.pop(i + 1).size

    def empty_cache(self):
        used = {b.segment for b in self.blocks if not b.free}
        self.reserved -= sum(b.size for b in self.blocks if b.segment not in used)
        self.blocks = [b for b in self.blocks if b.segment in used]
