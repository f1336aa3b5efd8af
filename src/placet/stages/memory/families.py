"""Facts of well-known model families, and which of them a model's id means. Only published shapes; nothing derived.

``params`` is in millions. The pattern is searched in the id without its organisation, in small letters, with ``-`` for
every ``_``, ``.``, ``:`` and blank; the first line that matches counts. Variants that share a shape (instruct, chat,
distilled into it) share a line.
"""

import re
from functools import cache

from placet.domain.models import Architecture, ModelKind, Precision

SOURCE = "the table of known models"

# name | params | layers | hidden | heads | kv heads | head size | intermediate | vocabulary | context | flags | pattern
_DECODERS = r"""
Llama 3.2 1B | 1235.8 | 16 | 2048 | 32 | 8 | 64 | 8192 | 128256 | 131072 | tied | llama.*\b1b\b
Llama 3.2 3B | 3212.7 | 28 | 3072 | 24 | 8 | 128 | 8192 | 128256 | 131072 | tied | llama.*\b3b\b
Llama 3.2 11B Vision | 10670.2 | 40 | 4096 | 32 | 8 | 128 | 14336 | 128256 | 131072 | - | llama.*\b11b\b
Llama 3.2 90B Vision | 88592.0 | 100 | 8192 | 64 | 8 | 128 | 28672 | 128256 | 131072 | - | llama.*\b90b\b
TinyLlama 1.1B | 1100.0 | 22 | 2048 | 32 | 4 | 64 | 5632 | 32000 | 2048 | - | tinyllama
Llama 2 7B | 6738.4 | 32 | 4096 | 32 | 32 | 128 | 11008 | 32000 | 4096 | - | llama.*\b7b\b|vicuna.*\b7b\b
Llama 2 13B | 13015.9 | 40 | 5120 | 40 | 40 | 128 | 13824 | 32000 | 4096 | - | llama.*\b13b\b|vicuna.*\b13b\b
Llama 2 70B | 68976.6 | 80 | 8192 | 64 | 8 | 128 | 28672 | 32000 | 4096 | - | (llama-?2|codellama).*\b70b\b
Llama 3 8B | 8030.3 | 32 | 4096 | 32 | 8 | 128 | 14336 | 128256 | 8192 | - | llama-?3-8b
Llama 3.1 8B | 8030.3 | 32 | 4096 | 32 | 8 | 128 | 14336 | 128256 | 131072 | - | llama.*\b8b\b
Llama 3 70B | 70553.7 | 80 | 8192 | 64 | 8 | 128 | 28672 | 128256 | 8192 | - | llama-?3-70b
Llama 3.1 70B | 70553.7 | 80 | 8192 | 64 | 8 | 128 | 28672 | 128256 | 131072 | - | llama.*\b70b\b
Llama 3.1 405B FP8 | 405853.4 | 126 | 16384 | 128 | 8 | 128 | 53248 | 128256 | 131072 | fp8mlp | llama.*\b405b\b.*fp8
Llama 3.1 405B | 405853.4 | 126 | 16384 | 128 | 8 | 128 | 53248 | 128256 | 131072 | - | llama.*\b405b\b
Mixtral 8x7B | 46702.8 | 32 | 4096 | 32 | 8 | 128 | 14336 | 32000 | 32768 | moe=8,2,14336 | mixtral.*8x7b
Mixtral 8x22B | 140630.1 | 56 | 6144 | 48 | 8 | 128 | 16384 | 32768 | 65536 | moe=8,2,16384 | mixtral.*8x22b
Mistral 7B | 7248.0 | 32 | 4096 | 32 | 8 | 128 | 14336 | 32768 | 32768 | - | mistral.*\b7b\b|zephyr.*\b7b\b
Mistral Nemo 12B | 12247.8 | 40 | 5120 | 32 | 8 | 128 | 14336 | 131072 | 131072 | - | mistral-nemo
Mistral Small 24B | 23572.4 | 40 | 5120 | 32 | 8 | 128 | 32768 | 131072 | 131072 | - | mistral-small.*\b24b\b
Mistral Small 22B | 22247.3 | 56 | 6144 | 48 | 8 | 128 | 16384 | 32768 | 32768 | - | mistral-small
Mistral Large 123B | 122610.1 | 88 | 12288 | 96 | 8 | 128 | 28672 | 32768 | 131072 | - | mistral-large
Qwen3 0.6B | 596.0 | 28 | 1024 | 16 | 8 | 128 | 3072 | 151936 | 40960 | tied | qwen-?3.*\b0-6b\b
Qwen3 1.7B | 1720.6 | 28 | 2048 | 16 | 8 | 128 | 6144 | 151936 | 40960 | tied | qwen-?3.*\b1-7b\b
Qwen3 4B | 4022.5 | 36 | 2560 | 32 | 8 | 128 | 9728 | 151936 | 40960 | tied | qwen-?3.*\b4b\b
Qwen3 8B | 8190.7 | 36 | 4096 | 32 | 8 | 128 | 12288 | 151936 | 40960 | - | qwen-?3.*\b8b\b
Qwen3 14B | 14768.3 | 40 | 5120 | 40 | 8 | 128 | 17408 | 151936 | 40960 | - | qwen-?3.*\b14b\b
Qwen3 32B | 32762.1 | 64 | 5120 | 64 | 8 | 128 | 25600 | 151936 | 40960 | - | qwen-?3.*\b32b\b
Qwen3 30B-A3B | 30532.1 | 48 | 2048 | 32 | 4 | 128 | 6144 | 151936 | 40960 | moe=128,8,768 | qwen-?3.*\b30b
Qwen3 235B-A22B | 235093.6 | 94 | 4096 | 64 | 4 | 128 | 12288 | 151936 | 40960 | moe=128,8,1536 | qwen-?3.*\b235b
Qwen2.5 0.5B | 494.0 | 24 | 896 | 14 | 2 | 64 | 4864 | 151936 | 32768 | tied | qwen.*\b0-5b\b
Qwen2.5 1.5B | 1543.7 | 28 | 1536 | 12 | 2 | 128 | 8960 | 151936 | 32768 | tied | qwen.*\b1-5b\b
Qwen2.5 3B | 3085.9 | 36 | 2048 | 16 | 2 | 128 | 11008 | 151936 | 32768 | tied | qwen.*\b3b\b
Qwen2.5 7B | 7615.6 | 28 | 3584 | 28 | 4 | 128 | 18944 | 152064 | 32768 | - | qwen.*\b7b\b
Qwen2.5 14B | 14770.0 | 48 | 5120 | 40 | 8 | 128 | 13824 | 152064 | 32768 | - | qwen.*\b14b\b
Qwen2.5 32B | 32763.9 | 64 | 5120 | 40 | 8 | 128 | 27648 | 152064 | 32768 | - | qwen.*\b32b\b
Qwen2.5 72B | 72706.2 | 80 | 8192 | 64 | 8 | 128 | 29568 | 152064 | 32768 | - | qwen.*\b72b\b
Gemma 2 2B | 2614.3 | 26 | 2304 | 8 | 4 | 256 | 9216 | 256000 | 8192 | tied,window=4096,50 | gemma-?2-2b
Gemma 2 9B | 9241.7 | 42 | 3584 | 16 | 8 | 256 | 14336 | 256000 | 8192 | tied,window=4096,50 | gemma-?2-9b
Gemma 2 27B | 27227.1 | 46 | 4608 | 32 | 16 | 128 | 36864 | 256000 | 8192 | tied,window=4096,50 | gemma-?2-27b
Gemma 3 1B | 999.9 | 26 | 1152 | 4 | 1 | 256 | 6912 | 262144 | 32768 | tied,window=512,84 | gemma-?3-1b
Gemma 3 4B | 4300.1 | 34 | 2560 | 8 | 4 | 256 | 10240 | 262208 | 131072 | tied,window=1024,83 | gemma-?3-4b
Gemma 3 12B | 12187.3 | 48 | 3840 | 16 | 8 | 256 | 15360 | 262208 | 131072 | tied,window=1024,83 | gemma-?3-12b
Gemma 3 27B | 27432.4 | 62 | 5376 | 32 | 16 | 128 | 21504 | 262208 | 131072 | tied,window=1024,83 | gemma-?3-27b
Phi-4 mini | 3836.0 | 32 | 3072 | 24 | 8 | 128 | 8192 | 200064 | 131072 | tied | phi-?4-mini
Phi-4 | 14659.5 | 40 | 5120 | 40 | 10 | 128 | 17920 | 100352 | 16384 | - | phi-?4
Phi-3 medium | 13960.2 | 40 | 5120 | 40 | 10 | 128 | 17920 | 32064 | 131072 | - | phi-?3(-5)?-medium
Phi-3 mini | 3821.1 | 32 | 3072 | 32 | 32 | 96 | 8192 | 32064 | 131072 | - | phi-?3(-5)?-mini
DeepSeek V2 Lite | 15706 | 27 | 2048 | 16 | 16 | 128 | 10944 | 102400 | 32768 | moe=66,8,1408,mla=576 | seek.*v2-lite
DeepSeek V2 | 235741.4 | 60 | 5120 | 128 | 128 | 128 | 12288 | 102400 | 131072 | moe=162,8,1536,mla=576 | seek.*v2
DeepSeek V3 | 671026.4 | 61 | 7168 | 128 | 128 | 128 | 18432 | 129280 | 163840 | moe=257,9,2048,mla=576 | seek-(v3|r1)
GPT-2 | 124.4 | 12 | 768 | 12 | 12 | 64 | 3072 | 50257 | 1024 | tied,plain | ^(distil)?gpt-?2$
GPT-2 XL | 1557.6 | 48 | 1600 | 25 | 25 | 64 | 6400 | 50257 | 1024 | tied,plain | gpt-?2-xl
"""

_ENCODERS = r"""
MiniLM L6 | 22.7 | 6 | 384 | 12 | 12 | 32 | 1536 | 30522 | 512 | - | minilm-l6
BGE small | 33.4 | 12 | 384 | 12 | 12 | 32 | 1536 | 30522 | 512 | - | (bge|e5|gte)-small
BGE M3 | 567.8 | 24 | 1024 | 16 | 16 | 64 | 4096 | 250002 | 8192 | - | bge-m3
Multilingual E5 base | 278.0 | 12 | 768 | 12 | 12 | 64 | 3072 | 250002 | 512 | - | lingual-e5-base|xlm-roberta-base
Multilingual E5 large | 559.9 | 24 | 1024 | 16 | 16 | 64 | 4096 | 250002 | 512 | - | lingual-e5-large|xlm-roberta-large
Nomic Embed | 136.7 | 12 | 768 | 12 | 12 | 64 | 3072 | 30528 | 8192 | - | nomic-embed
BERT base | 109.5 | 12 | 768 | 12 | 12 | 64 | 3072 | 30522 | 512 | - | bert-base|(bge|e5|gte)-base|mpnet-base
BERT large | 335.1 | 24 | 1024 | 16 | 16 | 64 | 4096 | 30522 | 512 | - | bert-large|(bge|e5|gte)-large
"""

_SPEECH = r"""
Whisper large | 1543.5 | 32 | 1280 | 20 | 20 | 64 | 5120 | 51866 | 448 | - | whisper-large
Whisper medium | 763.9 | 24 | 1024 | 16 | 16 | 64 | 4096 | 51865 | 448 | - | whisper-medium
Whisper small | 241.7 | 12 | 768 | 12 | 12 | 64 | 3072 | 51865 | 448 | - | whisper-small
Whisper base | 72.6 | 6 | 512 | 8 | 8 | 64 | 2048 | 51865 | 448 | - | whisper-base
Whisper tiny | 37.8 | 4 | 384 | 6 | 6 | 64 | 1536 | 51865 | 448 | - | whisper-tiny
"""

# name | params of the denoiser | params of text encoders and image decoder | usual side in pixels | pattern
_DIFFUSION = r"""
FLUX.1 | 11901.4 | 4969.3 | 1024 | flux
Stable Diffusion 3.5 large | 8056.6 | 5660.0 | 1024 | (stable-diffusion|sd)-?3-5-large
Stable Diffusion 3 medium | 2085.0 | 5660.0 | 1024 | (stable-diffusion|sd)-?3
SDXL | 2567.5 | 901.0 | 1024 | sdxl|stable-diffusion-xl|sd-xl
Stable Diffusion 2 | 865.9 | 424.0 | 768 | (stable-diffusion|sd)-?(v?2)
Stable Diffusion 1.5 | 859.5 | 206.7 | 512 | (stable-diffusion|sd)-?(v?1)
"""

_STORED = (
    (Precision.FP8, r"\bfp8\b"),
    (Precision.NF4, r"\b(nf4|bnb-4bit)\b"),
    (Precision.INT4, r"\b(awq|gptq|int4|4bit|w4a16)\b"),
    (Precision.INT8, r"\b(int8|8bit|w8a8|w8a16)\b"),
)
_WRITTEN_SIZE = re.compile(r"(?<![a-z0-9.])(?:(\d{1,3})x)?(\d{1,4}(?:\.\d{1,2})?)([bm])(?![a-z0-9])")


def known_architecture(model_id: str) -> Architecture | None:
    """The facts of the family that the id names, or ``None``."""
    name = plain_id(model_id)
    return next((facts for pattern, facts in _table() if pattern.search(name)), None)


def all_known() -> tuple[Architecture, ...]:
    return tuple(facts for _, facts in _table())


def written_parameters(model_id: str) -> int | None:
    """The size that many ids end in: ``example-7b`` has 7e9 parameters, ``8x7b`` somewhat less than 56e9."""
    sizes = [
        int(float(number) * (10**9 if unit == "b" else 10**6) * (int(times) * 0.83 if times else 1))
        for times, number, unit in _WRITTEN_SIZE.findall(model_id.rpartition("/")[2].lower())
    ]
    return max(sizes, default=None)


def written_precision(model_id: str) -> Precision | None:
    """How the weights of that repository are stored, where its name says so."""
    name = plain_id(model_id)
    return next((precision for precision, pattern in _STORED if re.search(pattern, name)), None)


def plain_id(model_id: str) -> str:
    return re.sub(r"[_.:\s]", "-", model_id.rpartition("/")[2].lower())


@cache
def _table() -> tuple[tuple[re.Pattern[str], Architecture], ...]:
    kinds = ((_DIFFUSION, ModelKind.DIFFUSION), (_SPEECH, ModelKind.ENCODER_DECODER), (_DECODERS, ModelKind.DECODER),
             (_ENCODERS, ModelKind.ENCODER))  # fmt: skip
    return tuple(
        (re.compile(cells[-1]), _diffusion(cells) if kind is ModelKind.DIFFUSION else _transformer(cells, kind))
        for text, kind in kinds
        for line in text.strip().splitlines()
        if (cells := line.split(" | "))
    )


def _transformer(cells: list[str], kind: ModelKind) -> Architecture:
    layers, hidden, heads, kv_heads, head_size, intermediate, vocabulary, context = map(int, cells[2:10])
    flags = dict(re.findall(r"([a-z0-9]+?)=([0-9.,]+)(?:,|$)", cells[10]))
    moe = [int(number) for number in flags.get("moe", "0,0,0").split(",")]
    window, _, share = flags.get("window", "0,0").partition(",")
    return Architecture(
        name=cells[0],
        kind=kind,
        parameters=int(float(cells[1]) * 10**6),
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        head_size=head_size,
        intermediate=intermediate,
        vocabulary=vocabulary,
        tied="tied" in cells[10],
        gated=kind is ModelKind.DECODER and "plain" not in cells[10],
        experts=moe[0],
        experts_active=moe[1],
        expert_width=moe[2],
        kv_latent=int(flags.get("mla", "0")),
        window=int(window),
        windowed_percent=int(share),
        context_tokens=context,
        fp8_only_mlp="fp8mlp" in cells[10],
        source=SOURCE,
    )


def _diffusion(cells: list[str]) -> Architecture:
    return Architecture(
        name=cells[0],
        kind=ModelKind.DIFFUSION,
        parameters=int(float(cells[1]) * 10**6),
        companions=int(float(cells[2]) * 10**6),
        image_side=int(cells[3]),
        source=SOURCE,
    )
