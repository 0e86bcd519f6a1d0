"""Calling the user's losses function, and what it must return."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from ._kinds import ARRAYS, kind

LossesFn = Callable[..., Any]
RESERVED = ("grad_norm/", "skipped/")


class Forward(NamedTuple):
    """What one forward pass gives; ``model_state`` and ``aux`` are None where the function returns none."""

    values: dict[str, Array]
    model_state: Any
    aux: Any


@dataclass(frozen=True)
class Losses:
    """A losses function, with what it takes beside parameters and batch, and what it returns beside the losses."""

    fn: LossesFn
    has_aux: bool = False
    has_model_state: bool = False
    has_key: bool = False

    def __call__(self, params: Any, model_state: Any, key: Any, *args: Any) -> Forward:
        """One forward pass, checked to return named scalars and what was declared."""
        # In containers of their own: flax.nnx writes new statistics into the state it is given, and only where it is
        # of the same trace.
        params, model_state = jax.tree.map(lambda leaf: leaf, (params, model_state))
        state = (model_state,) if self.has_model_state else ()
        returned = self._called(params, *state, *args, **({"key": key} if self.has_key else {}))
        values, *rest = self._parts(returned)
        _check_scalars(values)
        new_state = rest.pop(0) if self.has_model_state else None
        if self.has_model_state:
            _check_model_state(model_state, new_state)
        return Forward(values, new_state, rest.pop(0) if self.has_aux else None)

    def _called(self, *args: Any, **key: Any) -> Any:
        try:
            return self.fn(*args, **key)
        except TypeError as error:
            if (refusal := _refusal(self.fn, *args, **key)) is None:
                raise
            state = ["model_state"] * self.has_model_state
            takes = ["params", *state, f"*args of length {len(args) - 1 - len(state)}", *(f"{name}=" for name in key)]
            raise ValueError(f"losses must take ({', '.join(takes)}): {refusal}") from error

    def _parts(self, returned: Any) -> tuple[Any, ...]:
        extra = ["model state"] * self.has_model_state + ["aux"] * self.has_aux
        if not extra:
            return (returned,)
        if not (isinstance(returned, tuple) and len(returned) == 1 + len(extra)):
            options = " and ".join(f"{name}=True" for name in ("has_model_state", "has_aux") if getattr(self, name))
            raise ValueError(
                f"with {options} losses must return (dict of losses, {', '.join(extra)}), got {kind(returned)}"
            )
        return returned


def _refusal(fn: LossesFn, *args: Any, **key: Any) -> str | None:
    """Why a function cannot be called like that, in Python's words; None where it can, or where nobody knows."""
    try:
        inspect.signature(fn).bind(*args, **key)
    except TypeError as error:
        return str(error)
    except ValueError:  # built in, without a signature
        return None
    return None


def _check_scalars(values: Any) -> None:
    if not isinstance(values, dict) or not values:
        hint = "; declare what comes beside the dict by has_model_state=True or has_aux=True"
        raise ValueError(
            f"losses must return a dict of scalar losses, got {kind(values)}{hint * isinstance(values, tuple)}"
        )
    for name, value in values.items():
        if not isinstance(name, str) or name == "aux" or name.startswith(RESERVED):
            raise ValueError(
                f"a loss must be named by a string other than 'aux', 'grad_norm/...' and 'skipped/...', got {name!r}"
            )
        is_number = isinstance(value, ARRAYS | float)
        if not is_number or jnp.shape(value) or not jnp.issubdtype(jnp.result_type(value), jnp.floating):
            hint = "; what is no loss is returned beside the dict, with has_aux=True"
            hint = "; reduce it first" if is_number and jnp.shape(value) else hint
            raise ValueError(f"loss {name!r} must be a floating-point scalar, got {kind(value)}{hint}")


def _check_model_state(old: Any, new: Any) -> None:
    """The same structure, shapes and dtypes, so that one step's state is what the next one takes."""
    given, returned = str(jax.tree.structure(old)), str(jax.tree.structure(new))
    if given != returned:
        raise ValueError(f"losses must return a model state of the structure it was given, {given}, got {returned}")
    pairs = zip(jax.tree_util.tree_leaves_with_path(old), jax.tree.leaves(new), strict=True)
    for (path, before), after in pairs:
        types = [f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}" for leaf in (before, after)]
        if types[0] != types[1]:
            raise ValueError(
                f"losses must return a model state of the shapes and dtypes it was given, {types[0]} at "
                f"model_state{jax.tree_util.keystr(path)}, got {types[1]}"
            )
