# Container images of repro. `make image` builds both targets with docker or buildah.
#
#   scratch   nothing but the program
#   cuda      the program on BASE, for machines with NVIDIA GPUs: the container runtime adds the driver's libraries
#
# In both it is /usr/local/bin/repro, as in every manifest of 'repro launch'. Bundles are written to /work, key and ledger
# to /key, so that a folder of bundles can be published: both have to be volumes. It needs no root, no other writable
# place and no user of the image:
#
#   docker run --rm --gpus all --read-only -u $(id -u):$(id -g) -v "$PWD:/work" -v repro-key:/key repro:VERSION-cuda run bert_fp32
#
# BUILDER is a Debian 12; the program is the same bytes whatever it is built in, as long as the compiler is the same.
# Images for linux/arm64 (PLATFORMS of env/image.sh) are cross-compiled: no emulator runs a compiler.
ARG BUILDER=debian:bookworm-slim
ARG BASE=nvidia/cuda:12.9.1-base-ubuntu22.04

FROM --platform=${BUILDPLATFORM} ${BUILDER} AS build
ARG TARGETARCH
WORKDIR /src
COPY env env
RUN apt-get update -qq && env/setup.sh cuda && { [ "${TARGETARCH}" != arm64 ] || env/setup.sh aarch64; }
# The dependencies are a layer of their own. DEPS_DIR may name a mounted directory where they are built already.
ARG DEPS_DIR=/deps
RUN RP_GCC=$([ "${TARGETARCH}" != arm64 ] || echo aarch64-linux-gnu-)gcc env/build-deps.sh ${DEPS_DIR}
# CUDA=0: without the GPU worker.
ARG CUDA=1
RUN [ ${CUDA} = 0 ] || env/fetch-cuda.sh ${DEPS_DIR}
COPY . .
ARG COMMIT=unknown
ARG DIRTY=unknown
RUN make -s $([ "${TARGETARCH}" != arm64 ] || echo ARCH=aarch64) CUDA=${CUDA} COMMIT=${COMMIT} DIRTY=${DIRTY} DEPS_DIR=${DEPS_DIR}
# Folders for the volumes, which take their modes: any user of a container may write there.
RUN mkdir -p /image/usr/local/bin && mkdir -m 1777 /image/work /image/key && \
    if [ "${TARGETARCH}" = arm64 ]; then mv build/aarch64/repro /image/usr/local/bin/ && qemu-aarch64-static /image/usr/local/bin/repro version; \
    else mv build/repro /image/usr/local/bin/ && /image/usr/local/bin/repro version; fi

FROM ${BASE} AS cuda
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="repro" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    HOME=/work XDG_CONFIG_HOME=/key XDG_CACHE_HOME=/work/.cache
COPY --from=build /image/ /
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/repro"]

FROM scratch AS scratch-image
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="repro" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
ENV PATH=/usr/local/bin HOME=/work XDG_CONFIG_HOME=/key XDG_CACHE_HOME=/work/.cache
COPY --from=build /image/ /
WORKDIR /work
ENTRYPOINT ["/usr/local/bin/repro"]
