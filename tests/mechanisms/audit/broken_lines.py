"""Break one line of a mechanism: a subclass whose method is its own source with that line replaced."""

import inspect
import textwrap
from contextlib import ExitStack, contextmanager
from unittest import mock


def exchanged(function, *changes, owner=None, **names):
    """A copy of a function with parts of its source replaced, and other values for some of its names.

    Every part must be there, once: when the source moves on, the broken mechanism fails aloud instead of being whole.
    """
    plain = inspect.unwrap(function)
    source = textwrap.dedent(inspect.getsource(plain))
    for old, new in changes:
        assert source.count(old) == 1, f"{plain.__qualname__} holds {old!r} {source.count(old)} times"
        source = source.replace(old, new)
    # globals are looked up in a copy of the module's; super() needs __class__
    wrapped = f"def make(__class__):\n{textwrap.indent(source, '    ')}\n    return {plain.__name__}"
    scope = {**plain.__globals__, **names}
    exec(compile(wrapped, f"<broken {plain.__qualname__}>", "exec", dont_inherit=True, flags=FUTURE), scope)
    return scope["make"](owner)


FUTURE = __import__("__future__").annotations.compiler_flag


def defined_in(cls, name):
    """The class or base class that defines a method."""
    return next(base for base in cls.__mro__ if name in vars(base))


def with_lines(cls, name, *changes, **names):
    """A subclass with parts of one method replaced."""
    owner = defined_in(cls, name)
    return type(f"Broken{cls.__name__}", (cls,), {name: exchanged(vars(owner)[name], *changes, owner=owner, **names)})


@contextmanager
def replaced(*functions):
    """Replace functions (module, name, changes) in their modules within the context."""
    with ExitStack() as stack:
        for module, name, changes in functions:
            broken = exchanged(getattr(module, name), *changes)
            stack.enter_context(mock.patch.object(module, name, broken))
        yield
