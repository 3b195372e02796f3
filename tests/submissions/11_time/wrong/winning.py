# %% not by the time that a sequence takes anyway
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / each,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% F is divided by r·t alone
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / (each + again),
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% This is the break-even batch upside down
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": again / fixed,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% it was multiplied
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed * again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% it is what `plain` is compared with
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / (again * plain),
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% it was multiplied by t once more
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / (each * again),
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% t cancels
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed * each / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% This was rounded down: the break-even batch
# breaks: not rounded
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed // again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% This was rounded up: the break-even batch
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": -(-fixed // again),
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% F is missing
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": again / each,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% The next one wins
# breaks: that batch does not win
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = -(-fixed * plain // left) if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% to a batch that does not win
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% A whole number is asked for
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain / left if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% One too many
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 2 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% not all of `fixed`
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed // (fixed - again) + 1 if fixed > again else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% Recomputation was taken to cost nothing
# breaks: takes `fixed + b * each`
def winning(fixed, each, again, plain, most):
    left = fixed  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% is on both sides and cancels
def winning(fixed, each, again, plain, most):
    left = fixed - (each + again) * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% `plain` is missing on one side
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% `again` is paid for each of the `plain` sequences
def winning(fixed, each, again, plain, most):
    left = fixed - again  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it - 1,
    }


# %% A batch larger than `most` does not fit
# breaks: at most `most`
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest,
        "gain": without / with_it - 1,
    }


# %% If no batch wins, the answer is 0
# breaks: is 0 if no batch wins
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else "none"
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if left > 0 and smallest <= most else "none",
        "gain": without / with_it - 1,
    }


# %% If no batch wins, the answer is 0
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else -1
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else -1,
        "gain": without / with_it - 1,
    }


# %% the smallest that wins is asked
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": most,
        "gain": without / with_it - 1,
    }


# %% The largest batch that fits was returned
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if 0 < smallest <= most else most,
        "gain": without / with_it - 1,
    }


# %% the first that wins may be `most`
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest < most else 0,
        "gain": without / with_it - 1,
    }


# %% It is not the batch with which recomputation wins
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": fixed // again + 1,
        "gain": without / with_it - 1,
    }


# %% This is the ratio
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / with_it,
    }


# %% more sequences per second are less time
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": with_it / without - 1,
    }


# %% This is in percent
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": 100 * (without / with_it - 1),
    }


# %% A loss is a negative gain, not 0
# breaks: a negative number if they are fewer
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": max(0.0, without / with_it - 1),
    }


# %% The sign is lost
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": abs(without / with_it - 1),
    }


# %% This is the time that a sequence saves
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": 1 - with_it / without,
    }


# %% This is a difference of times
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without - with_it,
    }


# %% Steps were compared
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": (fixed + plain * each) / (fixed + most * (each + again)) - 1,
    }


# %% Both were given the batch `plain`
# breaks: the largest batch that fits without recomputation
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / (fixed / plain + each + again) - 1,
    }


# %% Both were given the batch `most`
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": (fixed / most + each) / with_it - 1,
    }


# %% Recomputation was forgotten in the gain
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / (fixed / most + each) - 1,
    }


# %% The fixed time was forgotten in the gain
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": each / (each + again) - 1,
    }


# %% it is divided among `most` sequences
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": without / (each + again) - 1,
    }


# %% paid once in a step, not for each sequence
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": (fixed + each) / (fixed + each + again) - 1,
    }


# %% The batches themselves were compared
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
        "gain": most / plain - 1,
    }


# %% gain: The dict that was returned lacks this entry
def winning(fixed, each, again, plain, most):
    left = fixed - again * plain  # what is gained if `fixed` costs nothing, for `plain` sequences
    smallest = fixed * plain // left + 1 if left > 0 else 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {
        "break_even": fixed / again,
        "smallest": smallest if smallest <= most else 0,
    }


# %% no batch wins: raised ZeroDivisionError
def winning(fixed, each, again, plain, most):
    smallest = fixed * plain // (fixed - again * plain) + 1
    if smallest > most or fixed < again * plain:
        smallest = 0
    without, with_it = fixed / plain + each, fixed / most + each + again
    return {"break_even": fixed / again, "smallest": smallest, "gain": without / with_it - 1}
