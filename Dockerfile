# syntax=docker/dockerfile:1
# Two images: `serve` (the default) answers requests, `train` learns and publishes.
#   docker build --target serve --tag localrank .
#   docker build --target train --tag localrank-train .
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS wheel
# The compiler is for the arithmetic in C, and stays in this stage.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml requirements.lock hatch_build.py README.md LICENSE CHANGELOG.md ./
COPY core core
COPY training training
COPY service service
COPY papers papers
RUN LOCALRANK_REQUIRE_NATIVE=1 pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .
# The other stages install what the lock names, each file by its digest; uv reads digests of a file of constraints.
RUN pip install --no-cache-dir uv==0.13.8 \
    && cp "$(command -v uv)" requirements.lock /wheels/

FROM python:${PYTHON}-slim AS base
# One BLAS thread per process: workers are what uses the cores.
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1
RUN groupadd --gid 10001 localrank \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin localrank \
    && install --directory --owner=10001 --group=10001 /models /work

FROM base AS train
# LightGBM needs the OpenMP runtime.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libgomp1 \
    && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    /wheels/uv pip install --system --no-cache --constraints /wheels/requirements.lock \
        "$(echo /wheels/localrank-*.whl)[train]"
USER 10001:10001
WORKDIR /work
ENV LOCALRANK_MODELS_DIR=/models
VOLUME /models
ENTRYPOINT ["localrank"]
CMD ["--help"]

FROM base AS serve
RUN --mount=type=bind,from=wheel,source=/wheels,target=/wheels \
    /wheels/uv pip install --system --no-cache --constraints /wheels/requirements.lock \
        "$(echo /wheels/localrank-*.whl)[serve,remote]"
COPY --chown=10001:10001 models/demo /models/demo
USER 10001:10001
WORKDIR /work
ENV LOCALRANK_MODELS_DIR=/models \
    LOCALRANK_HOST=0.0.0.0 \
    LOCALRANK_PORT=8080
VOLUME /models
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import os, urllib.request as u; u.urlopen(f\"http://127.0.0.1:{os.environ['LOCALRANK_PORT']}/readyz\", timeout=2)"]
ENTRYPOINT ["localrank"]
CMD ["serve"]
