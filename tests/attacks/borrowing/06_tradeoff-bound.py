# %% what the library has remembered
from ckptlib.planning.known_schedules import beta as _beta, extra_forwards as _extra

for l in range(1, 81):
    for s in range(1, 25):
        _extra(l, s)

def extra_forwards(l, s):
    return _extra(l, s)

def beta(s, t):
    return _beta.__call__(s, t)
