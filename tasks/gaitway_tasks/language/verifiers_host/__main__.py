"""Start of the program: makes its folder a package, without what lies beside it."""

import asyncio
import importlib
import importlib.util
import sys
from pathlib import Path

NAME = "verifiers_host"

if __name__ == "__main__":
    folder = Path(__file__).parent
    spec = importlib.util.spec_from_file_location(
        NAME, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    package = sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    asyncio.run(importlib.import_module(f"{NAME}.host").main())
