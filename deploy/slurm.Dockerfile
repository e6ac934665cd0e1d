# Lacuna's image with Slurm's commands, for the profile `slurm` of compose.yaml. They must be of the
# version of your slurmctld or at most two older: take your site's own packages if Debian's do not fit.
ARG LACUNA_IMAGE=lacuna:local
FROM ${LACUNA_IMAGE} AS slurm
USER 0
RUN apt-get update -q && apt-get install -q -y --no-install-recommends slurm-client \
    && rm -rf /var/lib/apt/lists/* /etc/slurm /run/munge && mkdir -p /etc/slurm /run/munge
USER 10001:10001
