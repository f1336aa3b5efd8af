"""The settings of a server that this command line starts, or that are named for one that is there."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from placet.cli.exits import Exit
from placet.cli.failures import Stop
from placet.cli.options import Options
from placet.cli.output import note
from placet.sdk import places
from placet.sdk.location import answers

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
        named_file = options.config is not None or os.environ.get("PLACET_CONFIG")
        fix = f"{'check --config and PLACET_CONFIG; ' if named_file else ''}the reference of settings lists them all"
        raise Stop("bad_settings", str(error), fix, Exit.REFUSED) from error


def check_named(options: Options) -> None:
    """Refuses settings that somebody names and nobody can read, also where this command would not need them.

    Raises:
        Stop: the file of ``--config`` or ``PLACET_CONFIG`` is missing, or is none with settings.
    """
    if options.config is not None or os.environ.get("PLACET_CONFIG"):
        settings_for(options)
    _tell_if_not_in_effect(options)


def _tell_if_not_in_effect(options: Options) -> None:
    """A server reads its settings once: those that are named later change nothing until it ends."""
    if options.data_dir is None and (options.url or os.environ.get("PLACET_URL")):
        return
    data = options.data_dir or places.data_dir(os.environ)
    read = places.server_stamp(data)
    named = options.config or places.config_path(os.environ)
    digest, _, other = ("" if read is None else read).partition(" ")
    mine = places.stamp(named).partition(" ")[0]
    if read is None or not mine or mine == digest or not answers(places.socket_path(data)):
        return
    same_file = other == str(named)
    has = "an earlier text of it" if same_file else other if digest else "no settings file"
    note(
        f"placet: {shown(named)} is not in effect: the server of {shown(data)} was started with {has}; "
        "it takes other settings when it is started again",
        style="yellow",
    )


def shown(path: Path) -> str:
    """A path as its owner would write it."""
    home = Path.home()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) and home != Path("/") else str(path)
