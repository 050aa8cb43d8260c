"""What a user has, made into a graph of `mcutrain.ir`: float from PyTorch, int8 from files."""

from mcutrain.frontends.detect import import_network

__all__ = ["import_network"]
