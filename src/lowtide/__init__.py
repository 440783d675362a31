"""Know what a TensorFlow training step will take in memory before it runs."""

from importlib import import_module
from typing import TYPE_CHECKING

from lowtide.run.train.fit_hook import install as _install

if TYPE_CHECKING:
    from lowtide import feed as feed
    from lowtide.atlas.subgraph import Subgraph as Subgraph
    from lowtide.atlas.subgraph import graph as graph
    from lowtide.errors import LowtideError as LowtideError
    from lowtide.feed.predict_in_batches import predict_in_batches as predict_in_batches
    from lowtide.planning.plan import Plan as Plan
    from lowtide.tf.plan.fit_in import fit_in as fit_in
    from lowtide.tf.plan.function import function as function
    from lowtide.tf.plan.plan import load_plan as load_plan
    from lowtide.tf.plan.plan import plan as plan
    from lowtide.tf.record.measure import measure as measure
    from lowtide.tf.trace.predict import max_batch_size as max_batch_size
    from lowtide.tf.train.keep_going import KeepGoing as KeepGoing
    from lowtide.tf.train.training import Training as Training
    from lowtide.tf.watch.release import release as release
    from lowtide.tf.watch.watch import Watch as Watch
    from lowtide.tide.diff import diff as diff
    from lowtide.tide.tide import Tide as Tide
    from lowtide.verbs import predict as predict

__version__ = "0.1.0"

__all__ = [
    "KeepGoing",
    "LowtideError",
    "Plan",
    "Subgraph",
    "Tide",
    "Training",
    "Watch",
    "__version__",
    "diff",
    "feed",
    "fit_in",
    "function",
    "graph",
    "load_plan",
    "max_batch_size",
    "measure",
    "plan",
    "predict",
    "predict_in_batches",
    "release",
]

# Each name is imported when it is first used: TensorFlow costs seconds, and most of lowtide does without it.
_HOME = {
    "KeepGoing": "lowtide.tf.train.keep_going",
    "LowtideError": "lowtide.errors",
    "Plan": "lowtide.planning.plan",
    "Subgraph": "lowtide.atlas.subgraph",
    "Tide": "lowtide.tide.tide",
    "Training": "lowtide.tf.train.training",
    "Watch": "lowtide.tf.watch.watch",
    "diff": "lowtide.tide.diff",
    "fit_in": "lowtide.tf.plan.fit_in",
    "function": "lowtide.tf.plan.function",
    "graph": "lowtide.atlas.subgraph",
    "load_plan": "lowtide.tf.plan.plan",
    "max_batch_size": "lowtide.tf.trace.predict",
    "measure": "lowtide.tf.record.measure",
    "plan": "lowtide.tf.plan.plan",
    "predict": "lowtide.verbs",
    "predict_in_batches": "lowtide.feed.predict_in_batches",
    "release": "lowtide.tf.watch.release",
}

_install()


def __getattr__(name: str) -> object:
    if name == "feed":
        return import_module("lowtide.feed")
    if name not in _HOME:
        raise AttributeError(f"module 'lowtide' has no attribute {name!r}")
    value: object = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
