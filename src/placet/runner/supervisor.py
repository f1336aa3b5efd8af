"""Started by path, with any Python from 3.8 on and nothing on its import path: loads its own folder and runs the
service.

The folder is made known under the name it has in the project, below a ``placet`` that holds nothing else.
"""

import importlib
import importlib.util
import os
import sys
import types


def load() -> None:
    """Make this folder importable as ``placet.runner`` without touching the import path."""
    folder = os.path.dirname(os.path.abspath(__file__))
    parent = types.ModuleType("placet")
    parent.__path__ = []
    sys.modules["placet"] = parent
    init = os.path.join(folder, "__init__.py")
    spec = importlib.util.spec_from_file_location("placet.runner", init, submodule_search_locations=[folder])
    if spec is None or spec.loader is None:
        raise ImportError("cannot load " + folder)
    module = importlib.util.module_from_spec(spec)
    sys.modules["placet.runner"] = module
    spec.loader.exec_module(module)
    vars(parent)["runner"] = module


if __name__ == "__main__":
    load()
    sys.exit(importlib.import_module("placet.runner.service").main())
