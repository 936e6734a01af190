"""A second device without hardware, "twin": its tensors lie in the memory of the CPU.

What mixes the two devices fails as it does on a GPU, and what Python reads of a tensor is counted.
Kernels are the CPU's own. torch chooses among them by the device (attention, products of matrices),
so figures differ from the CPU's by rounding.

    device = register()          # once in a process: torch knows the device from then on
    with Twin() as seen:
        x = torch.ones(3, device=device)
        x.sum().item()
    seen.reads                   # 1

torch's backends in Python are experimental (torch.utils.backend_registration).
"""

import torch
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "twin"
READ = torch.ops.aten._local_scalar_dense.default  # what .item(), bool() and int() call
# Their result's shape depends on values: a GPU makes Python wait for it.
SIZED = ("nonzero", "masked_select", "unique_dim", "_unique2", "unique_consecutive")


class _Absent(backend_registration._DummyBackendModule):
    """torch must not take the twin for this machine's accelerator."""

    def is_available(self) -> bool:
        return False

    def is_initialized(self) -> bool:
        return False  # it has no random stream to be kept

    def device_count(self) -> int:
        return 0

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]  # asked for where layers are recomputed


def register() -> torch.device:
    if not hasattr(torch, NAME):
        backend_registration._setup_privateuseone_for_python_backend(
            rename=NAME, backend_module=_Absent()
        )
    return torch.device(NAME, 0)


class There(torch.Tensor):
    """A tensor of the twin; ``held`` has its values."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held):
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    def tolist(self):
        SEEN[-1].copies += 1
        return self.held.tolist()

    def untyped_storage(self):  # who shares memory is told by its address
        return self.held.untyped_storage()

    def data_ptr(self):
        return self.held.data_ptr()

    @classmethod
    def __torch_dispatch__(cls, kernel, types, args=(), kwargs=None):
        return _run(kernel, args, kwargs or {})


class Twin(TorchDispatchMode):
    """Inside, tensors can be made on the twin and moved there.

    - reads: numbers that Python read, and shapes that it had to wait for
    - copies: tensors that were copied from one device to the other, either way
    - dtypes: of all tensors that were made on the twin
    """

    def __init__(self):
        super().__init__()
        self.reads, self.copies, self.dtypes = 0, 0, set()

    def __enter__(self):
        SEEN.append(self)
        self._lifts = torch._C._only_lift_cpu_tensors()
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=) comes by here, too
        return super().__enter__()

    def __exit__(self, *error):
        torch._C._set_only_lift_cpu_tensors(self._lifts)
        SEEN.pop()
        return super().__exit__(*error)

    def __torch_dispatch__(self, kernel, types, args=(), kwargs=None):
        return _run(kernel, args, kwargs or {})


SEEN: list[Twin] = [Twin()]  # the last one counts; backward passes run in threads of their own


def _flat(values):
    """The tensors in a kernel's arguments or results. They lie in lists at the deepest."""
    for x in values:
        if isinstance(x, torch.Tensor):
            yield x
        elif isinstance(x, (list, tuple)):
            yield from _flat(x)


def _mapped(change, x):
    if isinstance(x, torch.Tensor):
        return change(x)
    return type(x)(_mapped(change, y) for y in x) if isinstance(x, (list, tuple)) else x


def _held(x):
    return x.held if isinstance(x, There) else x


def _run(kernel, args, kwargs):
    name = kernel.overloadpacket.__name__
    given = [*_flat(args), *_flat(kwargs.values())]
    theirs = [x for x in given if isinstance(x, There)]
    seen = SEEN[-1]
    if theirs:
        seen.reads += kernel is READ or name in SIZED
        _check(name, kernel, args, given)
    if (device := kwargs.get("device")) is not None:
        goes_there = torch.device(device).type == NAME
        kwargs = kwargs | {"device": torch.device("cpu")} if goes_there else kwargs
    elif name in ("copy_", "_copy_from"):
        goes_there = isinstance(args[0], There)
    else:
        goes_there = bool(theirs)
    made = kernel(
        *(_mapped(_held, x) for x in args), **{k: _mapped(_held, x) for k, x in kwargs.items()}
    )
    if name in ("_to_copy", "copy_", "_copy_from"):
        seen.copies += len({isinstance(x, There) for x in given} | {goes_there}) > 1
    if kernel is READ or not goes_there:
        return made
    known = {id(x.held): x for x in theirs}  # what a kernel changes in place stays itself

    def wrapped(x):
        seen.dtypes.add(x.dtype)
        return known[id(x)] if id(x) in known else There(x)

    return _mapped(wrapped, made)


def _check(name, kernel, args, given) -> None:
    """Raise RuntimeError where CUDA would. On the CPU may lie indices, and single numbers."""
    if name in ("_to_copy", "copy_", "_copy_from"):
        return
    if name in ("index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_"):
        indices = list(_flat(args[1]))
        if not isinstance(args[0], There) and any(isinstance(x, There) for x in indices):
            raise RuntimeError(f"{kernel}: indices should be on the same device as the tensor")
        # how many are True decides the shape
        SEEN[-1].reads += torch.bool in [x.dtype for x in indices]
        given = [args[0], *_flat(args[2:])]
    if any(not isinstance(x, There) and x.dim() for x in given):
        where = ", ".join(f"{x.device} {tuple(x.shape)}" for x in given)
        raise RuntimeError(f"{kernel}: expected all tensors to be on the same device: {where}")
