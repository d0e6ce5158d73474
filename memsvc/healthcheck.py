"""The command `memsvc healthcheck`: asks the daemon at MEMSVC_LISTEN whether it serves.

It starts every few seconds in a container, so it loads little. Over TLS it takes whatever certificate it is shown for
good: it wants a yes or no of its own machine, and a name that callers would not accept is a matter for them.
"""

from __future__ import annotations

import argparse
import os
import socket
import ssl
import sys
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from memsvc import config, tls
from memsvc.config import Settings
from memsvc.errors import SettingWrong


def run(options: argparse.Namespace) -> int:
    """Prints the status; returns 0 where it is SERVING."""
    # Credentials that broke under a running daemon are a matter of its log: it serves on with the old ones.
    settings = config.load(os.environ | {"MEMSVC_CREDENTIALS_FILE": "", "MEMSVC_ALLOW_REMOTE": "true"})
    host, port = config.host_port(settings.listen)
    if host in ("0.0.0.0", "[::]"):
        host = "127.0.0.1"
    try:
        with _channel(settings, host, port, options.timeout) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=options.timeout)
    except grpc.RpcError as error:
        return _silent(host, port, error.code().name)
    except OSError as error:
        return _silent(host, port, type(error).__name__)
    name = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    print(name)
    return 0 if name == "SERVING" else 1


def _silent(host: str, port: int, why: str) -> int:
    print(f"memsvc: {host}:{port} does not answer ({why})", file=sys.stderr)
    return 1


def _channel(settings: Settings, host: str, port: int, timeout_s: float) -> grpc.Channel:
    if not settings.tls_certificate:
        return grpc.insecure_channel(f"{host}:{port}")
    pem, name = _shown(host.strip("[]"), port, timeout_s)
    certificate = key = None
    if settings.tls_client_ca:
        certificate = _read(settings, "healthcheck_certificate", "tls_certificate")
        key = _read(settings, "healthcheck_key", "tls_key")
    credentials = grpc.ssl_channel_credentials(pem.encode(), key, certificate)
    return grpc.secure_channel(f"{host}:{port}", credentials, [("grpc.ssl_target_name_override", name)])


def _shown(host: str, port: int, timeout_s: float) -> tuple[str, str]:
    """Returns the certificate that the daemon shows, as PEM, and a name that stands in it."""
    pem = ssl.get_server_certificate((host, port), timeout=timeout_s)
    with (
        socket.create_connection((host, port), timeout_s) as plain,
        tls.trusting(pem).wrap_socket(plain) as secured,
    ):
        shown: dict[str, Any] = secured.getpeercert() or {}
    names = [value for _, value in shown.get("subjectAltName", ())]
    names += [value for part in shown.get("subject", ()) for kind, value in part if kind == "commonName"]
    return pem, names[0].replace("*", "any") if names else host


def _read(settings: Settings, name: str, otherwise: str) -> bytes:
    used = name if getattr(settings, name) else otherwise
    path = str(getattr(settings, used))
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SettingWrong(config.variable(used), f"{path} cannot be read: {error.strerror}") from None
