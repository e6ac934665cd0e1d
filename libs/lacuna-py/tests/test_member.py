"""The timeout of a member in the runs that it tries, without processes."""

import pytest
import torch.distributed as dist

from lacuna import member
from lacuna.group import Group, Rendezvous, doing
from lacuna.keys import put
from lacuna.member import Regroup
from lacuna.messages import Membership

TIMEOUT = 2.0


class Agent:
    """A link that opens a run as soon as one is waited for, up to a last one."""

    leaving = None
    newest_age = 0.0

    def __init__(self):
        self.newest = None
        self.said = []

    def open(self, world_size=2):
        number = self.newest.run + 1 if self.newest else 1
        members = tuple(f"n{rank}" for rank in range(world_size))
        self.newest = Membership(number, 0, members, "127.0.0.1:1")

    def wait(self, ready, timeout):
        return ready()

    def say(self, message):
        self.said.append(message)


class Meetings:
    """A rendezvous at which the others never come; each may be overtaken by a newer run."""

    def __init__(self, agent):
        self.agent = agent
        self.overtaken = self.broken = 0
        self.limits = []
        self.timeouts = []

    def once(self, run):
        return None

    def withdraw(self, prefix, run):
        pass

    def meet(self, prefix, run, card, watch, limit):
        self.limits.append(limit)
        self.timeouts.append(card["timeout"])
        if self.overtaken:
            self.overtaken -= 1
            self.agent.open()
            return watch()
        if self.broken:
            self.broken -= 1
            return "not met"
        self.agent.open(world_size=1)
        return watch()


@pytest.fixture
def regroup(monkeypatch):
    agent = Agent()
    made = Regroup(agent, "trainer", "gloo")
    made._rendezvous = Meetings(agent)
    return made


def attempt(regroup, *, overtaken=0, broken=0, state=(5, 1)):
    """Tries runs of two until one of this member alone works; the timeout of each."""
    meetings = regroup._rendezvous
    meetings.overtaken, meetings.broken = overtaken, broken
    meetings.limits, meetings.timeouts = [], []
    regroup._link.open()
    card = {"state": None if state is None else list(state), "saved": -1, "timeout": TIMEOUT}
    formed = regroup.form(lambda: dict(card), lambda cards, rank: None)
    assert formed is not None and isinstance(formed.group, Group)
    return meetings.timeouts


def test_a_run_that_a_newer_one_overtakes_does_not_lengthen_the_timeout(regroup):
    assert attempt(regroup, overtaken=9) == [TIMEOUT] * 10
    assert regroup._link.said == []


def test_a_group_that_breaks_by_itself_lengthens_the_timeout_up_to_eight_times(regroup):
    timeouts = attempt(regroup, broken=9)
    assert timeouts == [TIMEOUT * factor for factor in (1, 2, 4, 8, 8, 8, 8, 8, 8, 8)]
    assert regroup._rendezvous.limits == timeouts


def test_the_first_step_of_a_group_brings_the_timeout_back(regroup):
    attempt(regroup, broken=3)
    assert attempt(regroup)[0] == 8 * TIMEOUT
    regroup.stepped()
    assert attempt(regroup) == [TIMEOUT]


def test_a_break_is_counted_only_before_the_first_step_and_without_a_newer_run(regroup):
    attempt(regroup)
    regroup.stepped()
    regroup.broke()
    assert attempt(regroup) == [TIMEOUT]
    regroup._link.open()
    regroup.broke()
    assert attempt(regroup) == [TIMEOUT]
    regroup.broke()
    assert attempt(regroup) == [2 * TIMEOUT]


def test_a_member_without_state_waits_longer_and_its_group_no_longer(regroup):
    """Members with state may be in the middle of a long step."""
    timeouts = attempt(regroup, broken=1, state=None)
    assert timeouts == [TIMEOUT, 2 * TIMEOUT]
    assert regroup._rendezvous.limits == [member.NEWCOMER, 2 * member.NEWCOMER]
    assert member.NEWCOMER >= 60.0


@pytest.mark.parametrize(
    "last, said",
    [("meets trainer/1/0", [{"say": "broken", "run": 1}]), ("meets trainer/1/1", []), ("busy 1", [])],
)
def test_a_group_that_a_busy_member_let_go_is_not_broken(regroup, last, said):
    """Also where that member is back, and meets the others again before they have noticed."""
    regroup._link.open()
    run, store = regroup._link.newest, dist.HashStore()
    meetings = regroup._rendezvous
    meetings.once, meetings.lives = lambda run: store, Rendezvous().lives
    regroup._run = regroup._all = run
    put(store, doing("trainer", run, 1), last)
    regroup.broke()
    assert regroup._link.said == said
