"""Authorities of a test's own, and the certificates that they give: good, expired, for another name."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PEM = serialization.Encoding.PEM
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes

    def locked(self, passphrase: bytes = b"secret") -> bytes:
        """The key under a passphrase."""
        key = serialization.load_pem_private_key(self.key, None)
        how = serialization.BestAvailableEncryption(passphrase)
        return key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, how)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


class Authority:
    """Whoever trusts `certificate` trusts what it gives."""

    def __init__(self, name: str = "a test's authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        builder = self._builder(self._name, self._key.public_key(), datetime.timedelta(days=30))
        self._certificate = builder.add_extension(x509.BasicConstraints(True, None), True).sign(
            self._key, hashes.SHA256()
        )
        self.certificate = self._certificate.public_bytes(PEM)

    def pair(self, *names: str, days: int = 30, common_name: str = "memsvc", caller: bool = False) -> Pair:
        """A certificate for these DNS names or IP addresses that ends in so many days, which can have been."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(_name(common_name), key.public_key(), days * DAY)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_general(name) for name in names]), False)
        usage = ExtendedKeyUsageOID.CLIENT_AUTH if caller else ExtendedKeyUsageOID.SERVER_AUTH
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), False)
        certificate = builder.sign(self._key, hashes.SHA256())
        no_passphrase = serialization.NoEncryption()
        return Pair(
            certificate.public_bytes(PEM), key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, no_passphrase)
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, valid: datetime.timedelta
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 60 * DAY)
            .not_valid_after(now + valid)
        )


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
