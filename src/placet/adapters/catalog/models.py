"""What a model says of itself: a local folder, or the Hugging Face hub where the operator allows it.

Reads are bounded in bytes, files and time. The hub is asked only for models that are neither known nor described, and
when it does not answer nothing is lost: the estimate is then made from what the hint says.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urljoin, urlsplit

from placet.domain.models import Architecture, ModelHint, ModelKind
from placet.domain.problems import Problem
from placet.domain.spec import Spec
from placet.stages.memory.estimate import architecture_of
from placet.stages.memory.reading import (
    UnreadableModel,
    architecture_of_config,
    dtype_bytes,
    header_length,
    parameters_of_header,
    parameters_of_index,
)
from placet.stages.memory.shapes import guessed_architecture
from placet.stages.memory.values import UnknownModel

if TYPE_CHECKING:
    import httpx

HUB = "https://huggingface.co"
HUB_WITHIN_S = 3.0

_CONFIG_BYTES_MAX = 4 * 10**6
_FILES_MAX = 1000
_REDIRECTS_MAX = 3
_DENOISERS = ("unet", "transformer")
_USUAL_SIDE = 1024
_LATENT_SCALE = 8


class ModelCatalog:
    """Fills in the architecture of a spec's model. Constructing reads nothing; every method may block."""

    def __init__(self, *, hub: str | None = None, within_s: float = HUB_WITHIN_S) -> None:
        self._hub = hub
        self._within_s = within_s

    def complete(self, spec: Spec) -> Spec:
        """The spec with what was read about its model; unchanged when there is nothing to read or it cannot be."""
        hint = spec.model
        if hint is None or hint.architecture is not None:
            return spec
        facts = self._described(hint)
        return spec if facts is None else replace(spec, model=replace(hint, architecture=facts))

    def check(self, spec: Spec) -> tuple[Problem, ...]:
        """Why the folder of the model cannot be used, if it cannot."""
        hint = spec.model
        if hint is None or hint.folder is None or hint.architecture is not None:
            return ()
        try:
            read_folder(Path(hint.folder).expanduser())
        except (OSError, UnreadableModel) as error:
            return (
                Problem(
                    code="missing_input",
                    field="model.folder",
                    what=f"{hint.folder} does not describe a model: {_reason(error)}",
                    why="the need of GPU memory is derived from what stands there",
                    fix="check the path, or state `model.parameters` instead",
                ),
            )
        return ()

    def _described(self, hint: ModelHint) -> Architecture | None:
        if hint.folder is not None:
            try:
                return read_folder(Path(hint.folder).expanduser())
            except (OSError, UnreadableModel):
                return None  # `check` tells why
        if self._hub is None or hint.id is None or not _asks(hint):
            return None
        try:
            return _from_hub(self._hub, hint.id, self._within_s)
        except UnreadableModel:
            return None  # an aid, not a source: the hint is sized without it


def read_folder(path: Path) -> Architecture:
    """The architecture that a folder, a ``config.json`` or a safetensors file describes.

    Raises:
        OSError: it cannot be read.
        UnreadableModel: it holds no description of a model.
    """
    if path.is_file() and path.suffix == ".safetensors":
        return guessed_architecture(_file_parameters(path), path.stem, "by its safetensors header")
    if path.is_file():
        return architecture_of_config(_json(path), path.parent.name or path.stem)
    if (path / "model_index.json").is_file():
        return _pipeline(path)
    stored = _folder_parameters(path)
    if (path / "config.json").is_file():
        config = _json(path / "config.json")
        # Quantised weights are packed: their headers do not count parameters.
        parameters = None if "quantization_config" in config else stored or _index_parameters(path, config)
        return architecture_of_config(config, path.name, parameters)
    if stored is None:
        raise UnreadableModel("there is neither config.json nor a safetensors file")
    return guessed_architecture(stored, path.name, "by its safetensors headers")


def _asks(hint: ModelHint) -> bool:
    known = architecture_of(hint)
    return isinstance(known, UnknownModel) or known.guessed


def _reason(error: OSError | UnreadableModel) -> str:
    return (error.strerror or "it cannot be read") if isinstance(error, OSError) else str(error)


def _json(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        data = file.read(_CONFIG_BYTES_MAX + 1)
    return _mapping(data, path.name)


def _mapping(data: bytes, name: str) -> dict[str, object]:
    try:
        held = json.loads(data) if len(data) <= _CONFIG_BYTES_MAX else None
    except (ValueError, RecursionError):
        held = None
    if not isinstance(held, dict):
        raise UnreadableModel(f"{name} is not a JSON mapping of reasonable size")
    return held


def _file_parameters(path: Path) -> int:
    with path.open("rb") as file:
        length = header_length(file.read(8))
        return parameters_of_header(file.read(length))


def _weights(folder: Path) -> Iterator[Path]:
    """One set of weights: of several precisions beside each other, the plain one."""
    found = sorted(path for path in folder.glob("*.safetensors") if path.is_file())[:_FILES_MAX]
    plain = [path for path in found if ".fp16." not in path.name and ".non_ema." not in path.name]
    yield from plain or found


def _folder_parameters(folder: Path) -> int | None:
    return sum(_file_parameters(path) for path in _weights(folder)) or None


def _index_parameters(folder: Path, config: dict[str, object]) -> int | None:
    index = folder / "model.safetensors.index.json"
    return parameters_of_index(_json(index), dtype_bytes(config)) if index.is_file() else None


def _pipeline(folder: Path) -> Architecture:
    """A diffusion pipeline: a folder per component."""
    parts = {part.name: _folder_parameters(part) or 0 for part in sorted(folder.iterdir()) if part.is_dir()}
    main = next((name for name in _DENOISERS if parts.get(name)), None)
    if main is None:
        raise UnreadableModel("its denoiser has no safetensors file")
    config = folder / main / "config.json"
    latent = _json(config).get("sample_size") if config.is_file() else None
    side = latent * _LATENT_SCALE if isinstance(latent, int) and 0 < latent < _USUAL_SIDE else _USUAL_SIDE
    return Architecture(
        name=folder.name,
        kind=ModelKind.DIFFUSION,
        parameters=parts[main],
        companions=sum(parts.values()) - parts[main],
        image_side=side,
        source="its safetensors headers",
    )


def _from_hub(hub: str, model_id: str, within_s: float) -> Architecture:
    if model_id.count("/") != 1 or ".." in model_id:
        raise UnreadableModel("ids of the hub have an organisation and a name")
    import httpx  # few servers ask the hub, and every server would load it at its start

    place = quote(model_id, safe="/")
    try:
        with httpx.Client(timeout=within_s, follow_redirects=False) as client:
            config = _mapping(_fetch(client, f"{hub}/{place}/resolve/main/config.json"), "config.json")
            told = _mapping(_fetch(client, f"{hub}/api/models/{place}?expand[]=safetensors"), "the answer")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise UnreadableModel("the hub does not answer") from error
    stored = told.get("safetensors")
    total = stored.get("total") if isinstance(stored, dict) else None
    parameters = total if isinstance(total, int) and total > 0 and "quantization_config" not in config else None
    return replace(architecture_of_config(config, model_id, parameters), source="the Hugging Face hub")


def _fetch(client: "httpx.Client", url: str) -> bytes:
    """The body of one answer, bounded; redirects stay on the hub."""
    host = urlsplit(url).netloc
    for _ in range(_REDIRECTS_MAX + 1):
        with client.stream("GET", url) as answer:
            if answer.is_redirect:
                url = urljoin(url, answer.headers.get("location", ""))
                if urlsplit(url).netloc != host:
                    raise UnreadableModel("the hub points elsewhere")
                continue
            answer.raise_for_status()
            data = b""
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > _CONFIG_BYTES_MAX:
                    raise UnreadableModel("the answer is too large")
            return data
    raise UnreadableModel("the hub points around in circles")
