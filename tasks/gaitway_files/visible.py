"""Text that comes from a file or a network, made safe to be shown on a terminal."""

from __future__ import annotations

KEPT = "\n\t"
CONTROLS = (*range(0x20), *range(0x7F, 0xA0))  # C0, DEL and C1: a terminal takes them for commands
TURNS = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))  # show what follows in another order
_ESCAPES = {number: ascii(chr(number))[1:-1] for number in (*CONTROLS, *TURNS) if chr(number) not in KEPT}


def visible(text: str) -> str:
    """``text`` with every control character written out, such as ``\\x1b``; line ends and tabs stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_ESCAPES)
