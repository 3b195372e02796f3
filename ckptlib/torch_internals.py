"""Which private parts of torch does the library use, and what for?

A private part may change or go with any release, so the library touches none of them anywhere else: it imports the
names of PARTS from here. A part is looked up when its name is first imported. If the installed torch does not have
it, everything that does not need it still works, and whatever needs it raises NeedsTorch. `gone()` lists all of them.
"""

from __future__ import annotations

from functools import reduce
from importlib import import_module
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch

from .errors import CkptError

if TYPE_CHECKING:  # base classes, a decorator and a question about types; to a type checker, all other parts are Any
    from torch._subclasses.fake_tensor import FakeTensor as FakeTensor
    from torch._subclasses.fake_tensor import FakeTensorMode as FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode as TorchDispatchMode
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass as is_traceable_wrapper_subclass

    not_compiled = torch._disable_dynamo


class NeedsTorch(CkptError):
    """The installed torch does not have what was asked for: the message names the part and both releases."""


class Part(NamedTuple):
    """`where` is "module:name.name", and a name with "()" is called. That is the part, or has it as an attribute.

    The name of an attribute's part is a function that reads it from an object; a method's calls it on one. Both are
    written in C, since some are called several times for every op of a trace.
    """

    where: str
    why: str  # "to ...", and why no public name of torch will do
    attribute: str = ""
    method: str = ""

    def __str__(self) -> str:
        return ".".join(filter(None, [self.where.replace(":", "."), self.attribute or self.method]))

    def find(self) -> Any:
        """The part, or what reads or calls it; AttributeError or ImportError if torch does not have it."""
        module, _, path = self.where.partition(":")
        found = reduce(_step, path.split(".") if path else (), import_module(module))
        if self.attribute or self.method:
            attrgetter(self.attribute or self.method)(found)
            return attrgetter(self.attribute) if self.attribute else methodcaller(self.method)
        return found


def _step(thing: Any, name: str) -> Any:
    return getattr(thing, name.removesuffix("()"))() if name.endswith("()") else getattr(thing, name)


PARTS = {
    # ---- the backward pass that is running --------------------------------------------------------------------------
    "current_graph_task": Part(
        "torch._C:_current_graph_task_id",
        "to tell one backward pass from another, and from none, which is -1; hooks are not told in public",
    ),
    "current_node": Part(
        "torch._C:_current_autograd_node", "to know whose formula is running; only hooks on a node know it in public"
    ),
    "sequence_number": Part(
        "torch.autograd.graph:Node",
        "to recognise a node that was made in forward; the Python object for a node is not always the same one",
        method="_sequence_nr",
    ),
    "set_sequence_number": Part(
        "torch._C:_functions.AccumulateGrad",
        "to have backward run nodes in the order that CUDA's engine has; the order cannot be chosen in public",
        attribute="_set_sequence_nr",
    ),
    "next_sequence_number": Part(
        "torch._C._autograd:_get_sequence_nr", "to know the number of the node that is being made; no node exists yet"
    ),
    "graph_exec_group": Part(
        "torch._C:_get_graph_exec_group",
        "to take several calls of backward for one; GraphExecGroup does not say which is active",
    ),
    "backward_engine": Part(
        "torch.autograd:Variable._execution_engine",
        "to free, by queue_callback, what this backward pass did not use; there is no public hook at its end",
    ),
    "backward_visits_all_leaves": Part(
        "torch.autograd:_is_checkpoint_valid",
        "to notice autograd.grad and backward(inputs=...); a Function's backward is not told in public",
    ),
    "engine_entry": Part(
        "torch.autograd.graph:_engine_run_backward",
        "to see in a stack of frames that autograd's engine called; the engine is C++ and has no frame of its own",
    ),
    # ---- saved tensors ----------------------------------------------------------------------------------------------
    "make_saved_tensor": Part(
        "torch._C._autograd:_make_saved_tensor",
        "to keep a tensor as autograd would, through the hooks around it; in public, only an op can save",
    ),
    "newest_saved_tensor_hooks": Part(
        "torch._C._autograd:_top_saved_tensors_default_hooks",
        "to pass a tensor on to the hooks that were there before; in public, hooks can only be added",
    ),
    "pop_saved_tensor_hooks": Part(
        "torch._C._autograd:_pop_saved_tensors_default_hooks",
        "to work without the hooks that a student entered and never left; in public, only they can leave them",
    ),
    "push_saved_tensor_hooks": Part(
        "torch._C._autograd:_push_saved_tensors_default_hooks",
        "to put back what pop_saved_tensor_hooks took; the public context manager leaves them again",
    ),
    "why_saved_tensor_hooks_are_forbidden": Part(
        "torch._C._autograd:_saved_tensors_hooks_get_disabled_error_message",
        "to see that a student has forbidden them and never allowed them again; None if they are allowed",
    ),
    "forbid_saved_tensor_hooks": Part(
        "torch._C._autograd:_saved_tensors_hooks_disable",
        "to forbid them again as they were; the public context manager allows them again",
    ),
    "allow_saved_tensor_hooks": Part(
        "torch._C._autograd:_saved_tensors_hooks_enable",
        "to work where a student has forbidden them; in public, only who has forbidden them can allow them",
    ),
    # ---- tensors and storages ---------------------------------------------------------------------------------------
    "storage_address": Part(
        "torch:UntypedStorage",
        "to tell storages apart, fake ones too; their public data_ptr() is 0",
        attribute="_cdata",
    ),
    "is_zero_tensor": Part(
        "torch:Tensor",
        "to see that a gradient of zeros has no memory of its own; no public name asks",
        method="_is_zerotensor",
    ),
    "storage_from_weak": Part(
        "torch:UntypedStorage._new_with_weak_ptr",
        "to get back a storage that somebody still holds; StorageWeakRef tells that it is alive and does not return it",
    ),
    "version_counter": Part(
        "torch:Tensor",
        "to notice that a tensor was changed in place; in public, autograd only raises an error later",
        attribute="_version",
    ),
    "view_base": Part("torch:Tensor", "to see that a view is a parameter's; no public name leads there", "_base"),
    "is_view": Part("torch:Tensor", "to know what autocast caches: no view; no public name tells", method="_is_view"),
    "holders_of_tensor": Part(
        "torch:Tensor",
        "to know whether autograd's engine alone holds a gradient; Python's own count does not see C++",
        method="_use_count",
    ),
    "holders_of_storage": Part(
        "torch._C:_storage_Use_Count", "to know whether a gradient's memory is shared; as for holders_of_tensor"
    ),
    "sparse_indices": Part(
        "torch:Tensor", "to count a sparse tensor's bytes; indices() refuses one with duplicates", method="_indices"
    ),
    "sparse_values": Part(
        "torch:Tensor", "to count a sparse tensor's bytes; values() refuses one with duplicates", method="_values"
    ),
    "is_dense": Part(
        "torch._prims_common:is_non_overlapping_and_dense_or_false",
        "to know which gradients the engine adds in place; the C++ test of that name is not public in Python",
    ),
    "suggest_memory_format": Part(
        "torch._prims_common:suggest_memory_format",
        "to lay tensors out as cuDNN's kernels get them; is_contiguous() does not settle ties as C++ does",
    ),
    "foreach_copy_": Part(
        "torch:_foreach_copy_", "to copy all weights in one call, as mixed-precision optimizers do; foreach is private"
    ),
    "foreach_types": Part(
        "torch.utils._foreach_utils:_foreach_supported_types",
        "to have clip_grad_norm_ treat fake parameters as real ones; the list has no public name",
    ),
    "uses_foreach_by_default": Part(
        "torch.optim.optimizer:_default_to_fused_or_foreach",
        "to see which optimizers choose foreach on CUDA; none of them says so in public",
    ),
    "capturable_devices": Part(
        "torch.optim.optimizer:_get_capturable_supported_devices",
        "to run capturable optimizers as on CUDA; they refuse the CPU, and no public setting changes that",
    ),
    "is_traceable_wrapper_subclass": Part(
        "torch.utils._python_dispatch:is_traceable_wrapper_subclass",
        "to look inside DTensor and its like; the protocol is documented, the question is not public",
    ),
    "is_functorch_wrapped_tensor": Part(
        "torch._C._functorch:is_functorch_wrapped_tensor", "to see through torch.func; it hides its wrappers"
    ),
    "get_unwrapped": Part("torch._C._functorch:get_unwrapped", "to see through torch.func; it hides its wrappers"),
    "tree_leaves": Part(
        "torch.utils._pytree:tree_leaves", "to find tensors in nested containers; torch has no public module for them"
    ),
    "tree_flatten": Part(
        "torch.utils._pytree:tree_flatten", "to put a tensor back where it was in a container; as for tree_leaves"
    ),
    "tree_unflatten": Part("torch.utils._pytree:tree_unflatten", "to undo tree_flatten; as for tree_leaves"),
    "tree_map": Part("torch.utils._pytree:tree_map", "to change tensors in nested containers; as for tree_leaves"),
    # ---- fake tensors -----------------------------------------------------------------------------------------------
    "FakeTensor": Part(
        "torch._subclasses.fake_tensor:FakeTensor", "to recognise a fake tensor; fake tensors have no public name"
    ),
    "FakeTensorMode": Part(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        "to run a model without its memory; the meta device does not follow mixed devices, and has no public successor",
    ),
    "unset_fake_temporarily": Part(
        "torch._subclasses.fake_tensor:unset_fake_temporarily",
        "to run an op on the host for real; a mode cannot be suspended in public",
    ),
    "fakes_by_id": Part(
        "torch._subclasses.fake_tensor:FakeTensorConverter()",
        "to drop weak references that make model.to(dtype) fail; no public name leads there",
        "meta_converter.tensor_memo",
    ),
    "ids_of_fakes": Part(
        "torch._subclasses.fake_tensor:FakeTensorConverter()",
        "to drop weak references to parameters that were copied or moved; as for fakes_by_id",
        "meta_converter.describer.lookup_tensor",
    ),
    "DataDependentOutputException": Part(
        "torch._subclasses.fake_tensor:DataDependentOutputException",
        "to explain that a fake tensor has no values; the error has no public name",
    ),
    "DynamicOutputShapeException": Part(
        "torch._subclasses.fake_tensor:DynamicOutputShapeException",
        "to explain that a shape depends on values; the error has no public name",
    ),
    # ---- modes ------------------------------------------------------------------------------------------------------
    "TorchDispatchMode": Part(
        "torch.utils._python_dispatch:TorchDispatchMode",
        "to see every op below autograd; documented for extenders of torch, under a private module",
    ),
    "skips_dynamo": Part(
        "torch.utils._python_dispatch:TorchDispatchMode",
        "to override it in CalledDirectly; there is no public way to opt out",
        method="_should_skip_dynamo",
    ),
    "dispatch_modes": Part(
        "torch.utils._python_dispatch:_get_current_dispatch_mode_stack",
        "to find the trace that is running; in public, a mode is known to itself alone",
    ),
    "pop_dispatch_mode": Part(
        "torch.utils._python_dispatch:_pop_mode",
        "to work outside of a mode that a student entered and never left; in public, only they can leave it",
    ),
    "push_dispatch_mode": Part(
        "torch.utils._python_dispatch:_push_mode", "to put back what pop_dispatch_mode took, without entering it again"
    ),
    "pop_function_mode": Part(
        "torch.overrides:_pop_mode", "to work outside of a mode of the public API; as pop_dispatch_mode"
    ),
    "push_function_mode": Part(
        "torch.overrides:_push_mode", "to put back what pop_function_mode took, without entering it again"
    ),
    "without_dispatch_modes": Part(
        "torch.utils._python_dispatch:_disable_current_modes",
        "to compute without being traced; a mode cannot be suspended in public",
    ),
    "without_python_dispatch": Part(
        "torch._C:_DisableTorchDispatch",
        "to look at a tensor without being traced; as without_dispatch_modes, at less cost",
    ),
    "function_modes": Part(
        "torch.overrides:_get_current_function_mode_stack",
        "to find the device of `with torch.device(...)`; get_default_device() does not tell it from the default",
    ),
    "DeviceContext": Part("torch.utils._device:DeviceContext", "to recognise that mode; as for function_modes"),
    "not_compiled": Part(
        "torch:_disable_dynamo",
        "to keep a function out of torch.compile; the public torch.compiler.disable imports the compiler at once",
    ),
    # ---- the dispatcher ---------------------------------------------------------------------------------------------
    "OpOverload": Part("torch._ops:OpOverload", "to recognise an op; the classes of torch.ops have no public name"),
    "OpOverloadPacket": Part("torch._ops:OpOverloadPacket", "to recognise an op without its overload; as OpOverload"),
    "HigherOrderOperator": Part("torch._ops:HigherOrderOperator", "to recognise an op that takes functions"),
    "schema": Part(
        "torch:ops.aten.add.Tensor",
        "to know an op's arguments by name and which it writes to; str(op) names the op alone",
        "_schema",
    ),
    "kernel_at": Part(
        "torch:ops.aten.add.Tensor",
        "to call autograd's kernel where the dispatcher would go past it; an op offers redispatch(keys) in public",
        "_op_dk",
    ),
    "DispatchKey": Part("torch._C:DispatchKey", "to take CUDA's way through the dispatcher; keys are private"),
    "DispatchKeySet": Part("torch._C:DispatchKeySet", "to take CUDA's way through the dispatcher; keys are private"),
    "keys_after": Part("torch._C:_dispatch_keyset_full_after", "to go on below a key; keys are private"),
    "excluding_keys": Part("torch._C:_ExcludeDispatchKeyGuard", "to pass keys by in this thread; keys are private"),
    "including_key": Part("torch._C:_IncludeDispatchKeyGuard", "to visit a key in this thread; keys are private"),
    "op_names": Part("torch._C:_dispatch_get_all_op_names", "to find autocast's ops; no public list has them"),
    "has_kernel": Part(
        "torch._C:_dispatch_has_kernel_for_dispatch_key", "to find autocast's ops; no public list has them"
    ),
    "take_away": Part(
        "torch.library:Library", "to undo what a library registered, at once; in public, it lasts", method="_destroy"
    ),
    "privateuse1_name": Part(
        "torch._C:_get_privateuse1_backend_name",
        "to switch on autocast for the spare device, whatever it was renamed to; only the renaming is public",
    ),
    "attention_priorities": Part(
        "torch._C:_get_sdp_priority_order",
        "to try attention's kernels in CUDA's order; torch.nn.attention sets it in public and does not tell it",
    ),
    # ---- checkpoints, modules ---------------------------------------------------------------------------------------
    "debug_setting": Part(
        "torch.utils.checkpoint",
        "to obey set_checkpoint_debug_enabled; in public, it is set and not read",
        "_checkpoint_debug_enabled",
    ),
    "early_stop_setting": Part(
        "torch.utils.checkpoint",
        "to obey set_checkpoint_early_stop; in public, it is set and not read",
        "_enable_checkpoint_early_stop",
    ),
    "checkpoint_generator": Part(
        "torch.utils.checkpoint:_checkpoint_without_reentrant_generator",
        "to watch every call, under whatever name checkpoint was imported; it has no public hook",
    ),
    "determinism_checks": Part(
        "torch.utils.checkpoint:_allowed_determinism_checks_to_fns",
        "to compare values where torch compares shapes; the choice of checks is fixed in public",
    ),
    "StopRecomputation": Part(
        "torch.utils.checkpoint:_StopRecomputationError", "to notice an early stop; the error has no public name"
    ),
    "CachingMode": Part(
        "torch.utils.checkpoint:_CachingTorchDispatchMode",
        "to hear what a policy answers; create_selective_checkpoint_contexts returns it without a name",
    ),
    "forward_hooks": Part(
        "torch.nn:Module()", "to see that a module has hooks; in public, they are added and removed", "_forward_hooks"
    ),
    "forward_pre_hooks": Part(
        "torch.nn:Module()", "to see that a module has hooks; as for forward_hooks", "_forward_pre_hooks"
    ),
    "global_forward_hooks": Part(
        "torch.nn.modules.module:_global_forward_hooks",
        "to see hooks that are on all modules; in public, they are added and removed",
    ),
    "global_forward_pre_hooks": Part(
        "torch.nn.modules.module:_global_forward_pre_hooks", "to see hooks that are on all modules; as above"
    ),
    "module_call": Part(
        "torch.nn:Module._call_impl",
        "to find in a traceback the module that was being called; only its class calls it by a public name",
    ),
    "compiled_call": Part(
        "torch.nn:Module",
        "to put something in the place of a module's call, hooks and all; module.compile() does so with its own",
        "_compiled_call_impl",
    ),
    "AnyDropout": Part("torch.nn.modules.dropout:_DropoutNd", "to recognise every kind of dropout by its base class"),
    "AnyBatchNorm": Part(
        "torch.nn.modules.batchnorm:_NormBase", "to recognise all that keep running statistics by their base class"
    ),
    # ---- ranks ------------------------------------------------------------------------------------------------------
    "isolate_threads": Part(
        "torch._C._distributed_c10d:_set_thread_isolation_mode",
        "to let threads of one process be ranks; in public, a rank is a process",
    ),
    "threads_have_groups": Part(
        "torch.testing._internal.distributed.multi_threaded_pg:_install_threaded_pg",
        "to give each thread groups of its own; as for isolate_threads",
    ),
    "processes_have_groups": Part(
        "torch.testing._internal.distributed.multi_threaded_pg:_uninstall_threaded_pg",
        "to undo threads_have_groups; as for isolate_threads",
    ),
    "world_of_groups": Part(
        "torch.distributed.distributed_c10d:_world", "to find the name that torch gave to our group; it is not told"
    ),
    # ---- memory and the profiler ------------------------------------------------------------------------------------
    "profiler_range": Part(
        "torch._C._profiler:_RecordFunctionFast",
        "to mark an op in the profiler's account; the public record_function is an op itself, and would be recorded",
    ),
    "ProfilerEvent": Part("torch._C._profiler:_ProfilerEvent", "to name the type of the profiler's events"),
    "ProfilerEventType": Part(
        "torch._C._profiler:_EventType", "to pick out allocations; the public events leave the CPU's addresses out"
    ),
    "record_memory_history": Part(
        "torch.cuda.memory:_record_memory_history",
        "to have CUDA's allocator write down every block; documented, under a private name",
    ),
    "memory_snapshot": Part(
        "torch.cuda.memory:_snapshot", "to read that record; memory_snapshot(), its public form, leaves it out"
    ),
    "set_memory_metadata": Part(
        "torch.cuda.memory:_set_memory_metadata", "to write the op that is running into that record"
    ),
}

# These modules are named here and not imported. The import of the compiler takes a second.
COMPILER = "torch._dynamo"
# Modules whose frames stand between a line of a program and its kernel.
DISPATCH_MODULES = ("torch.utils._python_dispatch", "torch._ops", "torch._compile", COMPILER)


def clear_cublas_workspaces() -> None:
    """Free the memory that cuBLAS keeps for each of its handles. Builds without CUDA do not have this function."""
    torch._C._cuda_clearCublasWorkspaces()


def is_compiled_module(made: Any) -> bool:
    """Did torch.compile(module) return it? Its class is known by the name of its module, and nothing is imported."""
    return type(made).__module__.startswith(COMPILER)


def is_compiled_function(made: Any) -> bool:
    """Did torch.compile(function) return it? What torch.compiler.disable returns has the first of these names too."""
    return hasattr(made, "_torchdynamo_orig_callable") and not getattr(made, "_torchdynamo_disable", False)


def require_torch(release: str, what: str) -> None:
    """Raise NeedsTorch unless the installed torch is `release`, such as "2.12", or newer. `what` needs it, and why."""
    if torch.__version__ < release:  # compared as versions: 2.9 is before 2.12
        raise NeedsTorch(f"{what}: torch {release} or newer is needed, and {torch.__version__} is installed")


class CalledDirectly:
    """A base class, put before TorchDispatchMode, of modes that cost little.

    Torch would wrap the others' `__torch_dispatch__`, which costs time in every op, and imports its compiler to do so.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _SavedByNode:
    """What make_saved_tensor returns in torch 2.11, which has no such function: its checkpoint had a node for this."""

    def __init__(self, tensor: torch.Tensor, is_output: bool) -> None:
        node = getattr(torch.utils.checkpoint, "_NoopSaveInputs")  # noqa: B009 - newer ones, and so mypy, do not have it
        self._output = node.apply(torch.empty(0, requires_grad=True), tensor)  # whoever holds it holds the node

    def unpack(self) -> torch.Tensor:
        return self._output.grad_fn.saved_tensors[1]


EARLIER: dict[str, Any] = {"make_saved_tensor": _SavedByNode}  # for parts that a torch we support does not have yet


class _Gone:
    """In the place of a part that this torch does not have: every use of it says so."""

    def __init__(self, message: str) -> None:
        self._message = message

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NeedsTorch(self._message)

    __call__ = __instancecheck__ = __mro_entries__ = __getitem__ = __iter__ = __or__ = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)  # inspect and doctest only look whether it is there
        self._refuse()


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    part = PARTS[name]
    try:
        value = part.find()
    except (AttributeError, ImportError):
        message = f"ckptlib uses {part} {part.why}. The installed torch {torch.__version__} does not have it"
        value = EARLIER.get(name) or _Gone(message)
    globals()[name] = value  # found directly from now on
    return value


def name_of(name: str) -> str:
    """The private name itself, for those who look for it in a stack of frames or write it into an object."""
    part = PARTS[name]
    if isinstance(value := __getattr__(name), _Gone):
        value()
    return str(part).rpartition(".")[2]


def gone() -> list[str]:
    """What the library uses and the installed torch does not have, one line for each."""
    missing = (name for name in PARTS if isinstance(__getattr__(name), _Gone))
    return [f"{PARTS[name]}, here {name}, is used {PARTS[name].why}" for name in missing]
