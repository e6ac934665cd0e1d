#!/usr/bin/env bash
# Slurm's Epilog: tells Lacuna that a batch job has left this node. Always 0, always at once:
# an Epilog that fails drains the node.
exec bash "${BASH_SOURCE[0]%/*}/publish.sh" node.idle
