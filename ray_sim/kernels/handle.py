"""Handles: groups of arrays that a kernel takes as one pointer.

A call from Python unpacks each array of its arguments anew, some 0.3 us for each: with the 45 arrays of a run
a call costs 15 us before its first instruction. A `Handle` keeps the unpacked group in memory, and a call
passes its address, 1 us. In a kernel its attributes are those of the `NamedTuple`.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite.ir import Constant, IRBuilder
from numba import types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, intrinsic, register_model, typeof_impl, unbox

from ray_sim.kernels.compile import kernel

Group = TypeVar("Group", bound=tuple[Any, ...])


def handle(group: Group) -> Group:
    """A handle of a `NamedTuple` of arrays, or of such `NamedTuple`s; for kernels only.

    It shares the arrays. Where an array is replaced by another, make a new handle (10 us). Without
    compilation (``NUMBA_DISABLE_JIT=1``) it is the group itself.
    """
    return group if numba.config.DISABLE_JIT else cast("Group", Handle(group))


class Handle:
    """A group of arrays, unpacked for kernels; it keeps the arrays alive."""

    __slots__ = ("_group", "_memory", "_numba_type_", "address")

    def __init__(self, group: tuple[Any, ...]) -> None:
        self._group = group
        self._memory = np.zeros(_bytes_of(group) // 8 + 1, dtype=np.int64)
        self.address = int(self._memory.ctypes.data)
        """Of the unpacked group."""
        self._numba_type_ = _handle_type(group)  # where numba's dispatcher looks first
        _unpack(group, self.address)


class HandleType(types.Type):  # type: ignore[misc]  # numba ships no types
    """Numba's type of a handle; ``group`` is the type of the group."""

    def __init__(self, group: Any) -> None:
        self.group = group
        super().__init__(name=f"handle({group})")

    @property
    def key(self) -> Any:
        """Handles of one type of group have one type."""
        return type(self), self.group


_TYPES: dict[Any, HandleType] = {}
"""Types of handles by `_layout`: numba takes half a millisecond to find that of a group."""


def _handle_type(group: tuple[Any, ...]) -> HandleType:
    layout = _layout(group)
    if layout not in _TYPES:
        _TYPES[layout] = HandleType(numba.typeof(group))
    return _TYPES[layout]


def _layout(value: Any) -> Any:
    """All that numba's type of a group, or of an array in it, depends on."""
    if isinstance(value, tuple):
        return type(value), *map(_layout, value)
    if value is None:
        return None
    if isinstance(value, Handle):
        return value._numba_type_
    flags = value.flags
    return value.dtype, value.ndim, flags.c_contiguous, flags.f_contiguous, flags.writeable, flags.aligned


@typeof_impl.register(Handle)  # type: ignore[untyped-decorator]  # numba ships no types
def _type_of(value: Handle, context: Any) -> HandleType:
    return value._numba_type_


@register_model(HandleType)
class _Pointer(models.PrimitiveModel):  # type: ignore[misc]  # numba ships no types
    """In machine code a handle is a pointer to the unpacked group."""

    def __init__(self, manager: Any, handle_type: HandleType) -> None:
        group = manager.lookup(handle_type.group).get_value_type()
        super().__init__(manager, handle_type, group.as_pointer())


@unbox(HandleType)  # type: ignore[untyped-decorator]  # numba ships no types
def _address_of(handle_type: HandleType, value: Any, call: Any) -> NativeValue:
    number = call.pyapi.object_getattr_string(value, "address")
    address = call.pyapi.long_as_voidptr(number)
    call.pyapi.decref(number)
    return NativeValue(call.builder.bitcast(address, call.context.get_value_type(handle_type)))


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]  # numba ships no types
    """A handle has the attributes of its group."""

    key = HandleType

    def generic_resolve(self, handle_type: HandleType, name: str) -> Any:
        """Type of an attribute, None if there is none of the name."""
        fields = handle_type.group.fields
        return handle_type.group.types[fields.index(name)] if name in fields else None


@lower_getattr_generic(HandleType)  # type: ignore[untyped-decorator]  # numba ships no types
def _load(context: Any, builder: IRBuilder, handle_type: HandleType, value: Any, name: str) -> Any:
    place = cgutils.gep_inbounds(builder, value, 0, handle_type.group.fields.index(name))
    return builder.load(place)


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _size_of(typing: Any, value: Any) -> Any:
    """Bytes of an unpacked value."""

    def generate(context: Any, builder: IRBuilder, signature: Any, arguments: Any) -> Constant:
        size = context.get_abi_sizeof(context.get_value_type(signature.args[0]))
        return context.get_constant(types.intp, size)

    return types.intp(value), generate


@intrinsic  # type: ignore[untyped-decorator]  # numba ships no types
def _store(typing: Any, value: Any, address: Any) -> Any:
    """Write an unpacked value to an address."""

    def generate(context: Any, builder: IRBuilder, signature: Any, arguments: Any) -> Constant:
        unpacked, place = arguments
        builder.store(unpacked, builder.inttoptr(place, unpacked.type.as_pointer()))
        return context.get_dummy_value()

    return types.none(value, types.intp), generate


@kernel
def _bytes_of(group: tuple[Any, ...]) -> int:
    return int(_size_of(group))


@kernel
def _unpack(group: tuple[Any, ...], address: int) -> None:
    _store(group, address)
