"""``https:`` with a certificate of the test's own: it is checked, and what comes behind it is a bundle."""

from __future__ import annotations

import datetime
import http.server
import ipaddress
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cryptography")

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from published_bundle import folder_handler

from gaitway.cli import main


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Certificate and key of 127.0.0.1 in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "a test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.write_bytes(made.public_bytes(Encoding.PEM) + secret)
    return path


def test_a_certificate_is_checked(shelf, certificate, tmp_path, monkeypatch, capsys: Any):
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), folder_handler(shelf)) as server:
        server.daemon_threads, server.block_on_close = True, False
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        source, out = f"https://127.0.0.1:{server.server_address[1]}/stand", tmp_path / "out"
        try:
            assert main(["pull", source, "--out", str(out)]) == 1
            assert "certificate" in capsys.readouterr().err and not out.exists()
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
            assert main(["pull", source, "--out", str(out)]) == 0
            assert {path.name: path.read_bytes() for path in out.iterdir()} == {
                path.name: path.read_bytes() for path in (shelf / "stand").iterdir()
            }
        finally:
            server.shutdown()
            thread.join()
