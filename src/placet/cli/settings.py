"""The settings of a server that this command line starts."""

from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options

if TYPE_CHECKING:
    from placet.config import Settings


def settings_for(options: Options, overrides: dict[str, object] | None = None) -> "Settings":
    """What files and environment say, with what the command line says on top."""
    from placet.config import SettingsError, load_settings

    named: dict[str, object] = dict(overrides or {})
    if options.data_dir is not None:
        named["data_dir"] = options.data_dir
    try:
        return load_settings(options.config, named)
    except SettingsError as error:
        fix = "see the reference of settings; `placet doctor` shows which folder is used"
        raise Stop("bad_settings", str(error), fix, Exit.REFUSED) from error


def shown(path: Path) -> str:
    """A path as its owner would write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and home != Path("/") else str(path)
