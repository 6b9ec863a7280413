"""Digest of what numba compiles for a kernel: its code, the kernels it calls, the constants it names.

The digest reads loaded objects, not files. Numba copies the value of each global into the machine code at
compile time, so an object is the exact input of the compiler: in a subfolder, in a user's module, in a
notebook, and in a process that imported a file before the file was edited.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Iterator
from enum import Enum
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic
from numba.core.types.abstract import Callable
from numba.core.types.containers import BaseTuple


def content_digest(compiled: Dispatcher) -> str:
    """Hexadecimal SHA-256, 32 digits, of a compiled function and every other that it reaches by name.

    Comments, docstrings and line numbers do not count. Call it when all names of the function are bound, at
    its first call or later. Cost: one visit per reached function, each read once per process.
    """
    digest = hashlib.sha256(_options(compiled))
    waiting, met = [compiled.py_func], {compiled.py_func}
    while waiting:  # depth first, in the order of names in the code: the same in each process
        own, called = _content(waiting.pop())
        digest.update(own)
        waiting += [callee for callee in called if callee not in met]
        met.update(called)
    return digest.hexdigest()[:32]


def types_digest(types: Iterable[Any]) -> str:
    """Hexadecimal SHA-256, 16 digits, of the types of a call, with the classes of named tuples and enums.

    Numba names the fields of a named tuple by their places, and its own text of the type has neither their
    names nor the module of the class.
    """
    return hashlib.sha256("\n".join(_type_texts(types)).encode()).hexdigest()[:16]


def _type_texts(types: Iterable[Any]) -> Iterator[str]:
    for each in types:
        if isinstance(each, Callable):  # its text has an address
            yield type(each).__qualname__
            continue
        yield str(each)
        if isinstance(owner := getattr(each, "instance_class", None), type):
            yield _constant(owner).decode()
        if isinstance(each, BaseTuple):
            yield from _type_texts(each)


@cache
def _content(function: FunctionType) -> tuple[bytes, tuple[FunctionType, ...]]:
    """Digest of one function without those it calls, and the compiled functions that it names."""
    # Stored code imports the module of each function by its name.
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__}".encode())
    names: list[str] = []
    for code in _codes(function.__code__):
        names += code.co_names
        constants = [value for value in code.co_consts if not isinstance(value, CodeType)]
        if code is function.__code__ and constants[:1] == [function.__doc__]:
            del constants[0]  # the docstring, or its absence: a kernel uses no strings
        digest.update(code.co_code)
        digest.update(repr((constants, code.co_names, code.co_varnames, code.co_freevars)).encode())
    # Attributes are among the names, so a global that bears the name of one is read without need.
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    bound = [function.__globals__[name] for name in names if name in function.__globals__]
    called: list[FunctionType] = []
    modules: set[ModuleType] = set()  # they may import each other
    waiting = [function.__defaults__, *cells, *bound]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Dispatcher):
            digest.update(_options(value))
            called.append(value.py_func)
        elif isinstance(value, _Intrinsic):  # it generates code; pickled, it has another name in each process
            called.append(value.__wrapped__)
        elif isinstance(value, ModuleType):
            if value in modules:
                continue
            modules.add(value)
            waiting += [getattr(value, name) for name in names if hasattr(value, name)]
        elif isinstance(value, tuple):
            digest.update(f"{type(value).__qualname__} {len(value)}".encode())
            waiting += value
        else:
            digest.update(_constant(value))
    return digest.digest(), tuple(dict.fromkeys(called))


def _options(compiled: Dispatcher) -> bytes:
    """The options that a function is compiled with."""
    return repr(sorted(compiled.targetoptions.items())).encode()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function and of the functions written inside it."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _codes(value)


def _constant(value: Any) -> bytes:
    """Bytes that differ if compiled code would: of a class, its name, its fields and its members."""
    if isinstance(value, type):
        members = [(member.name, member.value) for member in value] if issubclass(value, Enum) else ()
        fields = getattr(value, "_fields", ())
        return f"{value.__module__}.{value.__qualname__} {fields} {members}".encode()
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, TypeError, AttributeError):
        # A pointer, in code that numba does not store; or the namesake of an attribute, which code ignores.
        return type(value).__qualname__.encode()
