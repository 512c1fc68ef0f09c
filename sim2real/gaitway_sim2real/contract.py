"""The bundle's contract, for the host side. It lives in the on-board half, which must stand alone; this is its door."""

from .onboard.contract import (
    CONTRACT_FILE,
    CONTRACT_VERSION,
    Action,
    Actuator,
    BundleError,
    Contract,
    HeightScan,
    Signal,
    TermLayout,
    is_bundle,
    sha256,
    verify_files,
)

__all__ = [
    "CONTRACT_FILE",
    "CONTRACT_VERSION",
    "Action",
    "Actuator",
    "BundleError",
    "Contract",
    "HeightScan",
    "Signal",
    "TermLayout",
    "is_bundle",
    "sha256",
    "verify_files",
]
