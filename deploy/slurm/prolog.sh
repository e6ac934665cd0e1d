#!/usr/bin/env bash
# Slurm's Prolog: tells Lacuna that a batch job has taken this node. Always 0, always at once.
exec bash "${BASH_SOURCE[0]%/*}/publish.sh" node.busy
