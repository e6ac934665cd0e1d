"""Training in holes: batch jobs take nodes, training goes on, all nodes are given back."""

import json
import random
import time

from lacuna_beside import until
from tests.common import WithLacuna

# Steps may be this far apart, whatever happens to the members, seconds. Measured medians are
# well below (measure.py); a machine of two cores that does other things has its moments.
LONGEST_STALL = 3.0


class Training(WithLacuna):
    def test_training_goes_on_while_batch_jobs_take_nodes(self):
        self.train("goeson")
        started = time.time()
        # Two of four nodes, for as long as it takes to see that training goes on beside it.
        self.cluster.ctl("srun", "-Q", "-N2", "-p", "batch", "sleep", "3", user="alice")
        steps = self.steps_hold("goeson")
        during = [s for s in steps if started + 1 < s["t"] < started + 3]
        self.assertTrue(during, "no step while the batch job ran")
        self.assertEqual({s["world"] for s in during}, {2})
        self.assertLess(self.longest(steps), LONGEST_STALL)
        self.assertEqual(self.lacuna.trainer("goeson")["phase"], "active")
        self.lacuna.ask("cancel", "goeson")
        self.nothing_is_left()

    def test_fifty_preemptions(self):
        self.train("fifty", samples=32 * 6400.0)
        seed = 50
        chance = random.Random(seed)
        print(f"\n    seed {seed}")
        for _ in range(50):
            # Always a node that trains; two go on, and the others may be on their way back.
            training = until("three nodes train", 60, lambda: self.three("fifty"))
            node = chance.choice(sorted(training))
            self.cluster.ctl("srun", "-Q", "-w", node, "-p", "batch", "true", user="alice")
        self.lacuna.write("/shared/fifty.hurry", "")
        until("the trainer is done", 300, lambda: self.lacuna.trainer("fifty")["phase"] == "done", every=1)
        self.assertGreaterEqual(self.lacuna.trainer("fifty")["preemptions"], 50)
        steps = self.steps_hold("fifty")
        print(f"    longest stall {self.longest(steps):.2f} s")
        # The program writes it after its last step, and then ends by itself.
        result = json.loads(self.lacuna.read("/shared/fifty/result.json"))
        self.assertEqual(result["steps"], 6400)
        self.assertEqual(sum(result["used"]), 32 * 6400.0)
        self.assertEqual({round(n) for n in result["used"]}, {800}, "a sample was left out or used twice")
        self.assertEqual(self.lacuna.trainer("fifty")["samples"], 32 * 6400.0)
        self.same_losses(steps, 6400)
        self.nothing_is_left()

    def three(self, name: str) -> set[str]:
        """Nodes that train, if there are three, all of which have made a step together: one that has
        only joined does not know the model yet, and cannot go on with it alone."""
        training = self.lacuna.leased(name)
        steps = self.lacuna.steps(name)
        together = steps and steps[-1]["world"] >= 3
        return training if together and len(training) >= 3 else set()

    def same_losses(self, steps: list[dict], count: int) -> None:
        """The losses are those of the same program, alone and never disturbed."""
        script = (
            f"mkdir -p /shared/alone && LACUNA_CHECKPOINT_DIR=/shared/alone LACUNA_SAMPLES_TOTAL={32 * count} "
            "python3 /test-cluster/programs/counted.py --seconds 0"
        )
        self.cluster.ctl("bash", "-c", script, user="lacuna", limit=300)
        alone = {s["step"]: s["loss"] for s in self.lacuna.steps("alone")}
        worst = max(abs(s["loss"] - alone[s["step"]]) / alone[s["step"]] for s in steps)
        print(f"    losses differ by {worst:.1e} at most from those of a run alone")
        self.assertLess(worst, 1e-2)

    @staticmethod
    def longest(steps: list[dict]) -> float:
        return max(after["t"] - before["t"] for before, after in zip(steps, steps[1:]))
