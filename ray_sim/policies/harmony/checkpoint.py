"""Checkpoints of a policy network: an uncompressed ``.npz`` of arrays of numbers, without pickles.

The entry ``header`` has the bytes of a JSON object; every other entry is an array of the network. Equal
checkpoints have equal bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ray_sim.model.errors import InvalidInputError, problems_text
from ray_sim.policies.harmony.architecture import (
    F32,
    Architecture,
    Form,
    Parameters,
    parameter_shapes,
)

VERSION: Literal[1] = 1
"""Of the format; a file of another version is refused."""

MAX_BYTES = 2**28
"""Largest file that is read."""

_KIND: Literal["ray_sim harmony policy"] = "ray_sim harmony policy"
_HEADER = "header"
_SUFFIX = ".npy"
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Time of every entry, so that bytes do not depend on the clock."""

_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, RuntimeError, LookupError)
"""What reading a damaged archive raises."""

_FLOATS, _BYTES = np.dtype("<f4"), np.dtype("u1")

Name = Annotated[str, Field(min_length=1)]
Width = Annotated[int, Field(ge=1, le=4096)]


class Header(BaseModel):
    """What a checkpoint says about its network, beside the arrays."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["ray_sim harmony policy"] = _KIND
    version: Literal[1] = VERSION
    form: Annotated[Form, Field(strict=False)]
    models: Annotated[list[Name], Field(min_length=1)]
    """Types of jobs, in the order of the columns of ``type``."""
    resources: Annotated[list[Name], Field(min_length=1)]
    servers: Annotated[int, Field(ge=0)]
    """Number of servers of the form ``dense``; 0 for any number."""
    most_jobs: Width
    most_new: Width
    block: Width
    hidden: Annotated[list[Width], Field(min_length=1)]
    training: dict[str, str | int | float | None] = {}
    """How the network was trained: command, seed, digest of the configuration."""
    arrays_sha256: str = ""

    @property
    def architecture(self) -> Architecture:
        """Sizes of the network."""
        return Architecture(
            form=self.form,
            types=len(self.models),
            resources=len(self.resources),
            servers=self.servers,
            most_jobs=self.most_jobs,
            most_new=self.most_new,
            block=self.block,
            hidden=tuple(self.hidden),
        )

    def problems(self) -> list[str]:
        """Values that do not go together."""
        found = [
            f"{name}: '{next(each for each in given if given.count(each) > 1)}' is there twice"
            for name, given in (("models", self.models), ("resources", self.resources))
            if len(set(given)) < len(given)
        ]
        if self.most_new > self.most_jobs:
            found.append(f"most_new: must be at most most_jobs = {self.most_jobs}, got {self.most_new}")
        if (self.form is Form.DENSE) != (self.servers > 0):
            found.append(
                f"servers: must be 0 for form shared, and above 0 for form dense, got {self.servers} for "
                f"form {self.form}"
            )
        return found


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A policy network, and the states that it is for."""

    header: Header
    parameters: Parameters

    def to_bytes(self) -> bytes:
        """The file."""
        header = self.header.model_copy(update={"arrays_sha256": _digest(self.parameters)})
        text = header.model_dump_json(indent=1).encode()
        entries: dict[str, np.ndarray] = {_HEADER: np.frombuffer(text, dtype=_BYTES)}
        entries |= {name: array.astype(_FLOATS) for name, array in self.parameters.items()}
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, array in entries.items():
                content = io.BytesIO()
                np.lib.format.write_array(content, array, version=(1, 0), allow_pickle=False)
                archive.writestr(zipfile.ZipInfo(name + _SUFFIX, _EPOCH), content.getvalue())
        return file.getvalue()


def parse_checkpoint(content: bytes, source: str) -> Checkpoint:
    """Parse a file; nothing in it is executed.

    Parameters
    ----------
    source : name of the file for messages

    Raises
    ------
    InvalidInputError : no checkpoint of this version, arrays that the header does not describe, that hold
        something else than finite numbers, or that were changed
    """
    entries = _entries(content, source)
    if _HEADER not in entries:
        raise InvalidInputError(f"{source}: has no {_HEADER}, so it is no checkpoint of ray-sim")
    header = _header(_array(entries.pop(_HEADER), _BYTES, f"{source}: {_HEADER}").tobytes(), source)
    shapes = parameter_shapes(header.architecture.policy_layers())
    problems = [f"{name}: is missing" for name in shapes.keys() - entries.keys()]
    problems += [f"{name}: is no array of this network" for name in entries.keys() - shapes.keys()]
    if problems:
        raise InvalidInputError(problems_text(source, sorted(problems)))
    parameters = {name: _array(entries[name], _FLOATS, f"{source}: {name}") for name in shapes}
    problems = [text for name, shape in shapes.items() if (text := _fault(name, parameters[name], shape))]
    if problems:
        raise InvalidInputError(problems_text(source, problems))
    found = _digest(parameters)
    if found != header.arrays_sha256:
        raise InvalidInputError(
            f"{source}: SHA-256 of the arrays is {found}, and the header says {header.arrays_sha256}; the "
            "file was changed, copy it again"
        )
    return Checkpoint(header, parameters)


def _entries(content: bytes, source: str) -> dict[str, bytes]:
    """Bytes of the entries of an archive, by name without suffix."""
    if len(content) > MAX_BYTES:
        raise InvalidInputError(f"{source}: is larger than {MAX_BYTES // 2**20} MiB")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > MAX_BYTES:
                raise InvalidInputError(f"{source}: unpacks to more than {MAX_BYTES // 2**20} MiB")
            return {name.removesuffix(_SUFFIX): archive.read(name) for name in archive.namelist()}
    except _DAMAGE as error:
        raise InvalidInputError(
            f"{source}: is no intact .npz file ({error}); name a checkpoint written by ray-sim, or copy it "
            "again"
        ) from error


def _array(content: bytes, expected: np.dtype[Any], what: str) -> np.ndarray:
    """The array of an entry; a pickle is refused unread."""
    stream = io.BytesIO(content)
    try:
        if np.lib.format.read_magic(stream) != (1, 0):
            raise InvalidInputError(f"{what}: must be of version 1.0 of the format npy")
        shape, by_columns, dtype = np.lib.format.read_array_header_1_0(stream)
    except ValueError as error:
        raise InvalidInputError(f"{what}: is no array: {error}") from error
    if dtype.hasobject:
        raise InvalidInputError(f"{what}: holds a pickle, which could run code, so it is not read")
    if dtype != expected:
        raise InvalidInputError(f"{what}: must hold {expected.name}, found {dtype}")
    if by_columns:
        raise InvalidInputError(f"{what}: must be stored by rows (fortran_order False), is stored by columns")
    data = content[stream.tell() :]
    if min(shape, default=0) < 0 or len(data) != dtype.itemsize * math.prod(shape):
        raise InvalidInputError(f"{what}: has {len(data)} bytes, which is not its shape {shape}")
    return np.frombuffer(data, dtype=dtype).reshape(shape)


def _header(text: bytes, source: str) -> Header:
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{source}: header: is no JSON: {error}") from error
    if not isinstance(given, dict) or given.get("kind") != _KIND:
        raise InvalidInputError(f"{source}: header: is not that of a {_KIND}")
    if given.get("version") != VERSION:
        raise InvalidInputError(
            f"{source}: is of version {given.get('version')!r}, and this program reads version {VERSION}; "
            "train it anew, or use the program that wrote it"
        )
    try:
        header = Header.model_validate(given)
    except ValidationError as failure:
        problems = [f"header.{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in failure.errors()]
        raise InvalidInputError(problems_text(source, problems)) from failure
    if problems := header.problems():
        raise InvalidInputError(problems_text(source, [f"header.{problem}" for problem in problems]))
    return header


def _fault(name: str, array: F32, shape: tuple[int, ...]) -> str | None:
    if array.shape != shape:
        return f"{name}: must have shape {shape}, as the header says, found {array.shape}"
    if not np.isfinite(array).all():
        return f"{name}: has a number that is not finite"
    return None


def _digest(parameters: Mapping[str, F32]) -> str:
    """SHA-256 over names, shapes and bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(parameters.items()):
        digest.update(f"{name} {array.shape}\n".encode())
        digest.update(array.astype(_FLOATS).tobytes())
    return digest.hexdigest()
