"""Names of keys of cluster.toml in other programs and in other sections.

The programs are PyTorch, torchvision, Keras, timm, Albumentations and Caffe. A section with such a
name is answered with Convoy's key (`Section.other_names`).
"""

from __future__ import annotations

TRAIN = {
    "lr": "base_lr",
    "learning_rate": "base_lr",
    "weight_decay": "optimizer.weight_decay",
    "batch_size": "batch",
    "iterations": "max_iter",
    "test_interval": "test_epochs, or the solver's test_interval",
    "frozen": "freeze",
    "lr_mult": "lr_scale",
    "rates": "lr_scale",
    "pretrained": "weights",
}
OPTIMIZER = {
    "lr": "train.base_lr",
    "learning_rate": "train.base_lr",
    "base_lr": "train.base_lr",
    "momentum": "train.momentum",
    "betas": "train.momentum and momentum2",
    "beta1": "train.momentum",
    "beta2": "momentum2",
    "eps": "epsilon",
    "wd": "weight_decay",
    "nesterov": 'type = "Nesterov"',
    "rates": "train.lr_scale",
}
SCHEDULE = {
    "gamma": "factor",
    "milestones": "at",
    "step_size": "every",
    "stepsize": "every",
    "eta_min": "end",
    "min_lr": "least",
    "T_max": "train.max_iter or train.epochs: the schedule ends with the run",
    "total_steps": "train.max_iter or train.epochs: the schedule ends with the run",
}


def _by_name(names: dict[str, str]) -> dict[str, str]:
    """Turn "key: its names in other programs" around."""
    return {name: key for key, said in names.items() for name in said.split()}


AUGMENT = _by_name(
    {
        "erase": "cutout random_erasing randomerasing random_erase reprob coarse_dropout",
        "pad": (
            "random_crop randomcrop crop_padding zero_padding random_translation "
            "width_shift_range height_shift_range"
        ),
        "padding": "padding_mode pad_mode fill fill_mode",
        "scale": (
            "random_resized_crop randomresizedcrop random_sized_crop area random_zoom zoom_range"
        ),
        "ratio": "aspect aspect_ratio",
        "flip": (
            "mirror hflip fliplr horizontal_flip random_flip random_horizontal_flip "
            "randomhorizontalflip"
        ),
        "brightness": "color_jitter colour_jitter colorjitter jitter brightness_range",
        "randaugment": (
            "auto_augment autoaugment aa trivialaugment trivial_augment_wide rotation "
            "rotation_range random_rotation shear_range"
        ),
        "lighting": "pca pca_noise fancy_pca color_noise",
    }
)
DATA = _by_name(
    {
        "deviation": "std stddev scale standard_deviation",
        "augment": "transform transforms aug",
        "test": "val valid validation",
        "test_flips": "tta test_time_augmentation",
        "classes": "labels class_names names",
    }
)
