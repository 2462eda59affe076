"""Functions, coroutines and generators with zones."""

import collections.abc
import functools
import inspect

from ._native import FunctionZone, Steps, enabled, loop_turns, loop_waits, zone


def decorate(function, name=None):
    """The function with a zone; of the name given, or the function's own."""
    if not callable(function):
        kind = type(function).__name__
        raise TypeError(f"zone() takes a name or a function, not {kind}")
    code = getattr(inspect.unwrap(function), "__code__", None)
    if name is None:
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if code is not None:
        if inspect.iscoroutinefunction(function):
            return _coroutine(function, name, code)
        if inspect.isasyncgenfunction(function):
            return _async_generator(function, name, code)
        if inspect.isgeneratorfunction(function):
            return _generator(function, name, code)
    return _function(function, name, code)


def _function(function, name, code):
    if code is None:
        whole = zone(name)

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with whole:
                return function(*args, **kwargs)

        return wrapper

    whole = FunctionZone(name, code)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        if not enabled():
            return function(*args, **kwargs)
        with whole:
            return function(*args, **kwargs)

    return wrapper


def _coroutine(function, name, code):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        return await Coroutine(function(*args, **kwargs), name, code)

    return wrapper


def _generator(function, name, code):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return (yield from Generator(function(*args, **kwargs), name, code))

    return wrapper


def _async_generator(function, name, code):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        generator = function(*args, **kwargs)
        sent = error = None
        try:
            while True:
                if error is None:
                    step = generator.asend(sent)
                else:
                    step = generator.athrow(error)
                try:
                    value = await Coroutine(step, name, code)
                except StopAsyncIteration:
                    return
                sent = error = None
                try:
                    sent = yield value
                except GeneratorExit:
                    raise
                except BaseException as thrown:
                    error = thrown
        finally:
            await generator.aclose()

    return wrapper


class _Steps:
    """Hands every step on to what is wrapped, within a zone of the thread that takes it."""

    __slots__ = ("_inner", "_steps", "__weakref__")

    def __init__(self, inner, name, code):
        self._inner = inner
        self._steps = Steps(name, code)

    def _step(self, take, *args):
        steps = self._steps
        steps.begin()
        try:
            result = take(*args)
        except BaseException as error:
            steps.finish(None if isinstance(error, _ENDS) else type(error))
            raise
        steps.suspend()
        return result

    def send(self, value):
        return self._step(self._inner.send, value)

    def throw(self, error, *more):
        return self._step(self._inner.throw, error, *more)

    def close(self):
        steps = self._steps
        steps.begin()
        try:
            self._inner.close()
        finally:
            steps.finish(None)


# With these a coroutine or a generator says that it is done.
_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit)


class Generator(_Steps, collections.abc.Generator):
    """A generator whose life is an async zone and whose steps are zones."""

    __slots__ = ()


class Coroutine(_Steps, collections.abc.Coroutine):
    """A coroutine, or something else to await, whose life is an async zone and whose steps are
    zones."""

    __slots__ = ()

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    # What asyncio and debuggers ask of a coroutine.
    def __getattr__(self, name):
        if name.startswith("cr_") or name in ("__name__", "__qualname__"):
            return getattr(self._inner, name)
        raise AttributeError(name)


def traced(coroutine):
    """The coroutine with zones; unchanged if it is of another kind or has them already."""
    code = getattr(coroutine, "cr_code", None)
    if code is None or isinstance(coroutine, Coroutine):
        return coroutine
    return Coroutine(coroutine, coroutine.__qualname__, code)


def trace_tasks(loop=None):
    """Has every task that the loop makes from now on shown as an async zone, and each of its steps
    as a zone of the thread. Without a loop: the one that runs."""
    import asyncio

    if loop is None:
        loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    if getattr(before, "_is_syscollect", False):
        return

    def factory(loop, coroutine, **options):
        coroutine = traced(coroutine)
        if before is not None:
            return before(loop, coroutine, **options)
        return asyncio.Task(coroutine, loop=loop, **options)

    factory._is_syscollect = True
    loop.set_task_factory(factory)


def trace_loop(loop=None):
    """Has the loop mark when it waits for events and when it goes on, also where it only looks for
    them. Without a loop: the one that runs. Loops without a selector of Python's (uvloop) mark
    nothing, and say so."""
    import asyncio

    if loop is None:
        loop = asyncio.get_running_loop()
    selector = getattr(loop, "_selector", None)
    select = getattr(selector, "select", None)
    if select is None:
        raise TypeError(f"{type(loop).__name__} has no selector whose waits could be marked")
    if getattr(select, "_is_syscollect", False):
        return

    def marked(timeout=None):
        loop_waits()
        try:
            return select(timeout)
        finally:
            loop_turns()

    marked._is_syscollect = True
    selector.select = marked
