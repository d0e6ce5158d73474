# The daemon and the console, and nothing else: no compiler, no pip, no shell script, a user without rights, and one folder that it writes.

FROM python:3.12-slim AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN python -m venv --without-pip /opt/memsvc

# What the daemon stands on comes first: it changes seldom, and this layer with it.
COPY locks locks
RUN pip --python /opt/memsvc/bin/python install --no-compile --require-hashes -r locks/run.txt \
 && pip install --require-hashes -r locks/build.txt

COPY pyproject.toml README.md LICENSE ./
COPY memsvc memsvc
COPY clients/python clients/python
COPY clients/console clients/console
RUN pip wheel --no-deps --no-build-isolation --wheel-dir dist . \
 && pip --python /opt/memsvc/bin/python install --no-compile --no-deps dist/*.whl

# Bytecode is made here, since nothing can be written later. It does not look at times, which copying may change.
RUN python -m compileall -q --invalidation-mode unchecked-hash /opt/memsvc/lib


FROM python:3.12-slim
LABEL org.opencontainers.image.title="memsvc" \
      org.opencontainers.image.description="A memory daemon for AI agents, behind gRPC" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN useradd --system --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin memsvc \
 && install --directory --owner memsvc --group memsvc /data /tokens \
 && install --directory --owner memsvc --group memsvc --mode 0700 /console /tokens/runner /tokens/reviewer /tokens/admin
COPY --from=build /opt/memsvc /opt/memsvc
ENV PATH=/opt/memsvc/bin:$PATH

# Loads all of the daemon and its tokenizer: the encoding is in the image, or the build fails. It also leaves the bytecode
# of those parts of the standard library that the daemon uses; the base image has none, and the health check starts often.
RUN python -c "from memsvc import __main__, app; from memsvc.config import Settings; \
from memsvc.tokens import Tokenizer; Tokenizer(Settings().tokenizer); from memsvc_console import __main__" \
 && rm -rf /tmp/*

# Off loopback the daemon wants credentials (`memsvc token init --directory /tokens` makes some into volumes mounted there),
# or MEMSVC_ALLOW_REMOTE=true where the network keeps others out; and MEMSVC_TLS_CERTIFICATE with MEMSVC_TLS_KEY, or
# MEMSVC_ALLOW_PLAINTEXT=true where something else encrypts.
ENV PYTHONDONTWRITEBYTECODE=1 \
    TIKTOKEN_CACHE_DIR= \
    MEMSVC_LISTEN=0.0.0.0:50051 \
    MEMSVC_DATABASE=/data/memsvc.db
USER memsvc
WORKDIR /data
VOLUME /data
EXPOSE 50051
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["memsvc", "healthcheck"]

# No shell in between: the daemon is the first process, gets SIGTERM itself, and drains.
ENTRYPOINT ["memsvc"]
CMD ["serve"]
