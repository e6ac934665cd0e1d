# Stand-ins for the public images of Prometheus and Alertmanager, for places without a container registry:
# Debian's packages on the base image. deploy/up.sh uses them when the public images are not available.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS prometheus
RUN apt-get update -q && apt-get install -q -y --no-install-recommends prometheus wget \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
VOLUME /prometheus
WORKDIR /prometheus
ENTRYPOINT ["prometheus"]

FROM ${BASE_IMAGE} AS alertmanager
RUN apt-get update -q && apt-get install -q -y --no-install-recommends prometheus-alertmanager wget \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /alertmanager && chown 65534:65534 /alertmanager
USER 65534:65534
VOLUME /alertmanager
WORKDIR /alertmanager
ENTRYPOINT ["prometheus-alertmanager"]
