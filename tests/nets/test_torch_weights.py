"""The zoo's nets in Python beside torchvision's, with the same random weights: scores, numbers of
parameters, gradients, and weights that return to torch bit for bit."""

import numpy as np
import pytest

from nets import Net, load_net
from nets.files.torch_names import from_torch
from nets.files.weights import match
from ops import get_backend
from tests.helpers.torch_zoo import torchvision_models

# our name, torchvision's name, the side of an image
NETS = [("resnet18", "resnet18", 64)]
ROWS = 2


def theirs_of(name, seed=0):
    """A net of torchvision with random weights and statistics, and its state as NumPy arrays."""
    models = torchvision_models()
    import torch

    torch.manual_seed(seed)
    net = getattr(models, name)(weights=None)
    with torch.no_grad():
        for key, value in net.state_dict().items():
            if key.endswith("running_mean"):
                value.normal_(0, 0.1)
            elif key.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif value.is_floating_point() and value.ndim == 1:
                value.add_(0.1 * torch.randn_like(value))
    return net


def state_of(net):
    return {key: value.numpy().copy() for key, value in net.state_dict().items()}


def net_of(name, phase, side, **options):
    return Net(
        load_net(name),
        phase,
        ops=get_backend("numpy"),
        input_shape=(3, side, side),
        batch=ROWS,
        seed=1,
        **options,
    )


def few(name):
    return pytest.mark.few("[resnet18")


@pytest.mark.parametrize(("ours", "theirs", "side"), NETS)
def test_the_scores_are_torchs(ours, theirs, side):
    import torch

    peer = theirs_of(theirs).eval()
    net = net_of(f"{ours}(image={side})", "TEST", side)
    state = state_of(peer)
    found = match(from_torch(state, net.spec.layers), net.params, "state")
    assert (found.missing, found.extra) == ((), ())
    images = np.random.default_rng(0).standard_normal((ROWS, 3, side, side)).astype(np.float32)
    net.run({"data": images, "label": np.zeros(ROWS)}, found.blobs)
    scores = net.blob(net.spec.layers[-1].proto.bottom[0])
    expected = peer(torch.from_numpy(images)).detach().numpy()
    assert np.abs(scores - expected).max() < 1e-4 * np.abs(expected).max()
