# %% a set of storages, by identity of the memory
def saved_nbytes(fn, parameters):
    kept = []
    with saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
        out = fn()
    mine = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in kept}
    for p in parameters:
        mine.pop(p.untyped_storage().data_ptr(), None)
    assert out is not None
    return sum(storage.nbytes() for storage in mine.values())


# %% with the book's library
def saved_nbytes(fn, parameters):
    rows = ck.saved_tensors(fn)
    return sum(row.nbytes for row in rows if row.kind != "parameter")
