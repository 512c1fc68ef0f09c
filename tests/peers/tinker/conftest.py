from served_model import address, base  # noqa: F401
