"""Progress, learning rate, schedulers and batch follow what a step is worth."""

import json
import math

import pytest
import torch

import lacuna
from lacuna.choice import Times, choose
from lacuna.learning import Learning
from lacuna.noise import Scale
from lacuna.order import Share
from lacuna.policy import checked

EMPTY = torch.empty(0)


def sgd(rate=0.1, momentum=0.0):
    return torch.optim.SGD([torch.nn.Parameter(torch.zeros(3))], lr=rate, momentum=momentum)


def share(batch, world=4):
    return Share(0, 0, batch, 0, world, EMPTY)


def known(learning, phi, batch, world=4):
    """Feeds steps whose noise scale in units of the reference batch is ``phi``."""
    first = learning._first
    for step in range(60):
        trace = phi * first
        whole = 1.0 + trace / batch
        local = 1.0 + trace / batch * world
        # The squared norm of the mean comes with the message of the next step.
        more = [1.0, whole * (1.0 + 1e-3 * math.sin(step)), 0.0, 0.0, 0.0, 0.0] + [0.01] * world
        learning.agreed(share(batch, world), share(batch, world).counts, more, local, True)


def test_adascale_counts_progress_in_steps_of_the_users_batch():
    learning = Learning(checked(lacuna.PerNode(32, "adascale")), [sgd()])
    # Without a noise scale a larger batch is one step.
    assert learning.applies(share(128)) == (1.0, 1, 32)
    known(learning, 3.0, 128)
    found = learning.scale()
    assert found.phi == pytest.approx(3.0, rel=0.05)
    total = 1.0
    for _ in range(40):
        factor, ticks, samples = learning.applies(share(128))
        assert factor == pytest.approx(found.gain(4.0))
        assert factor == pytest.approx((3 + 1) / (3 / 4 + 1), rel=0.05)
        total += factor
        assert ticks in (2, 3) and samples in range(70, 76)
    assert learning.progress == pytest.approx(total)
    # The last batch of an epoch is smaller than the reference: it is worth less than a step.
    factor, _, samples = learning.applies(share(16))
    assert factor < 1.0 and samples < 32


def test_adamscale_is_the_root_and_rules_fit_their_optimisers():
    adam = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(3))])
    learning = Learning(checked(lacuna.PerNode(32, "adamscale")), [adam])
    known(learning, 3.0, 128)
    factor, _, _ = learning.applies(share(128))
    assert factor == pytest.approx(math.sqrt(learning.scale().gain(4.0)))
    with pytest.raises(ValueError, match="use 'adamscale'"):
        Learning(checked(lacuna.PerNode(32, "adascale")), [adam])
    with pytest.raises(ValueError, match="use 'adascale'"):
        Learning(checked(lacuna.PerNode(32, "adamscale")), [sgd()])


def test_settings_that_contradict_are_refused():
    for bad in (
        lacuna.Adaptive(64, 32),
        lacuna.Adaptive(0, 32),
        lacuna.Adaptive(8, 32, "adagrad"),
        lacuna.Adaptive(8, 32, lambda ratio: ratio),
        lacuna.Adaptive(8, 32, most_per_worker=0),
        lacuna.PerNode(8, "legws"),
    ):
        with pytest.raises(ValueError):
            checked(bad)


def test_a_policy_without_noise_costs_no_number():
    learning = Learning(checked(32), [sgd()])
    assert not learning.measures and learning.numbers(None, 0.1) == ()
    assert learning.applies(share(32)) == (None, 1, None)
    assert learning.scale() is None and learning.report(32) is None


def measured(fixed, sample, rest, shares=((8, 8), (16, 16), (24, 24))):
    times = Times()
    for _ in range(20):
        for one in shares:
            seconds = [fixed + sample * b for b in one]
            times.add(one, seconds, rest + max(seconds))
            times._longest = max(seconds)
    return times


def test_a_report_says_what_other_sizes_would_take():
    for policy, follows in (
        (lacuna.Adaptive(32, 512, "linear", most_per_worker=128), "adaptive"),
        (lacuna.PerNode(32, "adascale"), {"per_node": {"samples": 32}}),
    ):
        learning = Learning(checked(policy), [sgd()])
        known(learning, 3.0, 64)
        batch = learning.report(64)["batch"]
        assert "sizing" not in batch, "no step was timed"
        assert batch["counts_progress"] == (follows != "adaptive"), "as its rule says"
        learning._times = measured(0.004, 0.001, 0.05)
        sizing = json.loads(json.dumps(learning.report(64)))["batch"]["sizing"]
        assert sizing["follows"] == follows
        assert sizing["fixed_s"] == pytest.approx(0.004)
        assert sizing["sample_s"] == pytest.approx(0.001)
        assert [row[0] for row in sizing["rest_s"]] == [2] and sizing["rest_s"][0][1] > 0.0
        assert sizing.get("most_of_worker") == (128 if follows == "adaptive" else None)


def test_how_the_batch_follows_is_said_where_samples_count_as_they_are():
    for batch, said in [
        (64, "whole"),
        (lacuna.PerNode(8, "linear"), {"per_node": {"samples": 8}}),
        (lacuna.PerNode(8, "adascale"), None),
        (lacuna.Adaptive(8, 64), None),
    ]:
        assert Learning(checked(batch), [sgd()]).follows() == said


def test_the_batch_is_that_with_the_most_learning_a_second():
    policy = lacuna.Adaptive(32, 512, most_per_worker=128)
    times = measured(0.004, 0.001, 0.05)
    assert times.line() == pytest.approx((0.004, 0.001))
    loud, quiet = Scale(50.0, 0.1, 1.0, 1.0, 100), Scale(0.2, 0.1, 1.0, 1.0, 100)
    large = choose(policy, times, loud, 32, 2)
    assert 128 < large <= 256, "a dear network and much noise: a large batch, within memory"
    assert choose(policy, times, quiet, 32, 2) == 32, "without noise the user's batch is best"
    assert choose(policy, times, loud, 32, 4) > large
    # The best of all by trying each.
    low = loud.low
    worth = {m: (low + 1) / (low + m / 32) * m / times.seconds(m, 2) for m in range(32, 257)}
    assert worth[large] > 0.995 * max(worth.values())
    # What is worth less than 5 % is left.
    near = next(m for m in sorted(worth) if worth[m] > 0.96 * max(worth.values()))
    assert choose(policy, times, loud, near, 2) == near
    doubt = Scale(50.0, 9.0, 1.0, 1.0, 100)
    assert choose(policy, times, doubt, 32, 2) < large, "doubt keeps batches small"
    assert choose(policy, Times(), loud, 64, 2) == 64, "nothing was measured"


def test_state_is_carried_and_goes_on_alike():
    policy = checked(lacuna.Adaptive(32, 256))
    one, other = (Learning(policy, [sgd()]) for _ in range(2))
    known(one, 3.0, 32)
    for _ in range(70):
        one.applies(share(32))
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for learning in (one, other):
        learning.new_group(4)
        known(learning, 3.0, 32)
        learning.applies(share(32))
        learning.look(4)
    assert one.state_dict() == other.state_dict()
    assert one.state_dict()["changes"] == 0, "releases before shares were a part read it"


def test_schedulers_and_epochs_follow_progress(tmp_path):
    """One member takes larger batches when the noise is large, and ends after as much progress."""
    torch.manual_seed(1)
    data = torch.randn(512, 6)
    target = data.sum(1, keepdim=True) + 3.0 * torch.randn(512, 1)
    model = torch.nn.Linear(6, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10, 0.9)
    batches, factors, halves = [], [], 0
    policy = lacuna.Adaptive(8, 128)
    with lacuna.elastic(
        model, optimizer, scheduler=scheduler, batch=policy, seed=1, checkpoint_dir=str(tmp_path)
    ) as run:
        for x, y in run.steps((data, target), epochs=10):
            optimizer.zero_grad()
            loss = (model(x) - y).pow(2).mean()
            loss.backward()
            before = run.progress
            if run.step(loss):
                factors.append(run.progress - before)
                batches.append(run.batch)
            else:
                halves += 1
        found = run.noise
    assert found is not None and found.phi > 1.0
    assert max(batches) > 8 and max(batches) <= 128
    assert halves >= 10, "steps of one member are looked at in two halves"
    assert run.progress == pytest.approx(640, abs=max(factors) + 1)
    assert run.steps_done < 640
    assert scheduler.last_epoch == math.floor(run.progress + 1e-9)
    assert run.samples == pytest.approx(8 * run.progress, abs=8)
    assert all(1.0 - 1e-9 <= f <= 16.0 for f in factors if f > 1.0)
