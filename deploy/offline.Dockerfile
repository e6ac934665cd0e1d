# A stand-in for Prometheus's public image, for places without a container registry: Debian's
# package on the base image. deploy/up.sh uses it when the public image is not available.
ARG BASE_IMAGE=debian:bookworm-slim

FROM ${BASE_IMAGE} AS prometheus
RUN apt-get update -q && apt-get install -q -y --no-install-recommends prometheus wget \
    && rm -rf /var/lib/apt/lists/* \
    && mkdir -p /prometheus && chown 65534:65534 /prometheus
USER 65534:65534
VOLUME /prometheus
WORKDIR /prometheus
ENTRYPOINT ["prometheus"]
