"""Memory of image models: denoiser, text encoders and decoder side by side; the decoder's picture is the peak.

Rougher than the rest: stacks offload, tile and slice in many ways, which the lower bound stands for.
"""

from placet.domain.models import ModelUse
from placet.stages.memory import common
from placet.stages.memory.setting import TRAINING, Setting
from placet.stages.memory.shapes import BITS
from placet.stages.memory.values import Part, span

# The decoder ends with some twelve tensors of 128 channels at full size, in 16 bits.
_DECODED_BYTES_PER_PIXEL = 3072
# The denoiser sees the picture at an eighth of its size, twice per step when it is guided.
_DENOISED_BYTES_PER_PIXEL = 512
_TRAINED_BYTES_PER_PIXEL = 4096
_USUAL_DENOISER = 2.6e9
_LORA_SHARE = 0.02


def parts(setting: Setting) -> tuple[Part, ...]:
    """Everything on one GPU while it makes pictures, or learns from them."""
    held = (_denoiser(setting), _companions(setting), *(_trained(setting) if setting.use in TRAINING else ()))
    moving = (_learning(setting) if setting.use in TRAINING else _making(setting),)
    return (*held, *moving, common.fragmentation(moving), *common.beside(setting))


def _denoiser(setting: Setting) -> Part:
    size = setting.facts.parameters * BITS[setting.precision][1] / 8
    low = size if setting.use in TRAINING else size * 0.5
    why = f"{setting.facts.parameters / 10**9:.3g} B parameters in {setting.precision}"
    return Part(name=common.WEIGHTS, size=span(low, size, size), why=why)


def _companions(setting: Setting) -> Part:
    size = setting.facts.companions * 2
    why = f"{setting.facts.companions / 10**9:.3g} B parameters of text encoders and image decoder in 16 bits"
    return Part(name="companions", size=span(0, size, size * 2), why=why + "; may wait in main memory")


def _making(setting: Setting) -> Part:
    pixels = setting.pixels * setting.batch
    decoded = pixels * _DECODED_BYTES_PER_PIXEL
    denoised = pixels * _DENOISED_BYTES_PER_PIXEL * (setting.facts.parameters / _USUAL_DENOISER) ** 0.5
    likely = max(decoded, denoised)
    why = f"{setting.batch} x {setting.pixels / 10**6:.2f} megapixels; less when the decoder works in tiles"
    return Part(name=common.WORKING, size=span(denoised * 0.5, likely, likely * 2), why=why)


def _learning(setting: Setting) -> Part:
    pixels = setting.pixels * setting.batch
    checkpointed = pixels * _TRAINED_BYTES_PER_PIXEL * (setting.facts.parameters / _USUAL_DENOISER) ** 0.5
    factor = 1.0 if setting.checkpointing else 3.0
    top = 2.0 if setting.checkpointing and setting.checkpointing_stated else 6.0
    why = f"{setting.batch} x {setting.pixels / 10**6:.2f} megapixels; a rough figure"
    size = span(checkpointed * factor * 0.5, checkpointed * factor, checkpointed * top)
    return Part(name=common.ACTIVATIONS, size=size, why=why)


def _trained(setting: Setting) -> tuple[Part, ...]:
    trained = setting.facts.parameters
    if setting.use is ModelUse.FULL_FINE_TUNE:
        size = span(trained * 4, trained * 6, trained * 16)
        return (Part(name="gradients and state", size=size, why="2 bytes of gradient and 4 of state per parameter"),)
    size = span(trained * _LORA_SHARE, trained * _LORA_SHARE * 8, trained * _LORA_SHARE * 16)
    return (Part(name="adapters", size=size, why=f"about {_LORA_SHARE:.0%} of the parameters, with state"),)
