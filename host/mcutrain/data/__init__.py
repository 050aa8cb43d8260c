"""Labelled samples for calibration, training and evaluation.

`open(spec)` reads what the command line names (`mcutrain.data.spec` describes the grammar); the
loaders (`idx`, `npz`, `folder`, `table`) can be called on their own. All give a `Dataset`.
"""

from mcutrain.data.dataset import Dataset
from mcutrain.data.spec import open_spec as open

__all__ = ["Dataset", "open"]
