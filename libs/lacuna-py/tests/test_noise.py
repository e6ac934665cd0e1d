"""The noise scale is unbiased for any shares, as exact as it says, and free of messages."""

import json
import math
import sys

import pytest
import torch

import learner
from conftest import HERE, SOURCE, data
from lacuna.halves import Halves, halves
from lacuna.loopback import Loopback
from lacuna.noise import NoiseScale, Sample, gain
from lacuna.norms import Norms, decay


def sample_of(gradients, shares, momentum=None, beta=0.0):
    """The sample of a step from the members' mean gradients."""
    weights = torch.tensor(shares, dtype=torch.float64) / sum(shares)
    local = (weights * gradients.pow(2).sum(1)).sum().item()
    mean = (weights[:, None] * gradients).sum(0)
    return Sample(len(shares), sum(shares), local, mean.pow(2).sum().item(), momentum, beta), mean


def drawn(true, deviation, shares, dice):
    """Mean gradients of members with these shares."""
    noise = torch.randn(len(shares), len(true), generator=dice, dtype=torch.float64)
    return true + noise * deviation / torch.tensor(shares, dtype=torch.float64).sqrt()[:, None]


def test_moments_are_those_of_the_golden_rows():
    path = data("seeds/noise_scale_golden.json")
    for row in json.loads(path.read_text()):
        gradients = torch.tensor(row["gradients"], dtype=torch.float64)
        found, _ = sample_of(gradients, row["shares"])
        assert found.local == pytest.approx(row["weighted_local"], rel=1e-9)
        assert found.whole == pytest.approx(row["global_sqr"], rel=1e-9)
        assert found.square() == pytest.approx(row["sqr"], rel=1e-9)
        assert found.trace() == pytest.approx(row["trace"], rel=1e-9)


def test_factors_are_those_of_the_golden_rows():
    path = data("seeds/goodput_golden.json")
    for row in json.loads(path.read_text())["gain"]:
        phi = max(row["var"], 1e-6) / row["sqr"] if row["sqr"] > 0 else math.inf
        assert gain(phi, row["scale"]) == pytest.approx(row["adascale"], rel=1e-9)


@pytest.mark.parametrize("shares", [[16] * 4, [8, 8, 16, 32], [1, 3, 20, 40], [32, 32]])
def test_uneven_shares_bias_nothing(shares):
    """4,000 draws: the means lie within three standard errors of the truth."""
    dice = torch.Generator().manual_seed(1)
    true = torch.randn(50, generator=dice, dtype=torch.float64)
    trace, square = 50 * 9.0, true.pow(2).sum().item()
    found = [sample_of(drawn(true, 3.0, shares, dice), shares)[0] for _ in range(4000)]
    for values, wanted in (
        ([one.trace() for one in found], trace),
        ([one.square() for one in found], square),
    ):
        values = torch.tensor(values, dtype=torch.float64)
        error = values.std().item() / math.sqrt(len(values))
        assert abs(values.mean().item() - wanted) < 3.0 * error
        assert error < 0.05 * wanted
    if min(shares) < max(shares):
        # The published estimator takes the plain mean of the squared norms.
        plain = []
        for _ in range(1000):
            gradients = drawn(true, 3.0, shares, dice)
            one, _ = sample_of(gradients, shares)
            local = gradients.pow(2).sum(1).mean().item()
            plain.append(Sample(len(shares), sum(shares), local, one.whole).trace())
        assert sum(plain) / 1000 > 1.3 * trace


@pytest.mark.parametrize("noise, members, most", [(25.0, 2, 0.2), (25.0, 4, 0.15)])
def test_momentum_makes_the_signal_known_within_300_steps(noise, members, most):
    """The root of the mean squared error of 12 repeats; single steps are twice as far off."""
    beta, width, batch = 0.9, 200, 32
    errors, single, said = [], [], []
    for seed in range(12):
        dice = torch.Generator().manual_seed(seed)
        true = torch.randn(width, generator=dice, dtype=torch.float64)
        square = true.pow(2).sum().item()
        deviation = math.sqrt(noise * square * batch / width)
        shares = [batch // members] * members
        mean = torch.zeros(width, dtype=torch.float64)
        with_momentum, without = NoiseScale(), NoiseScale()
        for step in range(1, 331):
            one, whole = sample_of(drawn(true, deviation, shares, dice), shares)
            mean = beta * mean + (1 - beta) * whole
            if step > 30:
                momentum = mean.pow(2).sum().item() / (1 - beta**step) ** 2
                with_momentum.add(Sample(one.members, batch, one.local, one.whole, momentum, beta))
                without.add(one)
        ours, other = with_momentum.estimate(batch), without.estimate(batch)
        errors.append(ours.square / square - 1)
        single.append(other.square / square - 1)
        said.append(ours.error)
    rms = math.sqrt(sum(e * e for e in errors) / len(errors))
    plain = math.sqrt(sum(e * e for e in single) / len(single))
    print(f"rho {noise}, {members} members: {rms:.3f} by momentum, {plain:.3f} by single steps")
    assert rms < most and rms < 0.7 * plain
    assert 0.4 * rms < sum(said) / len(said) < 2.5 * rms, "it says how far off it is"


def stationary(scale, noise, steps, dice, width=64, batch=32):
    """Feeds steps with |G|^2 = 1 and tr C = noise * batch."""
    true = torch.full((width,), width**-0.5, dtype=torch.float64)
    shares = [8, 24]
    for _ in range(steps):
        deviation = math.sqrt(noise * batch / width)
        scale.add(sample_of(drawn(true, deviation, shares, dice), shares)[0])


def test_the_window_grows_with_the_noise_and_follows_a_jump():
    dice = torch.Generator().manual_seed(3)
    scale = NoiseScale()
    stationary(scale, 2.0, 2000, dice)
    quiet = scale.estimate(32)
    assert quiet.phi == pytest.approx(2.0, rel=3 * quiet.error) and quiet.error < 0.2
    stationary(scale, 40.0, 6000, dice)
    loud = scale.estimate(32)
    assert loud.phi == pytest.approx(40.0, rel=3 * max(loud.error, 0.1))
    assert loud.steps > 4 * quiet.steps and loud.low < loud.phi
    # Another member, and a checkpoint, go on from the same sums.
    other = NoiseScale()
    other.load_state_dict(json.loads(json.dumps(scale.state_dict())))
    assert other == scale


def test_bad_numbers_are_passed_over():
    scale = NoiseScale()
    assert scale.estimate(32) is None
    for bad in (math.nan, math.inf):
        scale.add(Sample(2, 64, bad, 1.0))
        scale.add(Sample(2, 64, 1.0, bad))
    assert scale.estimate(32) is None
    for _ in range(50):
        scale.add(Sample(2, 64, 0.0, 0.0))
    # No gradient at all: no noise, and nothing is divided by zero.
    assert scale.estimate(32).phi == 0.0 and scale.estimate(32).gain(4.0) == 1.0
    # A signal that is lost in noise: efficiency is not taken for one without an end.
    lost = NoiseScale()
    dice = torch.Generator().manual_seed(5)
    zero = torch.zeros(20, dtype=torch.float64)
    for _ in range(500):
        lost.add(sample_of(drawn(zero, 1.0, [8, 8], dice), [8, 8])[0])
    found = lost.estimate(16)
    assert math.isfinite(found.phi) and found.error >= 0.5 and found.low < found.phi


def test_norms_in_adams_geometry_are_those_of_divided_gradients():
    torch.manual_seed(1)
    model = torch.nn.Linear(7, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.8, 0.99))
    parameters = list(model.parameters())
    norms = Norms(parameters, optimizer and [optimizer], "adam")
    for _ in range(12):
        optimizer.zero_grad()
        model(torch.randn(4, 7)).pow(2).mean().backward()
        optimizer.step()
    wanted = steady = 0.0
    for p in parameters:
        state = optimizer.state[p]
        steps = int(state["step"])
        root = (state["exp_avg_sq"] / (1 - 0.99**steps)).sqrt() + 1e-8
        wanted += (p.grad / root).pow(2).sum().item()
        steady += (state["exp_avg"] / (1 - 0.8**steps)).pow(2).sum().item()
    assert norms.of_gradients([p.grad for p in parameters]) == pytest.approx(wanted, rel=1e-5)
    assert decay([optimizer]) == 0.8
    plain = Norms(parameters, [optimizer], "sgd")
    assert plain.of_momentum(12) == pytest.approx(steady, rel=1e-5)


def test_weight_decay_and_dampening_are_taken_out_of_the_momentum():
    parameter = torch.nn.Parameter(torch.tensor([2.0, -1.0], dtype=torch.float64))
    optimizer = torch.optim.SGD([parameter], lr=0.0, momentum=0.9, dampening=0.5, weight_decay=0.1)
    gradient = torch.tensor([0.3, 0.7], dtype=torch.float64)
    for _ in range(400):
        parameter.grad = gradient.clone()
        optimizer.step()
    norms = Norms([parameter], [optimizer], "sgd")
    assert norms.of_momentum(400) == pytest.approx(gradient.pow(2).sum().item(), rel=1e-9)


def test_a_batch_is_cut_in_two_or_left_whole():
    x, y = torch.arange(10.0).reshape(5, 2), torch.arange(5)
    (a, b), (c, d) = halves((x, {"y": y}), 5)
    assert torch.equal(torch.cat([a, c]), x) and torch.equal(torch.cat([b["y"], d["y"]]), y)
    assert len(a) == 3 and halves((x, "words"), 5) is None and halves(x, 1) is None
    parameter = torch.nn.Parameter(torch.zeros(2))
    both = Halves([parameter], 5)
    parameter.grad = torch.tensor([1.0, 0.0])
    assert both.keep(1.0) and parameter.grad is None
    parameter.grad = torch.tensor([0.0, 2.0])
    assert not both.keep(2.0)
    loss, local, whole = both.join(2.0, lambda g: sum(t.pow(2).sum().item() for t in g))
    assert loss == pytest.approx(1.4) and local == pytest.approx(0.6 + 0.4 * 4.0)
    assert whole == pytest.approx(0.36 + 0.64)


def on_nodes(folder, names, *arguments, **env):
    """Results by node of the program with a known truth."""
    argv = [sys.executable, str(HERE / "learner.py"), "--into", str(folder), *arguments]
    with Loopback(argv, folder, env={"PYTHONPATH": SOURCE, **env}) as cluster:
        for name in names:
            cluster.start(name)
        cluster.join(*names)
        codes = [cluster.wait_gone(name, 120.0) for name in names]
        words = [cluster.nodes[name].output.read_text() for name in names]
    assert codes == [0] * len(names), words
    return {name: json.loads((folder / f"{name}.result").read_text()) for name in names}


@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_members_measure_the_truth_without_a_message_more(tmp_path, nodes):
    names = [f"n{i}" for i in range(nodes)]
    steps = "900" if nodes > 1 else "700"
    found = on_nodes(tmp_path, names, "--steps", steps, "--momentum", "0.9" if nodes > 1 else "0")
    phi = {name: one["phi"] for name, one in found.items()}
    assert all(one == phi["n0"] for one in phi.values()), "members agree to the last bit"
    value, error, measured = phi["n0"]
    assert abs(value / found["n0"]["truth"] - 1) < 3 * error < 1.5, phi
    assert learner.truth(learner.rows(4096, 64, 1.0), 32) == found["n0"]["truth"]
    assert measured >= 15
