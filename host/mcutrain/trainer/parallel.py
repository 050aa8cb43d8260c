"""Evaluation on all cores of the host."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from mcutrain.data import Dataset
from mcutrain.engine.cached import CachedEngine
from mcutrain.trainer.steps import Evaluation, Inputs


def evaluate_parallel(
    engine: CachedEngine, data: Dataset, inputs: Inputs, jobs: int
) -> Iterator[tuple[int, Evaluation]]:
    """As `evaluate`, on `jobs` threads with an engine each: the same predictions.

    Args:
        engine: the network; its present state is what is evaluated.
        data: samples and labels.
        inputs: the bytes of the network's input of each sample.
        jobs: number of threads.
    """
    classes = int(engine.image.header["classes"])
    confusion = np.zeros((classes, classes), np.int64)
    engines = threading.local()

    def predict(index: int) -> int:
        if not hasattr(engines, "mine"):
            engines.mine = engine.another_whole()
        return int(engines.mine.forward(inputs(index, 0)).argmax())

    pool = ThreadPoolExecutor(jobs)
    try:
        for index, predicted in enumerate(pool.map(predict, range(len(data)))):
            confusion[int(data.y[index]), predicted] += 1
            yield index + 1, Evaluation(int(np.trace(confusion)), index + 1, confusion)
    finally:
        pool.shutdown(cancel_futures=True)
