"""Started by path, with any Python from 3.8 on and nothing on its import path: loads its own folder and runs the service."""

import importlib.util
import os
import sys

PACKAGE = "placet_runner"


def load() -> None:
    """Make this folder importable under a name of its own, without touching the import path."""
    folder = os.path.dirname(os.path.abspath(__file__))
    init = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location(PACKAGE, init, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError("cannot load " + folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)


if __name__ == "__main__":
    load()
    sys.exit(importlib.import_module(PACKAGE + ".service").main())
