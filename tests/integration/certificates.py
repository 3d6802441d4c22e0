"""A certificate authority of a test's own, and a server's certificate that it signed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID


def write_certificates(folder: Path, host: str) -> list[str]:
    """Write ``ca.pem`` and a certificate for ``host``; the server's arguments that use them."""
    folder.mkdir()
    authority, own = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in "ab")
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"tests of {host}")])
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    name = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
    ca = _builder(issuer, issuer, authority).add_extension(x509.BasicConstraints(True, None), True)
    cert = _builder(subject, issuer, own).add_extension(x509.SubjectAlternativeName([name]), False)
    pem = serialization.Encoding.PEM
    for file, builder in (("ca.pem", ca), ("cert.pem", cert)):
        (folder / file).write_bytes(builder.sign(authority, hashes.SHA256()).public_bytes(pem))
    plain = serialization.NoEncryption()
    old = serialization.PrivateFormat.TraditionalOpenSSL  # MySQL 8.0.12 reads no other
    (folder / "key.pem").write_bytes(own.private_bytes(pem, old, plain))
    files = {"ca": "ca.pem", "cert": "cert.pem", "key": "key.pem"}
    return ["--ssl=1", *(f"--ssl-{what}={folder / file}" for what, file in files.items())]


def _builder(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
