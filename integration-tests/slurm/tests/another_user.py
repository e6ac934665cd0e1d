"""Pilots that belong to another user than control: its commands go through sudo."""

from lacuna_beside import TRAIN, until
from tests.common import WithLacuna


class AnotherUser(WithLacuna):
    def test_pilots_belong_to_the_user_that_sudo_names(self):
        command = '["sudo", "-n", "-u", "train", "{}"]'
        lines = [("submit", "sbatch"), ("cancel", "scancel"), ("list", "squeue")]
        text = "".join(f"{name} = {command.format(program)}\n" for name, program in lines)
        self.configure(
            ("[control.pilots.pace]", f"[control.pilots.commands]\n{text}\n[control.pilots.pace]"),
            ('user = "lacuna"', 'user = "train"'),
            # sudo brings a search path of its own.
            ('agent_config = "', 'agent = "/opt/lacuna/bin/lacuna-agent"\nagent_config = "'),
            # The pilots' user makes it on the nodes.
            ('work_dir = "/var/lib/lacuna/work"', 'work_dir = "/tmp/train-work"'),
        )
        self.lacuna.restart("ingest")
        self.lacuna.restart("control")
        self.train("theirs")
        self.assertEqual(self.users(), {TRAIN})
        pilots = self.lacuna.pilots()
        # Adopted after a restart, since they are found by name and comment, of whichever user.
        self.lacuna.restart("control")
        self.cluster.ctl("srun", "-Q", "-w", "n02", "-p", "batch", "sleep", "1", user="alice")
        until("it trains on all nodes again", 60, lambda: self.lacuna.leased("theirs") == self.names)
        self.assertEqual(len(set(pilots) & set(self.lacuna.pilots())), 3)
        # And cancelled through sudo too.
        self.cluster.ctl("lacuna", "pilots", "stop", user="lacuna")
        until("no pilot is left", 30, lambda: not self.lacuna.pilots())
        self.lacuna.ask("cancel", "theirs")
        self.nothing_is_left()

    def users(self) -> set[str]:
        return set(self.cluster.ctl("squeue", "-h", "-p", "filler", "-o", "%u").stdout.split())
