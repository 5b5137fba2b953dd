"""Names of keys of cluster.toml in other programs and in other sections.

The programs are PyTorch, torchvision, Keras, timm, Albumentations and Caffe. A section with such a
name is answered with Convoy's key (`Section.other_names`).
"""

from __future__ import annotations

SMOOTHING = "loss_param { label_smoothing: 0.1 } of the net's SoftmaxWithLoss"
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
    "amp": "precision",
    "clip_norm": "optimizer.clip_norm",
    "grad_clip": "optimizer.clip_norm",
    "gradient_clipping": "optimizer.clip_norm",
    "label_smoothing": SMOOTHING,
    "mixup": "data.augment.mixup",
    "cutmix": "data.augment.cutmix",
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
    "clip": "clip_norm",
    "grad_clip": "clip_norm",
    "max_norm": "clip_norm",
    "label_smoothing": SMOOTHING,
    "rates": "train.lr_scale",
}
SCHEDULE = {
    "gamma": "factor",
    "milestones": "at",
    "step_size": "every",
    "stepsize": "every",
    "eta_min": "end",
    "min_lr": "least",
    "max_lr": "train.base_lr, to which the rate rises",
    "pct_start": "warmup or warmup_epochs",
    "warmup_iters": "warmup",
    "warmup_steps": "warmup",
    "T_max": "train.max_iter or train.epochs: the schedule ends with the run",
    "total_steps": "train.max_iter or train.epochs: the schedule ends with the run",
}
EMA = {"momentum": "decay", "beta": "decay"}


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
        "train.data.crop": "crop",
        "train.data.mean": "mean",
        "train.data.deviation": "std",
        SMOOTHING: "label_smoothing",
    }
)
DATA = _by_name(
    {
        "deviation": "std stddev scale standard_deviation",
        "augment": "transform transforms aug",
        "test": "val valid validation",
        "test_flips": "tta test_time_augmentation",
        "classes": "labels class_names names",
        "train.batch": "batch batch_size",
        "augment.mixup": "mixup",
        "augment.cutmix": "cutmix",
    }
)
