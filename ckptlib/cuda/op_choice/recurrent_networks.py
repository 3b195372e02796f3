"""Which ops does a recurrent network run on CUDA, where cuDNN does not run it? One fused cell for each step in time.

All of it follows aten/src/ATen/native/RNN.cpp. The CPU multiplies the inputs of all steps at once, and runs an LSTM in
oneDNN; CUDA does neither. Shapes are (T, N, D): steps, sequences, features; a state is (N, H).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

aten = torch.ops.aten
State = tuple[Tensor, ...]  # h, and c of an LSTM
Cell = Callable[[Tensor, State, "Weights"], State]


@dataclass(frozen=True)
class Weights:
    """Those of one layer in one direction."""

    ih: Tensor
    hh: Tensor
    b_ih: Tensor | None = None
    b_hh: Tensor | None = None
    hr: Tensor | None = None  # the projection of an LSTM that has one


def lstm_cell(x: Tensor, state: State, w: Weights) -> State:
    """`LSTMCell`. The third result of the fused cell is saved for backward only."""
    h, c = state
    gates = torch.matmul(x, w.ih.t()), torch.matmul(h, w.hh.t())
    h, c, _ = aten._thnn_fused_lstm_cell(*gates, c, w.b_ih, w.b_hh)
    return h if w.hr is None else torch.matmul(h, w.hr.t()), c


def gru_cell(x: Tensor, state: State, w: Weights) -> State:
    """`GRUCell`."""
    gates = torch.matmul(x, w.ih.t()), torch.matmul(state[0], w.hh.t())
    return (aten._thnn_fused_gru_cell(*gates, state[0], w.b_ih, w.b_hh)[0],)


def simple_cell(activation: Callable[[Tensor], Tensor]) -> Cell:
    """`SimpleCell`: one expression in C++, so that both products live until it is over."""

    def cell(x: Tensor, state: State, w: Weights) -> State:
        gates = torch.nn.functional.linear(state[0], w.hh, w.b_hh)
        of_input = torch.nn.functional.linear(x, w.ih, w.b_ih)
        return (activation(gates.add_(of_input)),)

    return cell


CELLS: dict[str, Cell] = {
    "lstm": lstm_cell,
    "gru": gru_cell,
    "rnn_tanh": simple_cell(torch.tanh),
    "rnn_relu": simple_cell(torch.relu),
}


@dataclass(frozen=True)
class Network:
    """Layers of cells, in one or two directions."""

    cell: Cell
    params: Sequence[Tensor]
    biases: bool
    layers: int
    dropout: float
    bidirectional: bool

    def run(self, x: Tensor, start: Sequence[Tensor], batch_sizes: Sequence[int] | None) -> list[Tensor]:
        """(T, N, D), or (sum of batch_sizes, D) if packed, and (layers, N, H) of each state -> the same of results."""
        states = list(zip(*(hx.unbind(0) for hx in start), strict=True))
        ways = 2 if self.bidirectional else 1
        size = len(self.params) // (self.layers * ways)
        weights = [self._weights(self.params[i : i + size]) for i in range(0, len(self.params), size)]
        ends: list[State] = []
        for layer in range(self.layers):
            here = slice(layer * ways, (layer + 1) * ways)
            x, last = self._layer(x, states[here], weights[here], batch_sizes)
            ends += last
            if self.dropout and layer < self.layers - 1:
                x = torch.dropout(x, self.dropout, True)
        return [x, *(torch.stack(of_all) for of_all in zip(*ends, strict=True))]

    def _weights(self, tensors: Sequence[Tensor]) -> Weights:
        if self.biases:
            return Weights(*tensors)
        return Weights(tensors[0], tensors[1], hr=tensors[2] if len(tensors) == 3 else None)

    def _layer(
        self, x: Tensor, states: Sequence[State], weights: Sequence[Weights], batch_sizes: Sequence[int] | None
    ) -> tuple[Tensor, list[State]]:
        outs, ends = [], []
        steps = x.unbind(0) if batch_sizes is None else ()
        for way, (state, w) in enumerate(zip(states, weights, strict=True)):
            if batch_sizes is None:
                out, end = self._steps(steps, state, w, reverse=way == 1)
            else:
                out, end = (self._packed, self._packed_reverse)[way](x, state, w, batch_sizes)
            outs.append(out)
            ends.append(end)
        return torch.cat(outs, -1) if len(outs) > 1 else outs[0], ends

    def _steps(self, steps: Sequence[Tensor], state: State, w: Weights, reverse: bool) -> tuple[Tensor, State]:
        """`FullLayer`, and the directions of `FullBidirectionalLayer`, which go through the same steps."""
        outs = []
        for step in steps[:: -1 if reverse else 1]:
            state = self.cell(step, state, w)
            outs.append(state[0])
        return torch.stack(outs[:: -1 if reverse else 1], 0), state

    def _packed(self, x: Tensor, state: State, w: Weights, sizes: Sequence[int]) -> tuple[Tensor, State]:
        """`PackedLayer`: sequences that have ended leave, with their state."""
        outs, ended, at, last = [], [], 0, sizes[0]
        for size in sizes:
            step = x.narrow(0, at, size)
            if size < last:
                ended.append(tuple(s.narrow(0, size, last - size) for s in state))
                state = tuple(s.narrow(0, 0, size) for s in state)
            at, last = at + size, size
            state = self.cell(step, state, w)
            outs.append(state[0])
        ended.append(state)
        return torch.cat(outs, 0), tuple(torch.cat(parts, 0) for parts in zip(*reversed(ended), strict=True))

    def _packed_reverse(self, x: Tensor, state: State, w: Weights, sizes: Sequence[int]) -> tuple[Tensor, State]:
        """`ReversedPackedLayer`: begins at the ends of the longest sequences; the others join at their own ends."""
        outs, at, last = [], x.shape[0], sizes[-1]
        now = tuple(s.narrow(0, 0, last) for s in state)
        for size in reversed(sizes):
            if size > last:
                joining = (s.narrow(0, last, size - last) for s in state)
                now = tuple(torch.cat(pair, 0) for pair in zip(now, joining, strict=True))
            at, last = at - size, size
            now = self.cell(x.narrow(0, at, size), now, w)
            outs.append(now[0])
        return torch.cat(outs[::-1], 0), now
