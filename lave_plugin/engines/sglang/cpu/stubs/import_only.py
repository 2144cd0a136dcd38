"""The one mechanism behind the stubs: a package that imports and does nothing.

SGLang names GPU kernels at import time (``@triton.jit``, ``from sgl_kernel import
rmsnorm``), also in a process that will never run one. An import-only package
answers every such name: a lower-case name is a sub-module that may be called and
works as a decorator, a capitalised one a class that may be subclassed or caught.
Nothing here computes: a kernel that were really run would fail at once.
"""

import importlib
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType


class _StubMeta(type):
    def __getattr__(cls, name):  # e.g. InterpolationMode.BICUBIC as a default argument
        if name.startswith("_"):
            raise AttributeError(name)
        return name


class _StubClass(Exception, metaclass=_StubMeta):
    """An exception, since torch writes ``except triton.runtime.autotuner.OutOfResources``."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args)


class _StubModule(ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name[0].isupper():
            value = _StubMeta(name, (_StubClass,), {"__module__": self.__name__})
        else:
            value = importlib.import_module(f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return args[0]  # @triton.jit
        return lambda function: function  # @triton.autotune(...)


class _StubFinder:
    """Finds every sub-module of one import-only package."""

    def __init__(self, package):
        self.prefix = f"{package}."

    def find_spec(self, fullname, path=None, target=None):
        if fullname.startswith(self.prefix):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return _StubModule(spec.name)

    def exec_module(self, module):
        pass


def make_import_only(package):
    """Turn the package that is being imported into an import-only one."""
    sys.modules[package].__class__ = _StubModule
    sys.meta_path.insert(0, _StubFinder(package))
