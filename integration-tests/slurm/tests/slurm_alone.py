"""Slurm alone, the base of all other figures."""

import unittest

from tests.common import cluster


class SlurmAlone(unittest.TestCase):
    def test_a_batch_job_runs_on_every_node(self):
        said = cluster().ctl("srun", "-N", str(cluster().layout.nodes), "-p", "batch", "hostname", user="alice")
        self.assertEqual(sorted(said.stdout.split()), cluster().layout.node_names)

    def test_a_filler_makes_way_for_a_batch_job(self):
        words = ["--repeats", "1", "--widths", "1", "--conditions", "none,dies", "--json", "--quiet"]
        said = cluster().ctl("python3", "/test-cluster/measure.py", *words, limit=120)
        self.assertIn('"condition": "dies"', said.stdout)
