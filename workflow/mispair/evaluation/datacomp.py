"""Names of evaluation sets, and DataComp's evaluation: main metrics of its sets, and their means.

Names of sets, metrics and means are those of ``tasklist.yml`` and ``aggregate_scores.py`` of
github.com/mlfoundations/datacomp (commits 4afedc4 and 3ac587e). Two further sets of its list,
FairFace and UTKFace, have no main metric and enter no mean. One of the 38 others, WinoGAViL
(Jaccard score), has no reader here.

The group of an image is in column 0 of the metadata, ``KEY.npy``, as in DataComp's evaluators
(commit 274dbee). They exclude the region "Other" of FMoW by name, but the metadata has numbers
only, so it counts; it counts here too. Waterbirds is not a set of DataComp. Its groups are those
of WILDS: background and class.

References
----------
.. [1] S. Y. Gadre et al. (2023), DataComp: In search of the next generation of multimodal
   datasets, NeurIPS Datasets and Benchmarks.
.. [2] P. W. Koh et al. (2021), WILDS: A benchmark of in-the-wild distribution shifts, ICML.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from mispair.core.words import composed

# Names of evaluation sets, which every collection spells in its own way.


def canonical(name: str) -> str:
    """Return the name of a set without its collection's prefixes, split, case and punctuation.

    Prefixes are those of CLIP_benchmark and DataComp. Letters of all scripts stay.

    Examples
    --------
    >>> canonical("wds_vtab-caltech101"), canonical("vtab/pets_test"), canonical("宠物 (FGVC)")
    ('caltech101', 'pets', '宠物fgvc')
    """
    of_collection = r"^(wds[_/-])?((vtab|wilds|fairness|retrieval|misc)[_/-])?"
    bare = re.sub(rf"{of_collection}|[_-](test|train|val)$", "", composed(name.lower()))
    return re.sub(r"[\W_]", "", bare)


ACC1, PER_CLASS, MEAN_RECALL = "acc1", "mean_per_class_recall", "mean_recall@1"
WITHOUT_READER = ("WinoGAViL",)


@dataclass(frozen=True)
class DatacompTask:
    """A set as DataComp evaluates it.

    Attributes
    ----------
    key, name : str
        Key and name in DataComp's list.
    metric : str
        Its main metric.
    aliases : tuple of str
        Names of the set in other collections.
    group : str or None
        Meaning of the number in column 0 of ``KEY.npy``, such as ``region``, if the metric is over
        groups of images.
    with_class : bool
        Whether number and class together form the group.
    listed : bool
        Whether it is one of DataComp's 38 sets with a main metric.
    """

    key: str
    name: str
    metric: str
    aliases: tuple[str, ...] = ()
    group: str | None = None
    with_class: bool = False
    listed: bool = True


TASKS = (
    DatacompTask("vtab/caltech101", "Caltech-101", PER_CLASS),
    DatacompTask("cifar10", "CIFAR-10", ACC1),
    DatacompTask("vtab/cifar100", "CIFAR-100", ACC1),
    DatacompTask("vtab/clevr_count_all", "CLEVR Counts", ACC1, ("clevr_counts", "clevr_count")),
    DatacompTask("vtab/clevr_closest_object_distance", "CLEVR Distance", ACC1, ("clevr_distance",)),
    DatacompTask("country211", "Country211", ACC1),
    DatacompTask("vtab/dtd", "Describable Textures", ACC1, ("describable_textures",)),
    DatacompTask("vtab/eurosat", "EuroSAT", ACC1),
    DatacompTask("fgvc_aircraft", "FGVC Aircraft", PER_CLASS, ("aircraft",)),
    DatacompTask("food101", "Food-101", ACC1),
    DatacompTask("gtsrb", "GTSRB", ACC1),
    DatacompTask("imagenet1k", "ImageNet 1k", ACC1, ("imagenet", "ilsvrc2012")),
    DatacompTask("imagenet_sketch", "ImageNet Sketch", ACC1),
    DatacompTask("imagenetv2", "ImageNet v2", ACC1),
    DatacompTask("imagenet-a", "ImageNet-A", ACC1),
    DatacompTask("imagenet-o", "ImageNet-O", ACC1),
    DatacompTask("imagenet-r", "ImageNet-R", ACC1),
    DatacompTask("vtab/kitti_closest_vehicle_distance", "KITTI Vehicle Distance", ACC1,
         ("kitti_distance", "kitti")),
    DatacompTask("mnist", "MNIST", ACC1),
    DatacompTask("objectnet", "ObjectNet", ACC1),
    DatacompTask("vtab/flowers", "Oxford Flowers-102", PER_CLASS,
         ("flowers102", "oxford_flowers", "oxford_flowers102")),
    DatacompTask("vtab/pets", "Oxford-IIIT Pet", PER_CLASS,
         ("oxford_pets", "oxford_pet", "oxford_iiit_pet", "oxford_iiit_pets")),
    DatacompTask("voc2007", "Pascal VOC 2007", ACC1),
    DatacompTask("vtab/pcam", "PatchCamelyon", ACC1, ("patch_camelyon",)),
    DatacompTask("renderedsst2", "Rendered SST2", ACC1),
    DatacompTask("vtab/resisc45", "RESISC45", ACC1),
    DatacompTask("cars", "Stanford Cars", ACC1, ("stanford_cars",)),
    DatacompTask("stl10", "STL-10", ACC1),
    DatacompTask("sun397", "SUN397", ACC1),
    DatacompTask("vtab/svhn", "SVHN", ACC1),
    DatacompTask("retrieval/flickr_1k_test_image_text_retrieval", "Flickr", MEAN_RECALL,
         ("flickr30k", "flickr")),
    DatacompTask("retrieval/mscoco_2014_5k_test_image_text_retrieval", "MSCOCO", MEAN_RECALL,
         ("mscoco_captions", "mscoco", "coco_captions", "coco")),
    DatacompTask("misc/winogavil", "WinoGAViL", "jaccard_score_10-12"),
    DatacompTask("wilds/iwildcam", "iWildCam", "macro_f1"),
    DatacompTask("wilds/camelyon17", "Camelyon17", ACC1),
    DatacompTask("wilds/fmow", "FMoW", "worst_group_acc1", group="region"),
    DatacompTask("fairness/dollar_street", "Dollar Street", "worst_group_acc5", group="income_ds"),
    DatacompTask("fairness/geode", "GeoDE", "worst_group_acc1", group="region"),
    DatacompTask("wilds/waterbirds", "Waterbirds", "worst_group_acc1", group="background",
         with_class=True, listed=False),
)  # fmt: skip
"""DataComp's sets with a main metric, in the order of its list, and Waterbirds."""

OF_GROUPS: dict[str, tuple[str, ...]] = {
    "ImageNet": ("ImageNet 1k",),
    "ImageNet dist. shifts": ("ImageNet Sketch", "ImageNet v2", "ImageNet-A", "ImageNet-O",
                              "ImageNet-R", "ObjectNet"),
    "VTAB": ("Caltech-101", "CIFAR-100", "CLEVR Counts", "CLEVR Distance", "Describable Textures",
             "EuroSAT", "KITTI Vehicle Distance", "Oxford Flowers-102", "Oxford-IIIT Pet",
             "PatchCamelyon", "RESISC45", "SVHN", "SUN397"),
    "Retrieval": ("Flickr", "MSCOCO", "WinoGAViL"),
}  # fmt: skip
"""Names of the sets in each of DataComp's means over a group of sets."""


def task(evaluation_set: str) -> DatacompTask | None:
    """Return DataComp's task for a set of that name, or None if it does not have the set.

    Examples
    --------
    >>> task("wds_vtab-pets_test").metric, task("wds_imagenet1k_test").metric
    ('mean_per_class_recall', 'acc1')
    """
    return _by_name().get(canonical(evaluation_set))


def metric(evaluation_set: str) -> str:
    """Return the main metric of a set: accuracy if DataComp does not have it."""
    found_task = task(evaluation_set)
    return ACC1 if found_task is None else found_task.metric


@cache
def task_names() -> tuple[str, ...]:
    """Return the names of the sets with a main metric, in the order of the list."""
    return tuple(each.name for each in TASKS if each.listed)


@cache
def means() -> dict[str, tuple[str, ...]]:
    """Return the names of the sets in each of DataComp's means, the total last."""
    return {**OF_GROUPS, "Average": task_names()}


@cache
def _by_name() -> dict[str, DatacompTask]:
    return {
        canonical(name): each for each in TASKS for name in (each.key, each.name, *each.aliases)
    }
