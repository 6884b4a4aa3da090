# Container images of repro. `make image` builds both targets with docker or buildah.
#
#   scratch   nothing but the program
#   cuda      the program on BASE, for machines with NVIDIA GPUs: the container runtime adds the driver's libraries
#
# BUILDER is a Debian 12; the program is the same bytes whatever it is built in, as long as the compiler is the same.
ARG BUILDER=debian:bookworm-slim
ARG BASE=nvidia/cuda:12.9.1-base-ubuntu22.04

FROM ${BUILDER} AS build
WORKDIR /src
COPY env env
RUN apt-get update -qq && env/setup.sh cuda
# The dependencies are a layer of their own. DEPS_DIR may name a mounted directory where they are built already.
ARG DEPS_DIR=/deps
RUN env/build-deps.sh ${DEPS_DIR}
# CUDA=0: without the GPU worker.
ARG CUDA=1
RUN [ ${CUDA} = 0 ] || env/fetch-cuda.sh ${DEPS_DIR}
COPY . .
ARG COMMIT=unknown
ARG DIRTY=unknown
RUN make -s CUDA=${CUDA} COMMIT=${COMMIT} DIRTY=${DIRTY} DEPS_DIR=${DEPS_DIR} && build/repro version

FROM ${BASE} AS cuda
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="repro" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY --from=build /src/build/repro /usr/local/bin/repro
ENTRYPOINT ["/usr/local/bin/repro"]

FROM scratch AS scratch-image
ARG VERSION=unknown
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="repro" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${COMMIT}"
COPY --from=build /src/build/repro /repro
ENTRYPOINT ["/repro"]
